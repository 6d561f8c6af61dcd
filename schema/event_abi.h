// The event records of a ring: what one 64-byte record says, for every kind of event that rankscope knows.
//
// Written by the injected side (recorder/, plugin/, later cupti/ and shim/), read by analysis/ as untrusted bytes.
// Only fixed-width little-endian integers. Numbers are never reused; a reader skips, and counts, a kind that it does
// not know. Times are ticks of the process's clock (ring_abi.h, ClockDescription) unless a field says otherwise.
#ifndef RANKSCOPE_SCHEMA_EVENT_ABI_H_
#define RANKSCOPE_SCHEMA_EVENT_ABI_H_

#include <cstddef>
#include <cstdint>

namespace rankscope::schema {

// ---------------------------------------------------------------------------------------------------------------
// Kinds. 1..31 come from NCCL, 32..47 from CUPTI, 48..62 from the host side of the process.
enum class EventKind : uint16_t {
  kNone = 0,
  kGroupApi = 1,        // the outermost group call, user's thread                        GroupPayload
  kCollApi = 2,         // the user's call of a collective                                ApiPayload
  kP2pApi = 3,          // the user's call of ncclSend/ncclRecv                           ApiPayload
  kKernelLaunch = 4,    // the launch call of one plan                                    StreamPayload
  kGroup = 5,           // one plan handed to the proxies                                 GroupPayload
  kColl = 6,            // a collective enqueued; its end is NOT the operation's end      CollPayload
  kP2p = 7,             // a send or receive enqueued; likewise                           P2pPayload
  kProxyOp = 8,         // one channel's and direction's network part of an operation     ProxyOpPayload
  kProxyStep = 9,       // one network chunk                                              ProxyStepPayload
  kProxyCtrl = 10,      // the proxy thread idle, active, asleep, appending               ProxyCtrlPayload
  kKernelChannel = 11,  // one channel's work item; true times in GPU nanoseconds         GpuStampPayload
  kNetPlugin = 12,      // the network plugin's own event                                 NetPluginPayload
  kCeColl = 13,         // copy-engine collective enqueued                                CeCollPayload
  kCeSync = 14,         // its synchronisation                                            CeSyncPayload
  kCeBatch = 15,        // its batch of copies                                            CeBatchPayload
  kKernelPhase = 16,    // a phase inside a kernel channel (NCCL 2.31+)                   GpuStampPayload
  kOpComplete = 17,     // an operation known to be finished here: begin = first launch,  CompletionPayload
                        //   end = finish; a later one of the same op_id replaces it
  kOpEvicted = 18,      // an unfinished operation whose in-flight slot was needed        CollPayload or P2pPayload
  kCommInit = 19,       // instant: communicator `comm` came                              (none)
  kCommFinalize = 20,   // instant: communicator `comm` went                              (none)

  // 32..47: op_id is CUPTI's graph node id (0 = not of a graph, else kFlagGraphReplay is set), never an operation;
  // what a kernel has to do with an operation is found offline, by stream and order (docs/design.md).
  kGpuKernel = 32,      // aux = GpuKernelClass                                           GpuKernelPayload
  kGpuMemcpy = 33,      // aux = 1 if asynchronous | copies folded into it << 1           GpuCopyPayload
  kGpuMemset = 34,      // aux = 1 if asynchronous; kinds: the destination's              GpuCopyPayload
  kGpuSync = 35,        // the host waits; aux = CUPTI's synchronisation type             GpuKernelPayload
  kGpuMemory = 36,      // instant; aux = CUPTI's operation (1 taken, 2 released), op_id = address  GpuCopyPayload
  kGpuGraph = 37,       // one launch of a CUDA graph, as a whole                         GpuKernelPayload
  kCudaApi = 38,        // a runtime or driver call on the host; aux = its number; its    GpuKernelPayload
                        //   stream = the thread (LaneHeader::pthread_low), grid_blocks = what it returned,
                        //   block_threads = CUPTI's kind (4 driver, 5 runtime)
  kGpuOverhead = 39,    // CUPTI's own cost; aux = CUPTI's overhead kind                  GpuKernelPayload
  kGpuBlind = 40,       // no GPU record could come: another client had CUPTI             (none)
  kGpuMemoryPool = 41,  // instant; aux = CUPTI's pool operation                        GpuCopyPayload

  kRange = 48,       // NVTX or hook range; aux = RangeForm                            RangePayload
  kMark = 49,        // NVTX or hook instant; aux = RangeForm                          RangePayload
  kFileIo = 50,      // aggregated reads or writes of one path class; aux = FileOperation  FileIoPayload
  kCallSite = 51,    // an NCCL call's interned call stack                             RangePayload
  kHostSample = 52,  // CPU time and resident memory                                   HostSamplePayload
};
inline constexpr int kEventKindLimit = 64;  // kinds are below this; counters are indexed by kind

// The functions of NCCL, as rankscope numbers them (NCCL's own numbers differ by release).
enum class Function : uint8_t {
  kUnknown = 0,
  kAllGather = 1,
  kAllReduce = 2,
  kAlltoAll = 3,
  kBroadcast = 4,
  kGather = 5,
  kReduce = 6,
  kReduceScatter = 7,
  kScatter = 8,
  kSend = 9,
  kRecv = 10,
  kSendRecv = 11,
  kPutSignal = 12,
  kSignal = 13,
  kWaitSignal = 14,
  kAllGatherV = 15,
};
inline constexpr int kFunctionLimit = 16;

enum class DataType : uint8_t {
  kUnknown = 0,  // NCCL names ncclUint8 so: one byte an element
  kInt8 = 1,
  kUint8 = 2,
  kInt32 = 3,
  kUint32 = 4,
  kInt64 = 5,
  kUint64 = 6,
  kFloat16 = 7,
  kFloat32 = 8,
  kFloat64 = 9,
  kBfloat16 = 10,
  kFloat8e4m3 = 11,
  kFloat8e5m2 = 12,
};
inline constexpr int kDataTypeLimit = 13;

enum class Algorithm : uint8_t {
  kUnknown = 0,
  kTree = 1,
  kRing = 2,
  kCollnetDirect = 3,
  kCollnetChain = 4,
  kNvls = 5,
  kNvlsTree = 6,
  kPat = 7,
  kSymmetric = 8,
};
inline constexpr int kAlgorithmLimit = 9;

enum class Protocol : uint8_t { kUnknown = 0, kLl = 1, kLl128 = 2, kSimple = 3 };
inline constexpr int kProtocolLimit = 4;

// Bytes of one element; 1 for kUnknown, which is what NCCL up to 2.31 calls ncclUint8.
constexpr uint32_t DataTypeBytes(DataType type) {
  switch (type) {
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kFloat32:
      return 4;
    case DataType::kInt64:
    case DataType::kUint64:
    case DataType::kFloat64:
      return 8;
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return 2;
    default:
      return 1;
  }
}

// Where the time of an operation's end comes from, worst to best.
enum class CompletionSource : uint8_t {
  kNone = 0,           // not observable: no event of this process says so
  kProxy = 1,          // the last network operation of this process stopped; the GPU may still copy or reduce
  kKernelChannel = 2,  // NCCL's GPU time stamps
  kGpuKernel = 3,      // CUPTI's kernel record
};

// What a step consists of. The recorder writes a phase only where its source states it (the Python hook); the names
// of ranges are classified offline.
enum class Phase : uint8_t {
  kUnknown = 0,
  kDataLoading = 1,
  kForward = 2,
  kBackward = 3,
  kGradientReduction = 4,
  kOptimizer = 5,
  kCheckpoint = 6,
  kOther = 7,
};
inline constexpr int kPhaseLimit = 8;

enum class PhaseSource : uint8_t {
  kNone = 0,
  kThread = 1,  // the thread that launched it (PyTorch's autograd thread is backward)
  kRange = 2,   // an NVTX range of a framework that is known by name
  kHook = 3,    // the Python hook's mark
  kFileIo = 4,  // files of a class that tells (checkpoint, data)
  kKernel = 5,  // a kernel's name (an optimizer's)
};

// How a range came about.
enum class RangeForm : uint16_t { kPushPop = 0, kStartEnd = 1, kHook = 2 };

enum class FileOperation : uint16_t { kRead = 1, kWrite = 2, kSync = 3, kOpen = 4 };

// What the name of a kernel says at first sight; the analysis may know better.
enum class GpuKernelClass : uint16_t { kOther = 0, kNccl = 1 };

// Flags of a record (EventRecord::flags) and of an in-flight slot.
enum EventFlags : uint16_t {
  kFlagFirstOfComm = 1 << 0,    // the communicator's first operation: its time carries the connection set-up
  kFlagGraphCaptured = 1 << 1,  // the call was captured into a CUDA graph, not run
  kFlagGraphReplay = 1 << 2,    // launched by a graph's replay: no call of its own
  kFlagHasApi = 1 << 3,         // the operation began with an API event
  kFlagNoApi = 1 << 4,          // v5+: a launch whose API event was not seen
  kFlagForeign = 1 << 5,        // work of another process on this one's proxy (PXN)
  kFlagBadStamp = 1 << 6,       // GPU time stamps refused (zero, reversed, before the launch)
  kFlagStopMissing = 1 << 7,    // closed by the recorder: NCCL never stopped it
  kFlagTrackingLost = 1 << 8,   // part of the operation's network work could not be tracked
  kFlagSymmetric = 1 << 9,      // symmetric-memory kernel
  kFlagNoParent = 1 << 10,      // its parent was NULL or not one of ours
};

// Communicator slot of an event that names none (a NULL context).
inline constexpr uint16_t kCommUnknown = 0xffff;
inline constexpr uint32_t kOrdinalUnknown = 0xffffffffu;

// ---------------------------------------------------------------------------------------------------------------
// Payloads: the last 24 bytes of a record.
struct GroupPayload {
  int32_t depth;  // 1 = the implicit group around one call
  uint32_t reserved[5];
};
struct StreamPayload {
  uint64_t stream;  // the CUDA stream's address, an identity only
  uint64_t reserved[2];
};
struct ApiPayload {
  uint64_t count;       // elements, as the user gave them
  uint32_t stream_tag;  // (stream address >> 4), low 32 bits: an identity only
  uint32_t ordinal;     // 0, 1, ... of this function on this communicator, counted by us
  uint8_t func;         // Function
  uint8_t dtype;        // DataType
  uint8_t reserved[2];
  int32_t root;  // communicator rank; -1 where the call has none
};
struct CollPayload {
  uint64_t count;    // elements of dtype: NCCL converts AllGather and Broadcast to bytes of kInt8
  uint32_t seq;      // NCCL's sequence number of (communicator, function), low 32 bits
  uint32_t ordinal;  // 0, 1, ... of launches of this function on this communicator, counted by us
  uint8_t func, dtype, algo, proto;
  int32_t root;
};  // aux = channels | warps << 8
struct P2pPayload {
  uint64_t count;
  uint32_t reserved;
  uint32_t ordinal;  // 0, 1, ... to or from this peer on this communicator, counted by us
  uint8_t func, dtype, reserved2[2];
  int32_t peer;  // communicator rank at the other end
};               // aux = channels
struct ProxyOpPayload {
  int32_t peer;
  int32_t steps;
  int32_t chunk_bytes;
  uint32_t pid;    // the process whose operation this is
  uint64_t bytes;  // moved, where the release says (2.23 to 2.26)
};                 // aux = channel | is_send << 8
struct ProxyStepPayload {
  int32_t step;
  uint32_t bytes;
  uint32_t wait_ticks[3];  // time until the 1st, 2nd, 3rd state after the start; 0 = state not seen; saturates
  uint8_t is_send;
  uint8_t states_seen;  // bit k: event state 8+k seen, bit 7: SendPeerWait
  uint8_t reserved[2];
};  // aux = channel
struct ProxyCtrlPayload {
  int32_t state;  // NCCL's state number, 13..18; 0 = none seen
  int32_t appended;
  uint32_t reserved[4];
};
struct GpuStampPayload {
  uint64_t gpu_begin_ns;  // the GPU's global timer
  uint64_t gpu_end_ns;
  uint32_t name;  // interned phase name, 0 = none
  uint8_t phase;
  uint8_t reserved[3];
};  // aux = channel; begin/end ticks are when the proxy thread looked, not when it happened
struct NetPluginPayload {
  int64_t id;  // plugin type << 16 | version
  uint64_t bytes;
  uint32_t queue;  // queue pair or socket
  int32_t device;
};
struct CeCollPayload {
  uint64_t count;
  uint32_t ce_seq;  // counts synchronisations, an order and not a key
  uint32_t ordinal;
  uint8_t func, dtype;
  uint8_t sync_strategy;  // 0 unknown, 1 multicast, 2 unicast
  uint8_t reserved;
  int32_t root;
};
struct CeSyncPayload {
  int32_t ranks;
  uint32_t is_complete;
  uint32_t reserved[4];
};
struct CeBatchPayload {
  uint64_t bytes;
  int32_t ops;
  uint32_t use_intra_sync;
  uint64_t reserved;
};
struct CompletionPayload {
  uint64_t issue_ticks;  // when the operation was first seen (API call or launch)
  uint32_t proxy_ops;    // network operations counted into it
  uint8_t source;        // CompletionSource
  uint8_t func;
  uint8_t reserved[2];
  uint64_t bytes;  // count x element size, for the totals
};
struct GpuKernelPayload {
  uint32_t name;         // interned
  uint32_t correlation;  // CUPTI's correlation id, low 32 bits
  uint32_t stream;
  uint16_t device;
  uint16_t context;
  uint32_t grid_blocks;
  uint32_t block_threads;
};
struct GpuCopyPayload {
  uint64_t bytes;
  uint32_t correlation;
  uint32_t stream;
  uint16_t device;
  uint16_t peer_device;
  uint8_t copy_kind;  // CUPTI's numbers
  uint8_t source_kind;
  uint8_t destination_kind;
  uint8_t reserved;
};
struct RangePayload {
  uint32_t name;    // interned
  uint32_t domain;  // interned; 0 = the default domain
  uint64_t value;   // the range's payload: NCCL's domain, bytes, or ranks << 32 | rank where a communicator is made
                    //   or ended; the hook, what docs/design.md says
  uint8_t phase;    // Phase
  uint8_t phase_source;
  uint8_t depth;  // ranges of this thread that were open around it, at most 255
  uint8_t reserved;
  uint32_t detail;  // NCCL's domain: communicator hash, low 32 bits, where the release says it; else 0
};
struct FileIoPayload {
  uint64_t bytes;
  uint32_t path_class;  // interned
  uint32_t calls;
  uint8_t operation;  // 1 read, 2 write, 3 sync
  uint8_t reserved[7];
};
struct HostSamplePayload {
  uint64_t cpu_ns;          // of the process, user and system, since its start
  uint64_t resident_bytes;  // at the time of the sample
  uint64_t major_faults;    // since the process's start
};

// ---------------------------------------------------------------------------------------------------------------
// One record: one cache line, written by the lane's thread alone. See ring_abi.h for the commit protocol.
struct EventRecord {
  uint64_t commit;  // 0 = being written; else 1 + the record's index in its lane, counted since the start
  uint64_t begin_ticks;
  uint64_t end_ticks;  // >= begin_ticks; equal for an instant
  uint16_t kind;       // EventKind
  uint16_t flags;      // EventFlags
  uint16_t comm;       // communicator slot of this process, or kCommUnknown
  uint16_t aux;        // per kind, see the payloads
  uint64_t op_id;      // the operation it belongs to, unique in the process; 0 = none
  union {
    GroupPayload group;
    StreamPayload launch;
    ApiPayload api;
    CollPayload coll;
    P2pPayload p2p;
    ProxyOpPayload proxy_op;
    ProxyStepPayload proxy_step;
    ProxyCtrlPayload proxy_ctrl;
    GpuStampPayload gpu_stamp;
    NetPluginPayload net;
    CeCollPayload ce_coll;
    CeSyncPayload ce_sync;
    CeBatchPayload ce_batch;
    CompletionPayload completion;
    GpuKernelPayload kernel;
    GpuCopyPayload copy;
    RangePayload range;
    FileIoPayload file_io;
    HostSamplePayload host;
    uint64_t words[3];
  } payload;
};

static_assert(sizeof(EventRecord) == 64 && alignof(EventRecord) == 8);
static_assert(offsetof(EventRecord, kind) == 24 && offsetof(EventRecord, op_id) == 32 &&
              offsetof(EventRecord, payload) == 40);
static_assert(sizeof(GroupPayload) == 24 && sizeof(StreamPayload) == 24 && sizeof(ApiPayload) == 24);
static_assert(sizeof(CollPayload) == 24 && sizeof(P2pPayload) == 24 && sizeof(ProxyOpPayload) == 24);
static_assert(sizeof(ProxyStepPayload) == 24 && sizeof(ProxyCtrlPayload) == 24 && sizeof(GpuStampPayload) == 24);
static_assert(sizeof(NetPluginPayload) == 24 && sizeof(CeCollPayload) == 24 && sizeof(CeSyncPayload) == 24);
static_assert(sizeof(CeBatchPayload) == 24 && sizeof(CompletionPayload) == 24 && sizeof(GpuKernelPayload) == 24);
static_assert(sizeof(GpuCopyPayload) == 24 && sizeof(RangePayload) == 24 && sizeof(FileIoPayload) == 24);
static_assert(sizeof(HostSamplePayload) == 24);
static_assert(offsetof(CollPayload, seq) == 8 && offsetof(CollPayload, func) == 16 &&
              offsetof(CollPayload, root) == 20);
// An operation's payloads agree in what they share, so that one copy writes any of them (InFlightSlot, ring_abi.h).
static_assert(offsetof(P2pPayload, ordinal) == 12 && offsetof(P2pPayload, func) == 16 &&
              offsetof(P2pPayload, peer) == 20);
static_assert(offsetof(ApiPayload, ordinal) == 12 && offsetof(ApiPayload, func) == 16 &&
              offsetof(ApiPayload, root) == 20);
static_assert(offsetof(CeCollPayload, ordinal) == 12 && offsetof(CeCollPayload, func) == 16 &&
              offsetof(CeCollPayload, root) == 20);

}  // namespace rankscope::schema

#endif  // RANKSCOPE_SCHEMA_EVENT_ABI_H_
