// CUPTI's interface as rankscope uses it: codes, kinds, attributes, the shapes of its functions, and where the fields
// of its activity records lie.
//
// Our own declarations: the library is built without the toolkit, and the records' layout belongs to the libcupti
// that is loaded, not to a header. NVIDIA has only ever appended fields to a record or used its padding (CUDA 11.0
// to 13.0), so a field is at one offset in every release that has it, and it is there if the record's stride reaches
// behind it. Offsets are of LP64, little endian; cupti_abi_checks.cc compares them with the toolkit's header where
// there is one. Constants only: read by any thread.
#ifndef RANKSCOPE_CUPTI_CUPTI_ABI_H_
#define RANKSCOPE_CUPTI_CUPTI_ABI_H_

#include <cstddef>
#include <cstdint>

namespace rankscope::cupti {

using Result = int32_t;
inline constexpr Result kSuccess = 0;
inline constexpr Result kMaxLimitReached = 12;  // the end of a buffer; before 11.0 also "somebody else subscribed"
inline constexpr Result kNotInitialized = 15;
inline constexpr Result kNotCompatible = 14;  // the two generations of the activity API were mixed
inline constexpr Result kInvalidKind = 21;
inline constexpr Result kMultipleSubscribers = 39;
inline constexpr Result kUnknown = 999;

// CUpti_ActivityKind
enum Kind : uint32_t {
  kKindMemcpy = 1,
  kKindMemset = 2,
  kKindKernel = 3,  // serialises kernels: never enabled
  kKindDriver = 4,
  kKindRuntime = 5,
  kKindConcurrentKernel = 10,
  kKindOverhead = 17,
  kKindMemcpy2 = 22,
  kKindSynchronization = 38,
  kKindMemory2 = 49,
  kKindMemoryPool = 50,
  kKindGraphTrace = 51,
};

// CUpti_ActivityAttribute; the value's type is part of the contract.
enum Attribute : uint32_t {
  kDeviceBufferSize = 0,              // size_t
  kDeviceBufferPoolLimit = 2,         // size_t
  kDeviceBufferPreAllocateValue = 6,  // size_t
  kPerThreadActivityBuffer = 9,       // uint8_t, 12.3+
};

// API versions as cuptiGetVersion counts them.
inline constexpr uint32_t kVersionOf11_8 = 18;
inline constexpr uint32_t kVersionOf12_3 = 21;
inline constexpr uint32_t kVersionOf12_9 = 27;  // from here on a refused buffer is safe
inline constexpr uint32_t kVersionOf13_0 = 130000;

inline constexpr uint32_t kFlushForced = 1;

using RequestCallback = void (*)(uint8_t** buffer, size_t* bytes, size_t* most_records);
using CompleteCallback = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid_bytes);
using TimestampCallback = uint64_t (*)();
using SubscriberCallback = void (*)(void* user, uint32_t domain, uint32_t id, const void* data);

// CUpti_SubscriberParams of 13.0.
struct SubscriberParams {
  size_t struct_bytes;
  const char* name;
  char* old_name;
  size_t old_name_bytes;
};

// A field of a record: where it is and how wide.
struct Field {
  uint16_t offset;
  uint16_t bytes;
  constexpr uint32_t end() const { return uint32_t{offset} + bytes; }
};

inline constexpr Field kRecordKind{0, 4};

struct KernelLayout {
  static constexpr Field kStart{16, 8}, kEnd{24, 8}, kDevice{40, 4}, kContext{44, 4}, kStream{48, 4}, kGridX{52, 4},
      kGridY{56, 4}, kGridZ{60, 4}, kBlockX{64, 4}, kBlockY{68, 4}, kBlockZ{72, 4}, kCorrelation{92, 4},
      kName{104, 8}, kGraphNode{144, 8}, kGraph{156, 4};
};
struct MemcpyLayout {
  static constexpr Field kCopyKind{4, 1}, kSourceKind{5, 1}, kDestinationKind{6, 1}, kFlags{7, 1}, kBytes{8, 8},
      kStart{16, 8}, kEnd{24, 8}, kDevice{32, 4}, kContext{36, 4}, kStream{40, 4}, kCorrelation{44, 4},
      kGraphNode{64, 8}, kGraph{72, 4}, kCopyCount{88, 8};
};
struct PeerCopyLayout {
  static constexpr Field kCopyKind{4, 1}, kSourceKind{5, 1}, kDestinationKind{6, 1}, kFlags{7, 1}, kBytes{8, 8},
      kStart{16, 8}, kEnd{24, 8}, kDevice{32, 4}, kContext{36, 4}, kStream{40, 4}, kSourceDevice{44, 4},
      kDestinationDevice{52, 4}, kCorrelation{60, 4}, kGraphNode{72, 8}, kGraph{80, 4};
};
struct MemsetLayout {
  static constexpr Field kBytes{8, 8}, kStart{16, 8}, kEnd{24, 8}, kDevice{32, 4}, kContext{36, 4}, kStream{40, 4},
      kCorrelation{44, 4}, kFlags{48, 2}, kMemoryKind{50, 2}, kGraphNode{64, 8}, kGraph{72, 4};
};
struct SynchronizationLayout {
  static constexpr Field kType{4, 4}, kStart{8, 8}, kEnd{16, 8}, kCorrelation{24, 4}, kContext{28, 4}, kStream{32, 4};
};
struct OverheadLayout {
  static constexpr Field kOverheadKind{4, 4}, kThread{16, 4}, kStart{24, 8}, kEnd{32, 8}, kCorrelation{40, 4},
      kData{48, 8};  // the client's to free()
};
struct MemoryLayout {
  static constexpr Field kOperation{4, 4}, kMemoryKind{8, 4}, kCorrelation{12, 4}, kAddress{16, 8}, kBytes{24, 8},
      kTimestamp{32, 8}, kDevice{52, 4}, kContext{56, 4}, kStream{60, 4};
};
struct MemoryPoolLayout {
  static constexpr Field kOperation{4, 4}, kCorrelation{12, 4}, kDevice{20, 4}, kSize{40, 8}, kTimestamp{56, 8};
};
// A call of the runtime or the driver. The thread is the low 32 bits of pthread_self(): cuptiSetThreadIdType is
// global and Kineto's to set.
struct ApiLayout {
  static constexpr Field kCallback{4, 4}, kStart{8, 8}, kEnd{16, 8}, kThread{28, 4}, kCorrelation{32, 4},
      kReturnValue{36, 4};
};
struct GraphTraceLayout {
  static constexpr Field kCorrelation{4, 4}, kStart{8, 8}, kEnd{16, 8}, kDevice{24, 4}, kGraph{28, 4},
      kContext{32, 4}, kStream{36, 4};
};

// Bytes of a record that the decoder needs at least; a library whose stride is less is not asked for that kind.
constexpr uint32_t NeededBytes(uint32_t kind) {
  switch (kind) {
    case kKindConcurrentKernel:
    case kKindKernel:
      return KernelLayout::kName.end();
    case kKindMemcpy:
      return MemcpyLayout::kCorrelation.end();
    case kKindMemcpy2:
      return PeerCopyLayout::kCorrelation.end();
    case kKindMemset:
      return MemsetLayout::kMemoryKind.end();
    case kKindSynchronization:
      return SynchronizationLayout::kStream.end();
    case kKindOverhead:
      return OverheadLayout::kEnd.end();
    case kKindMemory2:
      return MemoryLayout::kStream.end();
    case kKindMemoryPool:
      return MemoryPoolLayout::kTimestamp.end();
    case kKindGraphTrace:
      return GraphTraceLayout::kStream.end();
    case kKindDriver:
    case kKindRuntime:
      return ApiLayout::kReturnValue.end();
    default:
      return 0;
  }
}

}  // namespace rankscope::cupti

#endif  // RANKSCOPE_CUPTI_CUPTI_ABI_H_
