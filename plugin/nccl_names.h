// From NCCL's names and numbers to rankscope's: functions, data types, algorithms, protocols.
//
// Called on the hot path by every launching thread. A name is decided by its bytes each time, never by its address:
// NCCL's strings are static, but a library may be closed and another mapped in its place. Must never: read past the
// page that the name's terminator lies on, allocate, or fail: what is not known is kUnknown.
#ifndef RANKSCOPE_PLUGIN_NCCL_NAMES_H_
#define RANKSCOPE_PLUGIN_NCCL_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "schema/event_abi.h"

#if defined(__SANITIZE_ADDRESS__)
#define RANKSCOPE_READS_BEYOND_THE_NAME __attribute__((no_sanitize_address, noinline)) inline
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RANKSCOPE_READS_BEYOND_THE_NAME __attribute__((no_sanitize("address"), noinline)) inline
#endif
#endif
#if !defined(RANKSCOPE_READS_BEYOND_THE_NAME)
#define RANKSCOPE_READS_BEYOND_THE_NAME inline
#endif

namespace rankscope::plugin {

// The first 16 bytes of a name, zero from its terminator on.
struct NameBytes {
  uint64_t low = 0, high = 0;
  constexpr bool operator==(const NameBytes&) const = default;
};

constexpr NameBytes NameFromLiteral(const char* text) {
  NameBytes name;
  for (int i = 0; i < 16 && text[i] != '\0'; ++i) {
    const auto byte = static_cast<uint64_t>(static_cast<unsigned char>(text[i]));
    if (i < 8) {
      name.low |= byte << (8 * i);
    } else {
      name.high |= byte << (8 * (i - 8));
    }
  }
  return name;
}

// The bytes below the first zero byte of `word`, and whether there is one.
constexpr uint64_t BelowTerminator(uint64_t word, bool* ends) {
  const uint64_t zeros = (word - 0x0101010101010101ull) & ~word & 0x8080808080808080ull;
  *ends = zeros != 0;
  return zeros != 0 ? word & ((zeros ^ (zeros - 1)) >> 8) : word;
}
static_assert([] {
  bool ends = false;
  return BelowTerminator(0x4100424344454647ull, &ends) == 0x0000424344454647ull && ends;
}());

NameBytes ReadNameAtPageEnd(const char* text);

inline bool SixteenBytesCrossPage(const char* text) {
  constexpr uintptr_t kSmallestPage = 4096;
  return (reinterpret_cast<uintptr_t>(text) & (kSmallestPage - 1)) > kSmallestPage - 16;
}

// Two aligned-or-not loads of 8 bytes; they may run past the terminator but not past its page.
RANKSCOPE_READS_BEYOND_THE_NAME NameBytes ReadName(const char* text) {
  if (__builtin_expect(SixteenBytesCrossPage(text), 0)) return ReadNameAtPageEnd(text);
  // Hidden from the compiler, which must not conclude anything from reading beyond an object whose size it sees.
  asm volatile("" : "+r"(text));
  uint64_t low, high;
  __builtin_memcpy(&low, text, 8);
  __builtin_memcpy(&high, text + 8, 8);
  bool ends = false;
  NameBytes name;
  name.low = BelowTerminator(low, &ends);
  if (ends) return name;
  name.high = BelowTerminator(high, &ends);
  return name;
}

// A small table without collisions, built and checked at compile time.
template <int kEntries>
struct NameTable {
  static constexpr int kSlots = 64;
  struct Slot {
    NameBytes name;
    uint8_t value = 0;
  };
  Slot slots[kSlots] = {};
  bool collides = false;

  static constexpr uint32_t SlotOf(const NameBytes& name) {
    return static_cast<uint32_t>(((name.low ^ (name.high * 0x9e3779b97f4a7c15ull)) * 0xd8f33418f3d4e711ull) >> 58);
  }
  struct Entry {
    const char* text;
    uint8_t value;
  };
  constexpr explicit NameTable(const Entry (&entries)[kEntries]) {
    for (const Entry& entry : entries) {
      const NameBytes name = NameFromLiteral(entry.text);
      Slot& slot = slots[SlotOf(name)];
      if (slot.value != 0) collides = true;
      slot = {name, entry.value};
    }
  }
  uint8_t Find(const NameBytes& name) const {
    const Slot& slot = slots[SlotOf(name)];
    return slot.name == name ? slot.value : uint8_t{0};
  }
  uint8_t Find(const char* text) const {
    return __builtin_expect(text == nullptr, 0) ? uint8_t{0} : Find(ReadName(text));
  }
};

inline constexpr NameTable<15> kFunctionNames({
    {"AllGather", static_cast<uint8_t>(schema::Function::kAllGather)},
    {"AllReduce", static_cast<uint8_t>(schema::Function::kAllReduce)},
    {"AlltoAll", static_cast<uint8_t>(schema::Function::kAlltoAll)},
    {"Broadcast", static_cast<uint8_t>(schema::Function::kBroadcast)},
    {"Gather", static_cast<uint8_t>(schema::Function::kGather)},
    {"Reduce", static_cast<uint8_t>(schema::Function::kReduce)},
    {"ReduceScatter", static_cast<uint8_t>(schema::Function::kReduceScatter)},
    {"Scatter", static_cast<uint8_t>(schema::Function::kScatter)},
    {"Send", static_cast<uint8_t>(schema::Function::kSend)},
    {"Recv", static_cast<uint8_t>(schema::Function::kRecv)},
    {"SendRecv", static_cast<uint8_t>(schema::Function::kSendRecv)},
    {"PutSignal", static_cast<uint8_t>(schema::Function::kPutSignal)},
    {"Signal", static_cast<uint8_t>(schema::Function::kSignal)},
    {"WaitSignal", static_cast<uint8_t>(schema::Function::kWaitSignal)},
    {"AllGatherV", static_cast<uint8_t>(schema::Function::kAllGatherV)},
});
// NCCL up to 2.31 calls ncclUint8 "Unknown", which stays kUnknown: one byte an element either way.
inline constexpr NameTable<12> kDataTypeNames({
    {"ncclInt8", static_cast<uint8_t>(schema::DataType::kInt8)},
    {"ncclUint8", static_cast<uint8_t>(schema::DataType::kUint8)},
    {"ncclInt32", static_cast<uint8_t>(schema::DataType::kInt32)},
    {"ncclUint32", static_cast<uint8_t>(schema::DataType::kUint32)},
    {"ncclInt64", static_cast<uint8_t>(schema::DataType::kInt64)},
    {"ncclUint64", static_cast<uint8_t>(schema::DataType::kUint64)},
    {"ncclFloat16", static_cast<uint8_t>(schema::DataType::kFloat16)},
    {"ncclFloat32", static_cast<uint8_t>(schema::DataType::kFloat32)},
    {"ncclFloat64", static_cast<uint8_t>(schema::DataType::kFloat64)},
    {"ncclBfloat16", static_cast<uint8_t>(schema::DataType::kBfloat16)},
    {"ncclFloat8e4m3", static_cast<uint8_t>(schema::DataType::kFloat8e4m3)},
    {"ncclFloat8e5m2", static_cast<uint8_t>(schema::DataType::kFloat8e5m2)},
});
inline constexpr NameTable<7> kAlgorithmNames({
    {"TREE", static_cast<uint8_t>(schema::Algorithm::kTree)},
    {"RING", static_cast<uint8_t>(schema::Algorithm::kRing)},
    {"COLLNET_DIRECT", static_cast<uint8_t>(schema::Algorithm::kCollnetDirect)},
    {"COLLNET_CHAIN", static_cast<uint8_t>(schema::Algorithm::kCollnetChain)},
    {"NVLS", static_cast<uint8_t>(schema::Algorithm::kNvls)},
    {"NVLS_TREE", static_cast<uint8_t>(schema::Algorithm::kNvlsTree)},
    {"PAT", static_cast<uint8_t>(schema::Algorithm::kPat)},
});
inline constexpr NameTable<3> kProtocolNames({
    {"LL", static_cast<uint8_t>(schema::Protocol::kLl)},
    {"LL128", static_cast<uint8_t>(schema::Protocol::kLl128)},
    {"SIMPLE", static_cast<uint8_t>(schema::Protocol::kSimple)},
});
static_assert(!kFunctionNames.collides && !kDataTypeNames.collides && !kAlgorithmNames.collides &&
              !kProtocolNames.collides);

inline uint8_t FunctionFromName(const char* text) { return kFunctionNames.Find(text); }
inline uint8_t DataTypeFromName(const char* text) { return kDataTypeNames.Find(text); }
inline uint8_t AlgorithmFromName(const char* text) { return kAlgorithmNames.Find(text); }
inline uint8_t ProtocolFromName(const char* text) { return kProtocolNames.Find(text); }

// API v1 gives numbers.
uint8_t FunctionFromNumber(uint8_t number);
uint8_t DataTypeFromNumber(uint8_t number);
uint8_t AlgorithmFromNumber(uint8_t number);
uint8_t ProtocolFromNumber(uint8_t number);

}  // namespace rankscope::plugin

#endif  // RANKSCOPE_PLUGIN_NCCL_NAMES_H_
