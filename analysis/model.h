// The offline side's plain view of a recording: what one rank is and what one event says, after the untrusted bytes
// of a ring or a timeline have been checked. Nothing here reads files; ring_reader.* and timeline_reader.* fill it.
//
// Times are int64_t nanoseconds since the Unix epoch on the (aligned) host clock; 0 = unknown.
#ifndef RANKSCOPE_ANALYSIS_MODEL_H_
#define RANKSCOPE_ANALYSIS_MODEL_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "schema/event_abi.h"
#include "schema/ring_abi.h"

namespace rankscope::analysis {

struct CommInfo {
  uint16_t slot = 0;
  uint64_t hash = 0;
  int32_t rank = -1;  // communicator rank
  int32_t ranks = 0;  // 0 unknown
  int32_t nodes = 0;
  uint32_t flags = 0;  // schema::CommFlags
  std::string name;
  uint32_t api_version = 0;
  int64_t init_ns = 0;
  int64_t finalize_ns = 0;
  std::array<uint64_t, schema::kFunctionLimit> launched_by_func{};
  std::array<uint64_t, schema::kFunctionLimit> api_by_func{};
  std::array<uint64_t, schema::kFunctionLimit> last_seq_by_func{};  // 1 + last, 0 none
};

struct InFlightInfo {
  uint16_t kind = 0;  // schema::EventKind
  uint8_t state = 0;  // schema::SlotState
  uint16_t comm = schema::kCommUnknown;
  uint8_t func = 0, dtype = 0, algo = 0, proto = 0;
  int32_t root_or_peer = -1;
  uint64_t count = 0;
  uint32_t seq = 0, ordinal = 0, api_ordinal = schema::kOrdinalUnknown;
  uint16_t flags = 0, aux = 0;
  uint64_t op_id = 0;
  int64_t issue_ns = 0, begin_ns = 0, end_ns = 0, last_progress_ns = 0;
  uint32_t children_started = 0, children_stopped = 0;
  uint32_t thread_id = 0;
};

struct TotalInfo {  // summed over the lanes of a ring
  uint8_t func = 0;
  uint8_t size_class = 0;  // schema::SizeClass of the bytes
  uint64_t api_calls = 0, launched = 0, bytes = 0, completed = 0;
  int64_t duration_ns = 0, duration_max_ns = 0;
  std::array<uint32_t, schema::kDurationBuckets> histogram{};  // buckets are of ticks, see schema/ring_abi.h
};

struct KindCountInfo {
  uint16_t kind = 0;
  uint64_t committed = 0, read = 0, overwritten = 0, dropped = 0;
};
struct LossInfo {
  uint32_t reason = 0;  // schema::LossReason
  uint64_t count = 0;
};
struct ThreadInfo {
  uint16_t lane = 0;
  uint32_t thread_id = 0;
  std::string name;
  uint32_t pthread_low = 0;  // what CUPTI's API records call it; 0 = not known
};

// The GPU source of a process (schema::CuptiInfo, with its texts cleaned and its ticks as times).
struct CuptiSourceInfo {
  uint32_t state = 0;  // schema::CuptiState
  uint32_t api_version = 0;
  int32_t result = 0;
  uint32_t clock = 0;  // schema::CuptiClock
  uint64_t clock_error_ns = 0, enabled_kinds = 0, missing_calls = 0;
  int64_t armed_ns = 0;
  uint64_t arm_cost_ns = 0, records = 0, buffers_lent = 0, buffers_returned = 0, flushes = 0;
  int64_t blind_since_ns = 0;
  uint64_t blind_ns = 0;
  uint32_t resumes = 0, buffer_bytes = 0, buffer_count = 0;
  uint64_t device_buffer_bytes = 0, device_buffer_limit = 0, device_buffer_preallocated = 0;
  uint32_t per_thread_buffers = 0;
  std::vector<uint16_t> strides;  // by CUPTI's activity kind
  std::string library, holder, failing_call;
};
struct StreamInfo {
  uint64_t handle = 0;  // as NCCL's launch events name it
  uint32_t stream_id = 0, context_id = 0;
};

struct RankInfo {
  uint32_t rank_index = 0;  // position in Recording::ranks()
  int32_t rank = -1, world_size = 0, local_rank = -1, local_world_size = 0;
  uint32_t rank_source = 0;  // schema::RankSource
  int32_t env_rank = -1, env_world_size = 0, node_rank = -1, restart_count = -1, device = -1;
  uint32_t pid = 0;
  std::string host, boot_id, job, launcher, run_id, device_uuid, command, library_version;
  int32_t nccl_version = 0, nccl_api_version = 0;
  uint32_t event_mask = 0;
  uint64_t record_kinds = 0;  // bit k: kind k is recorded
  std::string ring_path;
  uint64_t ring_bytes = 0;
  bool alive = false, closed = false;
  int64_t start_ns = 0, read_ns = 0, last_event_ns = 0;
  double ticks_per_second = 0;
  uint32_t tick_source = 0;
  double clock_residual_ns = 0;
  uint64_t torn_records = 0;
  double pair_cost_ns = 0;
  std::vector<CommInfo> comms;
  std::vector<InFlightInfo> in_flight;
  std::vector<TotalInfo> totals;
  std::vector<KindCountInfo> kinds;
  std::vector<LossInfo> losses;
  std::vector<ThreadInfo> threads;
  std::vector<std::string> names;  // id - 1
  uint32_t doors = 0;              // schema::Door
  CuptiSourceInfo cupti;
  std::vector<StreamInfo> streams;
};

struct Event {
  uint32_t rank_index = 0;
  uint16_t kind = 0;  // schema::EventKind
  uint16_t flags = 0;
  uint16_t comm = schema::kCommUnknown;
  uint16_t aux = 0;
  uint16_t lane = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint64_t op_id = 0;
  union Payload {  // the payload of schema::EventRecord; completion.issue_ticks holds NANOSECONDS here
    schema::ApiPayload api;
    schema::CollPayload coll;
    schema::P2pPayload p2p;
    schema::ProxyOpPayload proxy_op;
    schema::ProxyStepPayload proxy_step;
    schema::ProxyCtrlPayload proxy_ctrl;
    schema::GpuStampPayload gpu_stamp;
    schema::NetPluginPayload net;
    schema::CeCollPayload ce_coll;
    schema::CeSyncPayload ce_sync;
    schema::CeBatchPayload ce_batch;
    schema::CompletionPayload completion;
    schema::GroupPayload group;
    schema::StreamPayload launch;
    schema::GpuKernelPayload kernel;
    schema::GpuCopyPayload copy;
    schema::RangePayload range;
    schema::FileIoPayload file_io;
    schema::HostSamplePayload host;
    uint64_t words[3];
  } payload{.words = {0, 0, 0}};
};

// A bit per EventKind, for choosing what to read.
using KindMask = uint64_t;
constexpr KindMask MaskOf(schema::EventKind kind) { return KindMask{1} << static_cast<int>(kind); }
inline constexpr KindMask kAllKinds = ~KindMask{0};

// The events of one lane, or of one (rank, kind) of a timeline: of one rank, in order of their end.
class EventSource {
 public:
  virtual ~EventSource() = default;
  // Fills the front of `out`; 0 = the end.
  virtual size_t Read(absl::Span<Event> out) = 0;
  virtual absl::Status status() const { return absl::OkStatus(); }
};

// A stream of events of all ranks in order of their end (the time of their commit), merged over ranks and lanes.
class EventStream {
 public:
  virtual ~EventStream() = default;
  // Fills the front of `out`; returns how many. 0 = the end, or an error: see status().
  virtual size_t Read(absl::Span<Event> out) = 0;
  virtual absl::Status status() const = 0;
};

// How far a host's clock was corrected, and how well that is known (alignment/ finds it; docs/analysis.md, "Clocks").
struct HostClockInfo {
  std::string host, boot_id;
  int64_t offset_ns = 0;        // was added to its wall clock, in the middle of what the operations span
  int64_t bound_ns = -1;        // its times are certainly within this of its group's; -1 = nothing proves it
  int64_t error_ns = -1;        // ... and by the estimate's own spread within this; -1 = not known
  int64_t drift_ppb = 0;        // by how much its clock ran slow against the group's first host
  uint64_t operations = 0;      // that the correction rests on
  int32_t group = -1;           // hosts of one group were aligned with each other; -1 = its own wall clock was taken
  uint64_t contradictions = 0;  // of the group: operations left out, for they ended before somebody had come
};

// What a timeline file or a set of rings is to the analyses.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual const std::vector<RankInfo>& ranks() const = 0;
  virtual const std::vector<HostClockInfo>& clocks() const = 0;
  // Sentences about what could not be read (a cut file, a refused ring); to be shown with every answer.
  virtual const std::vector<std::string>& warnings() const = 0;
  // May be called many times; each stream starts at the beginning. Only events of `kinds` are delivered.
  virtual std::unique_ptr<EventStream> Events(KindMask kinds) const = 0;
  // The same, not yet merged: for whoever changes times before (alignment/).
  virtual std::vector<std::unique_ptr<EventSource>> Sources(KindMask kinds) const = 0;
};

}  // namespace rankscope::analysis

#endif  // RANKSCOPE_ANALYSIS_MODEL_H_
