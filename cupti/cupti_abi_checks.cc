// Compares cupti_abi.h with the toolkit's header, where the build found one (CMake defines
// RANKSCOPE_HAVE_CUPTI_HEADER): nothing but static_asserts. The structs named are those of CUDA 13.0; older headers
// have the same fields under older names, so only a header of 13.0 or later is compared.
#include "cupti/cupti_abi.h"

#ifdef RANKSCOPE_HAVE_CUPTI_HEADER
#include <cupti.h>

#if CUPTI_API_VERSION >= 130000
namespace rankscope::cupti {

#define SAME(layout, field, type, member) \
  static_assert(layout::field.offset == offsetof(type, member) && layout::field.bytes == sizeof(type::member))

SAME(KernelLayout, kStart, CUpti_ActivityKernel10, start);
SAME(KernelLayout, kEnd, CUpti_ActivityKernel10, end);
SAME(KernelLayout, kDevice, CUpti_ActivityKernel10, deviceId);
SAME(KernelLayout, kContext, CUpti_ActivityKernel10, contextId);
SAME(KernelLayout, kStream, CUpti_ActivityKernel10, streamId);
SAME(KernelLayout, kGridX, CUpti_ActivityKernel10, gridX);
SAME(KernelLayout, kGridY, CUpti_ActivityKernel10, gridY);
SAME(KernelLayout, kGridZ, CUpti_ActivityKernel10, gridZ);
SAME(KernelLayout, kBlockX, CUpti_ActivityKernel10, blockX);
SAME(KernelLayout, kBlockY, CUpti_ActivityKernel10, blockY);
SAME(KernelLayout, kBlockZ, CUpti_ActivityKernel10, blockZ);
SAME(KernelLayout, kCorrelation, CUpti_ActivityKernel10, correlationId);
SAME(KernelLayout, kName, CUpti_ActivityKernel10, name);
SAME(KernelLayout, kGraphNode, CUpti_ActivityKernel10, graphNodeId);
SAME(KernelLayout, kGraph, CUpti_ActivityKernel10, graphId);

SAME(MemcpyLayout, kCopyKind, CUpti_ActivityMemcpy6, copyKind);
SAME(MemcpyLayout, kSourceKind, CUpti_ActivityMemcpy6, srcKind);
SAME(MemcpyLayout, kDestinationKind, CUpti_ActivityMemcpy6, dstKind);
SAME(MemcpyLayout, kFlags, CUpti_ActivityMemcpy6, flags);
SAME(MemcpyLayout, kBytes, CUpti_ActivityMemcpy6, bytes);
SAME(MemcpyLayout, kStart, CUpti_ActivityMemcpy6, start);
SAME(MemcpyLayout, kEnd, CUpti_ActivityMemcpy6, end);
SAME(MemcpyLayout, kDevice, CUpti_ActivityMemcpy6, deviceId);
SAME(MemcpyLayout, kContext, CUpti_ActivityMemcpy6, contextId);
SAME(MemcpyLayout, kStream, CUpti_ActivityMemcpy6, streamId);
SAME(MemcpyLayout, kCorrelation, CUpti_ActivityMemcpy6, correlationId);
SAME(MemcpyLayout, kGraphNode, CUpti_ActivityMemcpy6, graphNodeId);
SAME(MemcpyLayout, kGraph, CUpti_ActivityMemcpy6, graphId);
SAME(MemcpyLayout, kCopyCount, CUpti_ActivityMemcpy6, copyCount);

SAME(PeerCopyLayout, kCopyKind, CUpti_ActivityMemcpyPtoP4, copyKind);
SAME(PeerCopyLayout, kFlags, CUpti_ActivityMemcpyPtoP4, flags);
SAME(PeerCopyLayout, kBytes, CUpti_ActivityMemcpyPtoP4, bytes);
SAME(PeerCopyLayout, kStart, CUpti_ActivityMemcpyPtoP4, start);
SAME(PeerCopyLayout, kEnd, CUpti_ActivityMemcpyPtoP4, end);
SAME(PeerCopyLayout, kDevice, CUpti_ActivityMemcpyPtoP4, deviceId);
SAME(PeerCopyLayout, kContext, CUpti_ActivityMemcpyPtoP4, contextId);
SAME(PeerCopyLayout, kStream, CUpti_ActivityMemcpyPtoP4, streamId);
SAME(PeerCopyLayout, kSourceDevice, CUpti_ActivityMemcpyPtoP4, srcDeviceId);
SAME(PeerCopyLayout, kDestinationDevice, CUpti_ActivityMemcpyPtoP4, dstDeviceId);
SAME(PeerCopyLayout, kCorrelation, CUpti_ActivityMemcpyPtoP4, correlationId);
SAME(PeerCopyLayout, kGraphNode, CUpti_ActivityMemcpyPtoP4, graphNodeId);
SAME(PeerCopyLayout, kGraph, CUpti_ActivityMemcpyPtoP4, graphId);

SAME(ApiLayout, kCallback, CUpti_ActivityAPI, cbid);
SAME(ApiLayout, kStart, CUpti_ActivityAPI, start);
SAME(ApiLayout, kEnd, CUpti_ActivityAPI, end);
SAME(ApiLayout, kThread, CUpti_ActivityAPI, threadId);
SAME(ApiLayout, kCorrelation, CUpti_ActivityAPI, correlationId);
SAME(ApiLayout, kReturnValue, CUpti_ActivityAPI, returnValue);

SAME(MemsetLayout, kBytes, CUpti_ActivityMemset4, bytes);
SAME(MemsetLayout, kStart, CUpti_ActivityMemset4, start);
SAME(MemsetLayout, kEnd, CUpti_ActivityMemset4, end);
SAME(MemsetLayout, kDevice, CUpti_ActivityMemset4, deviceId);
SAME(MemsetLayout, kContext, CUpti_ActivityMemset4, contextId);
SAME(MemsetLayout, kStream, CUpti_ActivityMemset4, streamId);
SAME(MemsetLayout, kCorrelation, CUpti_ActivityMemset4, correlationId);
SAME(MemsetLayout, kFlags, CUpti_ActivityMemset4, flags);
SAME(MemsetLayout, kMemoryKind, CUpti_ActivityMemset4, memoryKind);
SAME(MemsetLayout, kGraphNode, CUpti_ActivityMemset4, graphNodeId);
SAME(MemsetLayout, kGraph, CUpti_ActivityMemset4, graphId);

SAME(SynchronizationLayout, kType, CUpti_ActivitySynchronization2, type);
SAME(SynchronizationLayout, kStart, CUpti_ActivitySynchronization2, start);
SAME(SynchronizationLayout, kEnd, CUpti_ActivitySynchronization2, end);
SAME(SynchronizationLayout, kCorrelation, CUpti_ActivitySynchronization2, correlationId);
SAME(SynchronizationLayout, kContext, CUpti_ActivitySynchronization2, contextId);
SAME(SynchronizationLayout, kStream, CUpti_ActivitySynchronization2, streamId);

SAME(OverheadLayout, kOverheadKind, CUpti_ActivityOverhead3, overheadKind);
SAME(OverheadLayout, kStart, CUpti_ActivityOverhead3, start);
SAME(OverheadLayout, kEnd, CUpti_ActivityOverhead3, end);
SAME(OverheadLayout, kCorrelation, CUpti_ActivityOverhead3, correlationId);
SAME(OverheadLayout, kData, CUpti_ActivityOverhead3, overheadData);
static_assert(OverheadLayout::kThread.offset == offsetof(CUpti_ActivityOverhead3, objectId) + 4);

SAME(MemoryLayout, kOperation, CUpti_ActivityMemory4, memoryOperationType);
SAME(MemoryLayout, kMemoryKind, CUpti_ActivityMemory4, memoryKind);
SAME(MemoryLayout, kCorrelation, CUpti_ActivityMemory4, correlationId);
SAME(MemoryLayout, kAddress, CUpti_ActivityMemory4, address);
SAME(MemoryLayout, kBytes, CUpti_ActivityMemory4, bytes);
SAME(MemoryLayout, kTimestamp, CUpti_ActivityMemory4, timestamp);
SAME(MemoryLayout, kDevice, CUpti_ActivityMemory4, deviceId);
SAME(MemoryLayout, kContext, CUpti_ActivityMemory4, contextId);
SAME(MemoryLayout, kStream, CUpti_ActivityMemory4, streamId);

SAME(MemoryPoolLayout, kOperation, CUpti_ActivityMemoryPool3, memoryPoolOperationType);
SAME(MemoryPoolLayout, kCorrelation, CUpti_ActivityMemoryPool3, correlationId);
SAME(MemoryPoolLayout, kDevice, CUpti_ActivityMemoryPool3, deviceId);
SAME(MemoryPoolLayout, kSize, CUpti_ActivityMemoryPool3, size);
SAME(MemoryPoolLayout, kTimestamp, CUpti_ActivityMemoryPool3, timestamp);

SAME(GraphTraceLayout, kCorrelation, CUpti_ActivityGraphTrace2, correlationId);
SAME(GraphTraceLayout, kStart, CUpti_ActivityGraphTrace2, start);
SAME(GraphTraceLayout, kEnd, CUpti_ActivityGraphTrace2, end);
SAME(GraphTraceLayout, kDevice, CUpti_ActivityGraphTrace2, deviceId);
SAME(GraphTraceLayout, kGraph, CUpti_ActivityGraphTrace2, graphId);
SAME(GraphTraceLayout, kContext, CUpti_ActivityGraphTrace2, contextId);
SAME(GraphTraceLayout, kStream, CUpti_ActivityGraphTrace2, streamId);
#undef SAME

static_assert(kKindMemcpy == uint32_t{CUPTI_ACTIVITY_KIND_MEMCPY});
static_assert(kKindMemset == uint32_t{CUPTI_ACTIVITY_KIND_MEMSET});
static_assert(kKindKernel == uint32_t{CUPTI_ACTIVITY_KIND_KERNEL});
static_assert(kKindDriver == uint32_t{CUPTI_ACTIVITY_KIND_DRIVER});
static_assert(kKindRuntime == uint32_t{CUPTI_ACTIVITY_KIND_RUNTIME});
static_assert(kKindConcurrentKernel == uint32_t{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
static_assert(kKindOverhead == uint32_t{CUPTI_ACTIVITY_KIND_OVERHEAD});
static_assert(kKindMemcpy2 == uint32_t{CUPTI_ACTIVITY_KIND_MEMCPY2});
static_assert(kKindSynchronization == uint32_t{CUPTI_ACTIVITY_KIND_SYNCHRONIZATION});
static_assert(kKindMemory2 == uint32_t{CUPTI_ACTIVITY_KIND_MEMORY2});
static_assert(kKindMemoryPool == uint32_t{CUPTI_ACTIVITY_KIND_MEMORY_POOL});
static_assert(kKindGraphTrace == uint32_t{CUPTI_ACTIVITY_KIND_GRAPH_TRACE});
static_assert(kDeviceBufferSize == uint32_t{CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE});
static_assert(kDeviceBufferPoolLimit == uint32_t{CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT});
static_assert(kDeviceBufferPreAllocateValue == uint32_t{CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE});
static_assert(kPerThreadActivityBuffer == uint32_t{CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER});
static_assert(kMaxLimitReached == CUPTI_ERROR_MAX_LIMIT_REACHED && kNotInitialized == CUPTI_ERROR_NOT_INITIALIZED &&
              kInvalidKind == CUPTI_ERROR_INVALID_KIND &&
              kMultipleSubscribers == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED &&
              kUnknown == CUPTI_ERROR_UNKNOWN && kFlushForced == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
static_assert(sizeof(SubscriberParams) == sizeof(CUpti_SubscriberParams) &&
              offsetof(SubscriberParams, old_name) == offsetof(CUpti_SubscriberParams, oldSubscriberName));

}  // namespace rankscope::cupti
#endif
#endif
