// NVTX version 3 as its injections see it: the tables that a shared library with NVTX's header in it offers, and what
// its calls carry.
//
// Our own declarations, so that the library builds without the headers; nvtx_abi_checks.cc compares them where they
// are. Layouts have not changed since version 2 of the attributes, and grow by `size`. Constants and plain structs:
// any thread.
#ifndef RANKSCOPE_SHIM_NVTX_ABI_H_
#define RANKSCOPE_SHIM_NVTX_ABI_H_

#include <cstddef>
#include <cstdint>

namespace rankscope::shim::nvtx {

inline constexpr uint32_t kTableCallbacks = 1;  // NvtxExportTableID

enum Module : uint32_t { kCore = 1, kCore2 = 5 };

enum CoreCall : uint32_t {
  kMarkEx = 1,
  kMarkA = 2,
  kMarkW = 3,
  kRangeStartEx = 4,
  kRangeStartA = 5,
  kRangeStartW = 6,
  kRangeEnd = 7,
  kRangePushEx = 8,
  kRangePushA = 9,
  kRangePushW = 10,
  kRangePop = 11,
};
enum Core2Call : uint32_t {
  kDomainMarkEx = 1,
  kDomainRangeStartEx = 2,
  kDomainRangeEnd = 3,
  kDomainRangePushEx = 4,
  kDomainRangePop = 5,
  kDomainRegisterStringA = 10,
  kDomainRegisterStringW = 11,
  kDomainCreateA = 12,
  kDomainCreateW = 13,
};

using Function = void (*)();
struct CallbackTable {
  size_t struct_bytes;
  int (*module_functions)(uint32_t module, Function*** table, unsigned* count);
};
using GetExportTable = const void* (*)(uint32_t id);

enum MessageType : int32_t { kNoMessage = 0, kAscii = 1, kUnicode = 2, kRegistered = 3 };
enum PayloadType : int32_t {
  kNoPayload = 0,
  kUnsigned64 = 1,
  kSigned64 = 2,
  kDouble = 3,
  kUnsigned32 = 4,
  kSigned32 = 5,
  kFloat = 6,
};
// The payload is an array of `reserved0` PayloadData at payload.unsigned64.
inline constexpr int32_t kExtendedPayload = static_cast<int32_t>(0xDFBD0009u);

struct Attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved0;
  union {
    uint64_t unsigned64;
    int64_t signed64;
    double real64;
    uint32_t unsigned32;
    int32_t signed32;
    float real32;
  } payload;
  int32_t message_type;
  union {
    const char* ascii;
    const wchar_t* unicode;
    void* registered;
  } message;
};
static_assert(sizeof(Attributes) == 48);
// The caller's struct reaches to the end of its message.
inline constexpr uint16_t kLeastAttributes = 48;

// ---- the payload extension: schemas of structs, registered with a domain
struct PayloadData {
  uint64_t schema;
  size_t bytes;
  const void* data;
};
inline constexpr uint16_t kPayloadModule = 2;
inline constexpr size_t kSchemaRegisterSlot = 0;

struct ExtensionSegment {
  size_t id;
  size_t slots;
  intptr_t* functions;
};
struct ExtensionModule {
  uint16_t nvtx_version, struct_bytes, module, compatibility;
  size_t segment_count;
  ExtensionSegment* segments;
  void* get_export_function;
  const void* info;
};

struct SchemaEntry {
  uint64_t flags, type;
  const char* name;
  const char* description;
  uint64_t detail, offset;
  const void* semantics;
  const void* reserved;
};
inline constexpr uint64_t kSchemaHasId = 1u << 8;  // bit of Schema::fields
struct Schema {
  uint64_t fields;
  const char* name;
  uint64_t type, flags;
  const SchemaEntry* entries;
  size_t entry_count;
  size_t static_bytes, alignment;
  uint64_t id;
};

}  // namespace rankscope::shim::nvtx

#endif  // RANKSCOPE_SHIM_NVTX_ABI_H_
