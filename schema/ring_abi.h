// The ring: the shared-memory file of one training process, from its first byte to its last.
//
// What it is: one file that a training process writes without locks or system calls, and that any other process may
// read at any time: while it is written, after SIGKILL, after a reboot if it lies on disk. What it is not: a queue.
// Nobody waits for a reader, and a reader can't change anything (rings are mapped read-only by readers).
//
//   offset 0
//   +------------------+ RingHeader: magic (stored last), versions, sizes, the section table
//   +------------------+ 4096
//   | Identity         | ProcessIdentity: who this process is; written at start, some fields later
//   | ClockPairs       | ClockPair[]: (ticks, monotonic, realtime), taken all along the run
//   | Names            | NameEntry[]: interned strings, append only
//   | NameBytes        | their bytes
//   | Comms            | CommEntry[]: one per communicator and rank that this process ever had
//   | Losses           | uint64_t[]: process-wide loss counters, by LossReason
//   | Cupti            | CuptiInfo: the state of the GPU source (1.1)
//   | Streams          | StreamEntry[]: CUDA's stream handles and CUPTI's stream numbers (1.1)
//   | Lanes            | LaneHeader[]: one per lane
//   | Slots            | InFlightSlot[]: what is under way; lane i owns [first_slot, first_slot + slot_count)
//   | Totals           | TotalCell[]: counters that never age; lane i owns [i * cells, (i + 1) * cells)
//   | Records          | EventRecord[]: lane i owns [first_record, first_record + record_count)
//   | GpuBuffers       | buffers that CUPTI fills in place: what it had written survives the process (1.1)
//   +------------------+ RingHeader::file_bytes
//
// Who owns what: a LANE belongs to one thread at a time, which alone writes its header, its totals and its records,
// and which alone hands out its in-flight slots. A thread claims a small lane with its first event and moves to a
// large one when it has filled the small one; a lane whose thread ended or moved on is claimed by a later one
// (tenants, below), the one left longest first, so that what a thread left behind is overwritten as late as can be.
// An in-flight SLOT is handed out by its lane's thread and may be finished by any thread (an operation starts on the
// launching thread and is finished by the proxy's); its fields other than `tag` are written with relaxed atomic
// stores.
//
// A RECORD is committed by its `commit` word, and a reader takes it so:
//
//   writer (one thread)                       reader (any process)
//     commit = 0          (relaxed)             c1 = commit                (acquire)
//     fence(release)                            c1 == 0: torn or never written -> skip, count
//     fields              (relaxed)             copy the fields            (relaxed)
//     commit = index + 1  (release)             fence(acquire); c2 = commit (relaxed)
//                                               c1 == c2 and (c1 - 1) % record_count == position: it is good
//
// A record's index counts from the lane's first ever record; position = index % record_count. So a record that was
// overwritten while it was read, one of an earlier lap, and one that a killed process left half written are all told
// apart, without any help from the writer. LaneHeader::head is the number of records ever committed there.
//
// States of an in-flight slot (SlotState bits in `tag`):
//
//   free --start--> kOpen [host call under way] --stop--> kIssued [launched, end not known] --last child--> kComplete
//     ^                                                        |                                             |
//     +-------------- the lane needs the slot: kOpEvicted is recorded if it was not complete ----------------+
//
// Endianness: little; byte_order below lets a reader refuse the other. Versions: a reader takes any minor version of
// its major one; it finds sections by the table, and strides by `entry_bytes`, so appended fields and new sections do
// no harm. What bumps which is in schema/README.md.
//
// READERS: this memory is hostile. Copy a value, check the copy, use the copy.
#ifndef RANKSCOPE_SCHEMA_RING_ABI_H_
#define RANKSCOPE_SCHEMA_RING_ABI_H_

#include <cstddef>
#include <cstdint>

#include "schema/event_abi.h"

namespace rankscope::schema {

// "RKSRING" + 0x01, stored xor-ed with all ones so that a scan of a core file for the magic gives no false hit.
inline constexpr uint64_t kRingMagic = ~0x01474e4952534b52ull;
inline constexpr uint32_t kByteOrderMark = 0x01020304u;
inline constexpr uint16_t kRingMajor = 1;
inline constexpr uint16_t kRingMinor = 1;

enum class Section : uint32_t {
  kNone = 0,
  kIdentity = 1,
  kClockPairs = 2,
  kNames = 3,
  kNameBytes = 4,
  kComms = 5,
  kLosses = 6,
  kLanes = 7,
  kSlots = 8,
  kTotals = 9,
  kRecords = 10,
  kCupti = 11,
  kStreams = 12,
  kGpuBuffers = 13,
};
inline constexpr int kSectionLimit = 32;

struct SectionEntry {
  uint32_t id;           // Section
  uint32_t entry_bytes;  // stride of one entry
  uint64_t offset;       // from the file's start, 64-byte aligned
  uint64_t count;        // entries
};
static_assert(sizeof(SectionEntry) == 24);

enum class TickSource : uint32_t { kMonotonicNs = 0, kTsc = 1, kArmCounter = 2 };

enum class RingState : uint32_t {
  kStarting = 0,
  kRecording = 1,
  kClosed = 2,  // the process said goodbye; a missing goodbye means nothing (exit and kill don't say it)
};

struct RingHeader {
  uint64_t magic;         // kRingMagic, stored last with release: before that the file is not a ring
  uint32_t byte_order;    // kByteOrderMark as the writer's machine stores it
  uint16_t major, minor;  // kRingMajor, kRingMinor
  uint32_t header_bytes;  // sizeof(RingHeader) of the writer
  uint32_t record_bytes;  // 64
  uint64_t file_bytes;    // the whole file
  uint32_t section_count;
  uint32_t lane_count;
  uint32_t small_lane_count;  // lanes [0, small_lane_count) are small, the others large
  uint32_t cells_per_lane;    // TotalCell each
  uint32_t state;             // RingState
  uint32_t tick_source;       // TickSource
  uint64_t ticks_per_second;  // estimate at start; ClockPairs say better. 1e9 for kMonotonicNs
  uint64_t start_ticks;
  uint32_t comm_count;  // communicators ever; entries [0, min(comm_count, Comms.count)) are used
  uint32_t name_count;  // names ever interned; ids are 1-based, entry id-1; 0 = no name
  uint64_t name_bytes_used;
  uint64_t clock_pair_count;  // pairs ever taken; see ClockPair
  uint32_t event_mask;        // NCCL event types asked for at present
  uint32_t pair_cost_ps;     // a start-stop pair as measured when the ring was made, in picoseconds; 0 = not measured
  uint32_t record_kinds_lo;  // bit k: events of kind k (0..31) are written as records
  uint32_t record_kinds_hi;  // bit k: kind 32 + k
  uint32_t doors;            // Door bits: the ways by which rankscope entered this process (1.1)
  uint32_t reserved0;
  uint64_t reserved[17];
  SectionEntry sections[kSectionLimit];
};
static_assert(offsetof(RingHeader, sections) == 256 && sizeof(RingHeader) == 256 + 24 * kSectionLimit);
inline constexpr uint64_t kHeaderRegionBytes = 4096;

// The ways into a process.
enum Door : uint32_t {
  kDoorPlugin = 1 << 0,   // NCCL loaded the profiler plugin
  kDoorCuda = 1 << 1,     // the CUDA driver called InitializeInjection
  kDoorNvtx = 1 << 2,     // an NVTX header called InitializeInjectionNvtx2
  kDoorPreload = 1 << 3,  // LD_PRELOAD
  kDoorHook = 1 << 4,     // the Python hook
  // NCCL's own NVTX ranges, where no plugin came: CollApi and P2pApi events are made of them.
  kDoorNcclRanges = 1 << 5,
  kDoorTrace = 1 << 6,  // not recorded by rankscope: imported from torch.profiler (never in a ring)
};

// Where the process's rank came from, worst to best.
enum class RankSource : uint32_t {
  kNone = 0,
  kSlurm = 1,
  kPmi = 2,  // PMIX_RANK, PMI_RANK
  kOpenMpi = 3,
  kTorch = 4,         // RANK with WORLD_SIZE and LOCAL_RANK or TORCHELASTIC_RUN_ID
  kCommunicator = 5,  // the largest communicator that NCCL told us
  kTrace = 6,         // an imported trace, or its file's name
};

struct ProcessIdentity {
  int32_t rank;              // global rank; -1 unknown
  int32_t world_size;        // 0 unknown
  int32_t local_rank;        // -1 unknown
  int32_t local_world_size;  // 0 unknown
  uint32_t rank_source;      // RankSource
  int32_t env_rank;          // what the environment said, kept where NCCL overruled it; -1 unknown
  int32_t env_world_size;
  uint32_t env_rank_source;
  int32_t node_rank;      // -1 unknown
  int32_t restart_count;  // TORCHELASTIC_RESTART_COUNT; -1 unknown
  int32_t device;         // CUDA device ordinal; -1 unknown
  uint32_t pid;
  uint32_t parent_pid;
  uint32_t uid;
  uint64_t process_start_ticks;  // field 22 of /proc/self/stat: tells a reused pid
  uint64_t start_realtime_ns;
  int32_t nccl_version;      // as ncclGetVersion gives it (22809); 0 unknown
  int32_t nccl_api_version;  // the profiler table NCCL chose, 1..7; 0 = none yet
  uint32_t mode;             // 0 flight, 1 stream
  uint32_t reserved0;
  char host[256];  // NUL-terminated, each of these
  char boot_id[64];
  char job[256];
  char launcher[64];  // torchrun, deepspeed, slurm, openmpi, mpich, unknown ...
  char run_id[128];
  char device_uuid[64];
  char command[512];  // /proc/self/cmdline, spaces between, cut
  char library_version[64];
  char gpu_visible[256];  // CUDA_VISIBLE_DEVICES
  uint64_t reserved[16];
};
static_assert(offsetof(ProcessIdentity, host) == 88 && sizeof(ProcessIdentity) == 88 + 1664 + 128);

// One reading of the three clocks. Pairs [0, kFirstClockPairs) are kept for good, the later ones rotate through the
// rest of the section: entry of pair i >= kFirstClockPairs is kFirstClockPairs + (i - kFirstClockPairs) % (count -
// kFirstClockPairs). `commit` is 0 while an entry is written, else 1 + i.
struct ClockPair {
  uint64_t commit;
  uint64_t ticks;
  uint64_t monotonic_ns;
  uint64_t realtime_ns;
  uint64_t uncertainty_ns;  // the reading's window: the three values lie within it
  uint64_t reserved;
};
static_assert(sizeof(ClockPair) == 48);
inline constexpr uint32_t kFirstClockPairs = 64;

enum class NameKind : uint32_t {
  kOther = 0,
  kThread = 1,
  kComm = 2,
  kKernel = 3,
  kPhase = 4,
  kRange = 5,
  kDomain = 6,
  kPathClass = 7,
  kFunction = 8,
};
struct NameEntry {
  uint32_t offset;  // into NameBytes
  uint32_t bytes;   // 0 = not yet committed (stored last with release) or empty
  uint32_t kind;    // NameKind
  uint32_t hash;
};
static_assert(sizeof(NameEntry) == 16);

enum CommFlags : uint32_t {
  kCommIdentityKnown = 1 << 0,  // hash and rank are NCCL's
  kCommSizeKnown = 1 << 1,      // ranks and nodes are NCCL's (API v4+)
  kCommFinalized = 1 << 2,
  kCommIdentityMissing = 1 << 3,  // an old table on a newer NCCL: events came, and they named no communicator
  kCommMaskRefused = 1 << 4,      // asked-for events were refused in this NCCL version
};
struct CommEntry {
  uint64_t commit;  // 0 = not yet usable; 1 + slot else
  uint64_t hash;    // NCCL's commHash / commId: equal on all ranks
  int32_t rank;     // communicator rank; -1 unknown
  int32_t ranks;    // 0 unknown
  int32_t nodes;    // 0 unknown
  uint32_t flags;   // CommFlags
  uint32_t name;    // interned; 0 = none
  uint32_t api_version;
  uint64_t init_ticks;
  uint64_t finalize_ticks;  // 0 = not yet
  uint32_t device;          // CUDA ordinal + 1; 0 unknown
  uint32_t reserved0;
  uint64_t launched_by_func[kFunctionLimit];  // Coll and P2p events ever, by Function
  uint64_t api_by_func[kFunctionLimit];       // CollApi and P2pApi events ever, by Function
  uint64_t last_seq_by_func[kFunctionLimit];  // 1 + NCCL's last sequence number, 0 = none yet
  uint64_t reserved[8];
};
static_assert(sizeof(CommEntry) == 512);

// Why an event is not in the ring. Process-wide counters; overwriting is counted by the lanes (head - record_count).
enum class LossReason : uint32_t {
  kNoLane = 0,       // more threads at once than lanes
  kNoSlot = 1,       // no in-flight slot could be had
  kEvicted = 2,      // an unfinished operation lost its in-flight slot (it is recorded as kOpEvicted)
  kUnknownType = 3,  // an event type that this build doesn't know
  kUnknownState = 4,
  kStaleHandle = 5,    // a stop or state for an event that is gone
  kForeignHandle = 6,  // a handle of another process or garbage
  kNullContext = 7,    // an event without a communicator (recorded under kCommUnknown)
  kBadContext = 8,     // an event with a context that is not ours: dropped
  kNameTableFull = 9,
  kCommTableFull = 10,
  kTotalsFull = 11,  // the totals' cells are used up: counted in cell 0
  kBadGpuStamp = 12,
  kPeerOutOfRange = 13,  // point-to-point ordinal not kept
  kForked = 14,          // a forked child called in
  kRepeatedStop = 15,    // a stop of an event that was stopped: the first counts
  kMissingStop = 16,     // a new start found the old event of its kind still open
  kForeignProxy = 17,    // not a loss: network operations run here for another process (PXN)
  kInternal = 18,
  kCuptiDropped = 19,        // records that CUPTI says it dropped
  kCuptiNoTimestamp = 20,    // records with begin and end 0
  kCuptiBadTimestamp = 21,   // end before begin, or an hour long
  kCuptiForeignClock = 22,   // times of another client's clock
  kCuptiIncomplete = 23,     // an end of 0: delivered by a forced flush while it ran
  kCuptiUnparsedBytes = 24,  // bytes of buffers behind a record that can't be stepped over
  kCuptiUnknownKind = 25,    // such records
  kCuptiUnknownBuffer = 26,  // buffers that were not ours
  kCuptiNoBuffer = 27,       // requests for a buffer that could not be met
  kRangeUnbalanced = 28,     // pops without a push, ends without a start
  kRangeTooDeep = 29,        // pushes beyond what is kept of a thread's stack
  kRangeTableFull = 30,      // started ranges beyond what is kept open
  kCallSiteTableFull = 31,   // call stacks beyond what is kept
  // Of files that others made (analysis/importers/); never in a ring.
  kImportDamaged = 32,    // places that could not be read
  kImportBadTime = 33,    // events without times, or with impossible ones
  kImportUnmatched = 34,  // operations of a communicator whose ranks' traces list different ones
};
inline constexpr int kLossReasonLimit = 64;

// ---------------------------------------------------------------------------------------------------------------
// The GPU source (cupti/). One entry, written by the thread that arms CUPTI and then by rankscope's own flush thread;
// counters with relaxed atomic adds. All zero = the source was never there.
enum class CuptiState : uint32_t {
  kNone = 0,       // no door that leads to CUPTI was used
  kArmed = 1,      // records come
  kYielded = 2,    // another client has CUPTI at present
  kRefused = 3,    // another client had it when we came
  kFailed = 4,     // `result` of `failing_call`
  kDisarmed = 5,   // given up by ourselves: too many bad times
  kOff = 6,        // RANKSCOPE_CUPTI=0
  kNoLibrary = 7,  // no libcupti was found
};
enum class CuptiClock : uint32_t {
  kNone = 0,
  kOurs = 1,      // CUPTI stamps with our clock (timestamp callback)
  kRealtime = 2,  // CLOCK_REALTIME, converted by the clock pairs
};
enum class GpuBufferState : uint32_t { kFree = 0, kLent = 1, kReturned = 2 };

inline constexpr int kCuptiKindLimit = 64;  // CUPTI's activity kinds that are of interest are below this
inline constexpr int kGpuBufferLimit = 64;
struct CuptiInfo {
  uint32_t state;           // CuptiState
  uint32_t api_version;     // as cuptiGetVersion gives it: 130001 is 13.0 Update 1, below 100000 an older counting
  int32_t result;           // CUPTI's code of the call that failed
  uint32_t clock;           // CuptiClock
  uint64_t clock_error_ns;  // largest window in which our clock and CUPTI's were read together
  uint64_t enabled_kinds;   // bit k: activity kind k is on
  uint64_t missing_calls;   // bit k: entry point k of cupti/cupti_calls.h isn't in the library
  uint64_t armed_ticks;     // when; 0 = never
  uint64_t arm_cost_ns;     // what it cost the thread that did it
  uint64_t records;         // taken over into the ring
  uint64_t buffers_lent;    // ever
  uint64_t buffers_returned;
  uint64_t flushes;
  uint64_t blind_since_ticks;  // 0 = not blind at present
  uint64_t blind_ns;           // in all, without the present time
  uint32_t resumes;
  uint32_t buffer_bytes;  // of one buffer
  uint32_t buffer_count;
  uint32_t reserved0;
  uint64_t device_buffer_bytes;  // attributes as read back; 0 = could not be asked
  uint64_t device_buffer_limit;
  uint64_t device_buffer_preallocated;
  uint32_t per_thread_buffers;  // 1 + value
  uint32_t reserved1;
  uint64_t reserved2[8];
  uint16_t stride[kCuptiKindLimit];        // bytes of a record of kind k in this library; 0 = not known
  uint32_t buffer_state[kGpuBufferLimit];  // GpuBufferState of the buffers that lie in the ring
  char library[256];                       // path, NUL-terminated, as each of these
  char holder[64];                         // who else has CUPTI, where that is known
  char failing_call[64];
};
static_assert(sizeof(CuptiInfo) == 216 + 128 + 256 + 384);

// A stream as NCCL names it (its address) and as CUPTI does.
struct StreamEntry {
  uint64_t commit;  // 0 = not yet usable; 1 + index else
  uint64_t handle;
  uint32_t stream_id;
  uint32_t context_id;
};
static_assert(sizeof(StreamEntry) == 24);

struct LaneTenant {
  uint64_t first_record;  // index of the first record that is this thread's
  uint32_t thread_id;     // Linux tid
  uint32_t name;          // interned thread name; 0 = none
};
static_assert(sizeof(LaneTenant) == 16);
inline constexpr int kLaneTenants = 8;

struct LaneHeader {
  uint64_t head;          // records ever committed; stored after the commit word with release
  uint64_t first_record;  // first entry of Records that is the lane's
  uint64_t record_count;  // a power of two
  uint64_t first_slot;
  uint64_t slot_count;       // a power of two
  uint64_t op_count;         // operations ever begun on this lane: op_id = op_count << 8 | lane
  uint32_t owner_thread_id;  // 0 = free
  uint32_t tenant_count;     // tenants ever; tenant i is in tenants[i % kLaneTenants]
  uint64_t reserved0;
  LaneTenant tenants[kLaneTenants];
  uint64_t committed_by_kind[kEventKindLimit];  // records ever, by EventKind
  uint64_t dropped_by_kind[kEventKindLimit];    // started here and not recorded
  // Low 32 bits of pthread_self() of tenants[i]: what CUPTI's API records call a thread; 0 = not known.
  uint32_t pthread_low[kLaneTenants];
  uint64_t reserved[20];
};
static_assert(sizeof(LaneHeader) == 64 + 128 + 1024 + 192);

enum SlotState : uint8_t {
  kSlotOpen = 1 << 0,      // its host call (or, for proxy events, the event) is under way
  kSlotApiOpen = 1 << 1,   // the API call that began it is under way
  kSlotIssued = 1 << 2,    // launched (a Coll or P2p event was seen)
  kSlotComplete = 1 << 3,  // never written by the recorder: readers derive it (children_started > 0 and all stopped)
  kSlotIsOperation = 1 << 4,  // a collective or point-to-point (kind says which), as against any other event
};

// tag = generation << 32 | lane << 16 | kind << 8 | SlotState. 0 = never used. Written with release; a reader takes
// it, copies, and takes it again, as for a record.
struct InFlightSlot {
  uint64_t tag;
  uint64_t issue_ticks;  // the first start of this operation or event
  uint64_t begin_ticks;  // start of the event of `kind`
  // ---- the next 40 bytes are laid out as in the EventRecord that the stop will write
  uint16_t kind;   // EventKind, as in the tag
  uint16_t flags;  // EventFlags
  uint16_t comm;
  uint16_t aux;      // as in the record
  uint64_t op_id;    // of the operation itself, or of the parent for proxy events
  uint64_t count;    // collectives, P2p: elements. ProxyOp: bytes moved
  uint32_t seq;      // ProxyOp: steps
  uint32_t ordinal;  // ProxyOp: chunk bytes
  uint8_t func, dtype, algo, proto;
  int32_t root_or_peer;  // Coll: root; P2p, ProxyOp: peer
  // ---- second cache line: touched by completion only
  uint64_t end_ticks;  // stop of the launch where the writer keeps it; 0 = open, or look into the records
  uint64_t last_progress_ticks;
  uint32_t children_started;  // ProxyOps (and kernel channels) started
  uint32_t children_stopped;
  uint64_t parent;       // handle of the parent, for proxy events
  uint64_t detail[2];    // ProxyOp: pid, last state. ProxyStep: states. GPU stamps: begin, end in GPU ns
  uint32_t thread_id;    // of the thread that started it
  uint32_t api_ordinal;  // ordinal of the API call, kOrdinalUnknown if none was seen
  uint64_t stream;
};
static_assert(sizeof(InFlightSlot) == 128 && offsetof(InFlightSlot, end_ticks) == 64);
static_assert(offsetof(InFlightSlot, kind) == offsetof(EventRecord, kind) &&
              offsetof(InFlightSlot, op_id) == offsetof(EventRecord, op_id) &&
              offsetof(InFlightSlot, count) == offsetof(EventRecord, payload));

// Counters that never age. One cell per (function, size class) and lane; a reader adds the lanes up. Values are sums
// modulo 2^64 (the histogram: 2^32) over the lanes: one lane may hold a negative share. A slot's tag has kind 0 while
// the slot is being filled.
inline constexpr int kDurationBuckets = 64;
struct TotalCell {
  uint32_t key;  // 0 = free; else 1 << 31 | Function << 8 | size class (floor(log2(bytes)) + 1, 0 for no bytes)
  uint32_t reserved0;
  uint64_t api_calls;       // CollApi/P2pApi stops
  uint64_t launched;        // Coll/P2p/CeColl stops
  uint64_t bytes;           // of the launched ones
  uint64_t completed;       // with an observed end
  uint64_t duration_ticks;  // sum over the completed ones, launch to end
  uint64_t duration_max_ticks;
  uint64_t reserved1;
  uint32_t duration_histogram[kDurationBuckets];  // of the completed ones; DurationBucket()
};
static_assert(sizeof(TotalCell) == 320);
inline constexpr uint32_t kTotalCellUsed = 1u << 31;

// Bucket of a duration: two an octave from 2^8 ticks on, the ends clamped.
constexpr int DurationBucket(uint64_t ticks) {
  if (ticks < 256) return 0;
  const int log2 = 63 - __builtin_clzll(ticks);
  const int bucket = 2 * (log2 - 8) + static_cast<int>((ticks >> (log2 - 1)) & 1);
  return bucket < kDurationBuckets ? bucket : kDurationBuckets - 1;
}
// Smallest duration in ticks that falls into `bucket`.
constexpr uint64_t DurationBucketFloorTicks(int bucket) {
  if (bucket <= 0) return 0;
  const int log2 = 8 + bucket / 2;
  return (1ull << log2) | (static_cast<uint64_t>(bucket & 1) << (log2 - 1));
}
constexpr uint32_t SizeClass(uint64_t bytes) {
  return bytes == 0 ? 0u : 64u - static_cast<uint32_t>(__builtin_clzll(bytes));
}
static_assert(DurationBucket(DurationBucketFloorTicks(17)) == 17 &&
              DurationBucket(DurationBucketFloorTicks(18)) == 18);
static_assert(SizeClass(1) == 1 && SizeClass(1024) == 11);

}  // namespace rankscope::schema

#endif  // RANKSCOPE_SCHEMA_RING_ABI_H_
