// See kernel_join.h.
#include "analysis/answers/kernel_join.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"

namespace rankscope::answers {

using analysis::Event;
using analysis::RankInfo;
using schema::EventKind;

namespace {

constexpr uint8_t kAnyFunction = 0xfe;  // a kernel that runs whatever it is given, or a name that doesn't say
constexpr uint8_t kNotLookedAt = 0xff;
constexpr uint32_t kStreamOfOrder = 0xfffffffe;        // the one list of a rank without launch events
constexpr uint32_t kUnmappedStream = 0xffffffff;       // launches whose stream CUPTI's number is not known of
constexpr size_t kLookAhead = 16;                      // launches that may have lost their kernels in a row
constexpr uint16_t kSyncStream = 3, kSyncContext = 4;  // CUpti_ActivitySynchronizationType

bool IsSendOrRecv(uint8_t func) {
  return func == static_cast<uint8_t>(schema::Function::kSend) ||
         func == static_cast<uint8_t>(schema::Function::kRecv);
}

}  // namespace

KernelJoiner::KernelJoiner(const std::vector<RankInfo>& ranks, Emit emit)
    : ranks_(ranks), emit_(std::move(emit)), states_(ranks.size()) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    Rank& rank = states_[r];
    for (const analysis::StreamInfo& stream : ranks[r].streams) rank.stream_of[stream.handle] = stream.stream_id;
    rank.func_of_name.assign(ranks[r].names.size() + 1, kNotLookedAt);
    // From API v5 on there are launch events, unless the user took them away.
    rank.by_order = ranks[r].nccl_api_version != 0 && ranks[r].nccl_api_version < 5 && ranks[r].comms.size() == 1;
    if (ranks[r].nccl_api_version != 0 && ranks[r].nccl_api_version < 5 && ranks[r].comms.size() > 1)
      ++stats_.ranks_not_joinable;
  }
}

analysis::KindMask KernelJoiner::Kinds() {
  using analysis::MaskOf;
  return MaskOf(EventKind::kKernelLaunch) | MaskOf(EventKind::kColl) | MaskOf(EventKind::kP2p) |
         MaskOf(EventKind::kGpuKernel) | MaskOf(EventKind::kGpuSync);
}

void KernelJoiner::Add(const Event& event) {
  if (event.rank_index >= states_.size()) return;
  Rank* rank = &states_[event.rank_index];
  switch (static_cast<EventKind>(event.kind)) {
    case EventKind::kKernelLaunch:
      AddLaunch(rank, event);
      break;
    case EventKind::kColl:
    case EventKind::kP2p:
      AddOperation(rank, event);
      break;
    case EventKind::kGpuKernel:
      if (event.aux == static_cast<uint16_t>(schema::GpuKernelClass::kNccl))
        AddKernel(rank, ranks_[event.rank_index], event);
      break;
    case EventKind::kGpuSync:
      AddSync(rank, event);
      break;
    default:
      break;
  }
}

void KernelJoiner::AddLaunch(Rank* rank, const Event& event) {
  ++stats_.launches;
  rank->has_launches = true;
  const auto stream = rank->stream_of.find(event.payload.launch.stream);
  auto plan = std::make_shared<Plan>();
  plan->begin_ns = event.begin_ns;
  plan->end_ns = event.end_ns;
  std::deque<PlanPointer>& queue = rank->waiting[stream == rank->stream_of.end() ? kUnmappedStream : stream->second];
  queue.push_back(plan);
  if (queue.size() > kMostWaiting) Drop(&queue, 1);
  rank->current[event.lane] = std::move(plan);
}

void KernelJoiner::AddOperation(Rank* rank, const Event& event) {
  const Operation operation{event.op_id, event.comm, event.payload.coll.func};
  if (event.op_id == 0) return;
  if ((event.flags & schema::kFlagGraphReplay) != 0) return;  // launched by the graph, not by the last plan
  if (rank->by_order && !rank->has_launches) {
    auto plan = std::make_shared<Plan>();
    plan->begin_ns = event.begin_ns;
    plan->end_ns = event.end_ns;
    plan->operations.push_back(operation);
    std::deque<PlanPointer>& queue = rank->waiting[kStreamOfOrder];
    queue.push_back(std::move(plan));
    if (queue.size() > kMostWaiting) Drop(&queue, 1);
    return;
  }
  const auto current = rank->current.find(event.lane);
  // NCCL calls these for a plan right after its launch, on the same thread.
  if (current == rank->current.end() || event.begin_ns < current->second->begin_ns) return;
  Plan* plan = current->second.get();
  plan->operations.push_back(operation);
  if (plan->ran) EmitFor(operation, event.rank_index, *plan);
}

uint8_t KernelJoiner::FunctionOfKernel(Rank* rank, const RankInfo& info, uint32_t name) {
  if (name == 0 || name >= rank->func_of_name.size()) return kAnyFunction;
  uint8_t& func = rank->func_of_name[name];
  if (func != kNotLookedAt) return func;
  func = kAnyFunction;
  const std::string& text = info.names[name - 1];
  const std::pair<const char*, schema::Function> words[] = {
      {"SendRecv", schema::Function::kSendRecv},   {"ReduceScatter", schema::Function::kReduceScatter},
      {"AllReduce", schema::Function::kAllReduce}, {"AllGather", schema::Function::kAllGather},
      {"Broadcast", schema::Function::kBroadcast}, {"Kernel_Reduce_", schema::Function::kReduce}};
  for (const auto& [word, function] : words) {
    if (!absl::StrContains(text, word)) continue;
    func = static_cast<uint8_t>(function);
    break;
  }
  return func;
}

// The kernel may be this plan's: it began no earlier than the launch, and is of the function of one of its
// operations. A plan of several functions runs in any of their kernels, and so does one whose operations are not
// known yet.
bool KernelJoiner::Fits(const Plan& plan, uint8_t func, const Event& kernel) {
  if (plan.begin_ns > kernel.begin_ns + kToleranceNs) return false;
  if (func == kAnyFunction || plan.operations.empty()) return true;
  return std::any_of(plan.operations.begin(), plan.operations.end(), [&](const Operation& operation) {
    return operation.func == func ||
           (func == static_cast<uint8_t>(schema::Function::kSendRecv) && IsSendOrRecv(operation.func));
  });
}

void KernelJoiner::AddKernel(Rank* rank, const RankInfo& info, const Event& event) {
  ++stats_.kernels;
  if ((event.flags & schema::kFlagGraphReplay) != 0) return;  // NCCL's launch event is of the capture
  uint32_t stream = event.payload.kernel.stream;
  if (rank->by_order && !rank->has_launches) {
    stream = kStreamOfOrder;
  } else if (rank->waiting.count(stream) == 0) {
    stream = kUnmappedStream;
  }
  std::deque<PlanPointer>& queue = rank->waiting[stream];
  const uint8_t func = FunctionOfKernel(rank, info, event.payload.kernel.name);
  const size_t reach = std::min(queue.size(), kLookAhead);
  size_t at = 0;
  while (at < reach && !Fits(*queue[at], func, event)) ++at;
  if (at == reach) {
    ++stats_.kernels_without_launch;
    return;
  }
  Drop(&queue, at);
  const PlanPointer plan = queue.front();
  queue.pop_front();
  ++stats_.joined;
  if (at > 0) ++stats_.reanchored;
  if (stream == kStreamOfOrder) ++stats_.by_order;
  plan->ran = true;
  plan->kernel_begin_ns = event.begin_ns;
  plan->kernel_end_ns = event.end_ns;
  for (const Operation& operation : plan->operations) EmitFor(operation, event.rank_index, *plan);
}

// The host waited for a stream, or for all of a context: what was launched before has run, and its records have come
// (they ended earlier, and events come by their end). What is left of it lost its kernel's record.
void KernelJoiner::AddSync(Rank* rank, const Event& event) {
  if (event.aux != kSyncStream && event.aux != kSyncContext) return;
  for (auto& [stream, queue] : rank->waiting) {
    if (event.aux == kSyncStream && stream != event.payload.kernel.stream) continue;
    size_t over = 0;
    while (over < queue.size() && queue[over]->end_ns <= event.begin_ns) ++over;
    Drop(&queue, over);
  }
}

void KernelJoiner::Drop(std::deque<PlanPointer>* queue, size_t count) {
  stats_.launches_without_kernel += count;
  queue->erase(queue->begin(), queue->begin() + static_cast<std::ptrdiff_t>(count));
}

void KernelJoiner::EmitFor(const Operation& operation, uint32_t rank_index, const Plan& plan) {
  Event event;
  event.rank_index = rank_index;
  event.kind = static_cast<uint16_t>(EventKind::kOpComplete);
  event.comm = operation.comm;
  event.op_id = operation.op_id;
  event.begin_ns = plan.kernel_begin_ns;
  event.end_ns = plan.kernel_end_ns;
  event.payload.completion = {static_cast<uint64_t>(plan.begin_ns),
                              0,
                              static_cast<uint8_t>(schema::CompletionSource::kGpuKernel),
                              operation.func,
                              {},
                              0};
  emit_(event);
}

JoinStats KernelJoiner::Finish() {
  for (Rank& rank : states_) {
    for (auto& [stream, queue] : rank.waiting) Drop(&queue, queue.size());
  }
  return stats_;
}

}  // namespace rankscope::answers
