// See kernel_join.h.
#include "analysis/answers/kernel_join.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "analysis/answers/names.h"
#include "analysis/answers/order_match.h"

namespace rankscope::answers {

using analysis::Event;
using analysis::RankInfo;
using schema::EventKind;
using schema::LossReason;

namespace {

constexpr uint64_t kRankQueue = ~uint64_t{0};          // streams that are not known, and ranks without launch events
constexpr uint16_t kSyncStream = 3, kSyncContext = 4;  // CUpti_ActivitySynchronizationType
constexpr size_t kMostAnchors = 4096;
constexpr uint32_t kCheckEvery = 256;

// Ids wrap after some days: near each other they compare right (cupti.md, 5.1).
bool IdBefore(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) < 0; }

struct Launch {
  int64_t earliest_ns = 0, begin_ns = 0, end_ns = 0;
  uint16_t lane = 0;
  bool captured = false, decided = false;
  std::vector<JoinedKernel::Operation> operations;

  uint8_t func() const {
    if (operations.empty()) return kAnyFunction;
    const auto kernel_func = [](uint8_t func) {
      return IsPointToPoint(func) ? static_cast<uint8_t>(schema::Function::kSendRecv) : func;
    };
    const uint8_t func = kernel_func(operations[0].func);
    for (const auto& operation : operations) {
      if (kernel_func(operation.func) != func) return kAnyFunction;
    }
    // What has a kernel of its name (order_match.cc) and nothing else is compared.
    switch (static_cast<schema::Function>(func)) {
      case schema::Function::kAllGather:
      case schema::Function::kAllReduce:
      case schema::Function::kReduce:
      case schema::Function::kReduceScatter:
      case schema::Function::kBroadcast:
      case schema::Function::kSendRecv:
        return func;
      default:
        return kAnyFunction;
    }
  }
};
using LaunchPointer = std::shared_ptr<Launch>;

struct Kernel {
  int64_t begin_ns = 0, end_ns = 0;
  uint32_t correlation = 0;
  uint8_t func = kAnyFunction;
};

struct Anchor {
  int64_t begin_ns = 0, end_ns = 0;  // of the host's call
  uint32_t correlation = 0;
  bool drains = false;  // all that the stream had been given had run when it ended
};

struct Queue {
  std::deque<LaunchPointer> launches;  // by begin
  std::deque<Kernel> kernels;          // by correlation
  std::deque<Anchor> anchors;          // by begin
  bool one_stream = true;
  bool front_known = true;
  bool any_captured = false;
};

struct Lane {
  LaunchPointer current;                              // what the next operations belong to
  bool captures = false;                              // the last call was captured
  std::vector<JoinedKernel::Operation> before_group;  // without launch events: the Group's record comes after them
  int64_t last_group_end_ns = INT64_MIN;
};

struct Rank {
  bool has_launches = false, losses_known = false, front_known = true, ignore_context = false;
  absl::flat_hash_map<uint64_t, uint64_t> queue_of_handle;
  std::map<uint64_t, Queue> queues;
  absl::flat_hash_map<uint16_t, Lane> lanes;
  std::vector<uint8_t> func_of_name;
  std::vector<bool> nccl_by_name;
  int64_t now_ns = INT64_MIN;
  uint32_t since_check = 0;
};

// A count of this kind of record that can have been in the middle of others.
bool LosesKernels(const analysis::LossInfo& loss) {
  if (loss.count == 0) return false;
  return loss.reason >= static_cast<uint32_t>(LossReason::kCuptiDropped) &&
         loss.reason <= static_cast<uint32_t>(LossReason::kCuptiNoBuffer);
}

}  // namespace

class KernelJoiner::State {
 public:
  State(const std::vector<RankInfo>& ranks, Sink sink, const JoinOptions& options)
      : ranks_(ranks), sink_(std::move(sink)), options_(options), states_(ranks.size()) {
    for (size_t r = 0; r < ranks.size(); ++r) Describe(ranks[r], &states_[r]);
  }

  void Add(const Event& event) {
    if (event.rank_index >= states_.size()) return;
    Rank& rank = states_[event.rank_index];
    rank.now_ns = std::max(rank.now_ns, event.end_ns);
    switch (static_cast<EventKind>(event.kind)) {
      case EventKind::kCollApi:
      case EventKind::kP2pApi:
        rank.lanes[event.lane].captures = (event.flags & schema::kFlagGraphCaptured) != 0;
        return;
      case EventKind::kKernelLaunch:
        AddLaunch(&rank, ranks_[event.rank_index], event);
        break;
      case EventKind::kGroup:
        if (!rank.has_launches) AddGroup(&rank, event);
        break;
      case EventKind::kColl:
      case EventKind::kP2p:
        AddOperation(&rank, event);
        return;
      case EventKind::kGpuKernel:
        AddKernel(&rank, ranks_[event.rank_index], event);
        break;
      case EventKind::kGpuSync:
      case EventKind::kCudaApi:
        AddAnchor(&rank, event);
        break;
      default:
        return;
    }
    if (++rank.since_check < kCheckEvery) return;
    rank.since_check = 0;
    for (auto& [key, queue] : rank.queues) Check(event.rank_index, &rank, &queue, rank.now_ns);
  }

  JoinStats Finish() {
    for (uint32_t r = 0; r < states_.size(); ++r) {
      for (auto& [key, queue] : states_[r].queues) {
        Check(r, &states_[r], &queue, INT64_MAX);
        DecideOpenEnd(r, &states_[r], &queue);
        Decide(r, &states_[r], &queue, queue.launches.size(), 0);
      }
    }
    return stats_;
  }

 private:
  static void Describe(const RankInfo& info, Rank* rank) {
    rank->has_launches = info.nccl_api_version >= 5;
    for (const auto& kind : info.kinds) {
      const auto which = static_cast<EventKind>(kind.kind);
      if (which == EventKind::kKernelLaunch) rank->has_launches |= kind.committed > 0;
      if (which != EventKind::kKernelLaunch && which != EventKind::kGpuKernel) continue;
      // The rings' oldest records are gone: where the two lists begin is not known.
      if (kind.overwritten > 0) rank->front_known = false;
      if (kind.dropped > 0) rank->losses_known = true;
    }
    rank->losses_known |=
        std::any_of(info.losses.begin(), info.losses.end(), LosesKernels) || info.cupti.blind_ns > 0;
    for (const auto& stream : info.streams) rank->ignore_context |= stream.context_id == 0;
    for (const auto& stream : info.streams) {
      rank->queue_of_handle[stream.handle] = KeyOf(*rank, stream.context_id, stream.stream_id);
      rank->queues.try_emplace(KeyOf(*rank, stream.context_id, stream.stream_id));
    }
    rank->queues[kRankQueue].one_stream = false;
    for (auto& [key, queue] : rank->queues) queue.front_known = rank->front_known;
    rank->func_of_name.assign(info.names.size() + 1, kAnyFunction);
    rank->nccl_by_name.assign(info.names.size() + 1, false);
    for (size_t i = 0; i < info.names.size(); ++i) {
      rank->nccl_by_name[i + 1] = NcclKernelFunction(info.names[i], &rank->func_of_name[i + 1]);
    }
  }

  // Records have the context's low 16 bits.
  static uint64_t KeyOf(const Rank& rank, uint32_t context, uint32_t stream) {
    return (rank.ignore_context ? 0 : uint64_t{context & 0xffff} << 32) | stream;
  }

  void AddLaunch(Rank* rank, const RankInfo& info, const Event& event) {
    Lane& lane = rank->lanes[event.lane];
    lane.current = nullptr;
    if (lane.captures) {
      ++stats_.captured;
      return;
    }
    // No record can have come of what ran before the GPU source was there.
    if (info.cupti.armed_ns != 0 && event.end_ns < info.cupti.armed_ns) return;
    auto launch = std::make_shared<Launch>();
    launch->earliest_ns = launch->begin_ns = event.begin_ns;
    launch->end_ns = event.end_ns;
    launch->lane = event.lane;
    lane.current = launch;
    const auto known = rank->queue_of_handle.find(event.payload.launch.stream);
    Push(&rank->queues[known == rank->queue_of_handle.end() ? kRankQueue : known->second], std::move(launch));
  }

  void AddGroup(Rank* rank, const Event& event) {
    Lane& lane = rank->lanes[event.lane];
    auto launch = std::make_shared<Launch>();
    // The kernel was launched before the Group event, and after what the thread did before.
    launch->earliest_ns = lane.last_group_end_ns;
    launch->begin_ns = event.begin_ns;
    launch->end_ns = event.end_ns;
    launch->lane = event.lane;
    launch->operations = std::move(lane.before_group);
    lane.before_group.clear();
    lane.last_group_end_ns = event.end_ns;
    if (launch->operations.empty()) return;
    Push(&rank->queues[kRankQueue], std::move(launch));
  }

  void Push(Queue* queue, LaunchPointer launch) {
    ++stats_.launches;
    auto place = queue->launches.end();
    while (place != queue->launches.begin() && (*std::prev(place))->begin_ns > launch->begin_ns) --place;
    queue->launches.insert(place, std::move(launch));
  }

  void AddOperation(Rank* rank, const Event& event) {
    Lane& lane = rank->lanes[event.lane];
    const JoinedKernel::Operation operation{event.op_id, event.comm, event.payload.coll.func};
    if (!rank->has_launches) {
      if ((event.flags & schema::kFlagGraphReplay) == 0 && lane.before_group.size() < options_.pending) {
        lane.before_group.push_back(operation);
      }
      return;
    }
    if (lane.current == nullptr) return;
    if ((event.flags & schema::kFlagGraphReplay) != 0) {
      // Reported once more than it is launched: at its capture.
      MarkCaptured(rank, lane.current.get());
      lane.current = nullptr;
    } else if (lane.current->decided) {
      ++stats_.late_operations;
    } else if (event.op_id != 0) {
      lane.current->operations.push_back(operation);
    }
  }

  static void MarkCaptured(Rank* rank, Launch* launch) {
    launch->captured = true;
    for (auto& [key, queue] : rank->queues) queue.any_captured = true;
  }

  void AddKernel(Rank* rank, const RankInfo& info, const Event& event) {
    const schema::GpuKernelPayload& payload = event.payload.kernel;
    const bool named = payload.name < rank->func_of_name.size();
    const bool nccl = event.aux == static_cast<uint16_t>(schema::GpuKernelClass::kNccl) ||
                      (named && rank->nccl_by_name[payload.name]);
    if (!nccl) return;
    if ((event.flags & schema::kFlagGraphReplay) != 0) {
      ++stats_.graph_kernels;
      JoinedKernel alone;
      alone.rank_index = info.rank_index;
      alone.gpu_begin_ns = event.begin_ns;
      alone.gpu_end_ns = event.end_ns;
      sink_(alone);
      return;
    }
    ++stats_.kernels;
    const Kernel kernel{event.begin_ns, event.end_ns, payload.correlation,
                        named ? rank->func_of_name[payload.name] : kAnyFunction};
    auto found = rank->has_launches ? rank->queues.find(KeyOf(*rank, payload.context, payload.stream))
                                    : rank->queues.find(kRankQueue);
    if (found == rank->queues.end()) found = rank->queues.find(kRankQueue);
    auto& kernels = found->second.kernels;
    auto place = kernels.end();
    while (place != kernels.begin() && IdBefore(kernel.correlation, std::prev(place)->correlation)) --place;
    kernels.insert(place, kernel);
  }

  void AddAnchor(Rank* rank, const Event& event) {
    const schema::GpuKernelPayload& call = event.payload.kernel;
    if (call.correlation == 0) return;
    const bool sync = static_cast<EventKind>(event.kind) == EventKind::kGpuSync;
    for (auto& [key, queue] : rank->queues) {
      if (queue.launches.empty() && queue.kernels.empty()) continue;
      Anchor anchor{event.begin_ns, event.end_ns, call.correlation, false};
      if (sync && event.aux == kSyncContext) {
        anchor.drains = rank->ignore_context || key >> 32 == (call.context & 0xffff) || !queue.one_stream;
      } else if (sync && event.aux == kSyncStream) {
        anchor.drains = key == KeyOf(*rank, call.context, call.stream);
      }
      if (queue.anchors.size() >= kMostAnchors && !anchor.drains) continue;
      auto place = queue.anchors.end();
      while (place != queue.anchors.begin() && std::prev(place)->begin_ns > anchor.begin_ns) --place;
      queue.anchors.insert(place, anchor);
      if (queue.anchors.size() > 2 * kMostAnchors) queue.anchors.pop_front();
    }
  }

  void Check(uint32_t rank_index, Rank* rank, Queue* queue, int64_t now_ns) {
    if (queue->any_captured) {
      auto& launches = queue->launches;
      const auto gone = std::remove_if(launches.begin(), launches.end(), [](const auto& l) { return l->captured; });
      stats_.captured += static_cast<uint64_t>(launches.end() - gone);
      stats_.launches -= static_cast<uint64_t>(launches.end() - gone);
      launches.erase(gone, launches.end());
      queue->any_captured = false;
    }
    const int64_t settled_ns = now_ns == INT64_MAX ? INT64_MAX : now_ns - options_.reorder_ns;
    // The finer cuts first, and once more where an anchor made the front known.
    CutAtLaunches(rank_index, rank, queue, settled_ns);
    CutAtAnchors(rank_index, rank, queue, settled_ns);
    CutAtLaunches(rank_index, rank, queue, settled_ns);
    const bool full = queue->launches.size() > options_.pending || queue->kernels.size() > options_.pending;
    const int64_t held_ns = now_ns == INT64_MAX ? INT64_MIN : now_ns - options_.hold_ns;
    const bool old = (!queue->launches.empty() && queue->launches.front()->begin_ns < held_ns) ||
                     (!queue->kernels.empty() && queue->kernels.front().end_ns < held_ns);
    if (!full && !old) return;
    DecideOpenEnd(rank_index, rank, queue);
    // What was launched so long ago and has no kernel by now has lost it.
    size_t stale = 0;
    while (stale < queue->launches.size() &&
           (queue->launches[stale]->begin_ns < held_ns || queue->launches.size() - stale > options_.pending / 2)) {
      ++stale;
    }
    if (stale == 0) return;
    Decide(rank_index, rank, queue, stale, 0);
    queue->front_known = false;
  }

  void CutAtAnchors(uint32_t rank_index, Rank* rank, Queue* queue, int64_t settled_ns) {
    // All kernels that were launched before an anchor have come if a later call is known to have waited for them, or
    // a later kernel of the stream has come (a stream runs in order).
    size_t settled = 0;
    for (size_t a = 0; a < queue->anchors.size(); ++a) {
      const Anchor& anchor = queue->anchors[a];
      if (anchor.end_ns > settled_ns) break;
      bool all_came = anchor.drains || settled_ns == INT64_MAX;
      if (!all_came && queue->one_stream && !queue->kernels.empty()) {
        const Kernel& last = queue->kernels.back();
        all_came = !IdBefore(last.correlation, anchor.correlation) && last.end_ns <= settled_ns;
      }
      if (all_came) settled = a + 1;
    }
    for (size_t a = 0; !queue->anchors.empty(); ++a) {
      const Anchor anchor = queue->anchors.front();
      size_t launches = 0, kernels = 0;
      while (launches < queue->launches.size() && queue->launches[launches]->begin_ns < anchor.begin_ns) ++launches;
      while (kernels < queue->kernels.size() && IdBefore(queue->kernels[kernels].correlation, anchor.correlation)) {
        ++kernels;
      }
      // Another thread was launching at that moment.
      const bool between =
          std::any_of(queue->launches.begin(), queue->launches.begin() + static_cast<ptrdiff_t>(launches),
                      [&](const auto& launch) { return launch->end_ns > anchor.begin_ns; });
      // A count that is reached can't be exceeded: nothing more is to come.
      const bool whole = launches == kernels && queue->front_known && anchor.end_ns <= settled_ns;
      if (a >= settled && !whole) return;
      if (!between) {
        Decide(rank_index, rank, queue, launches, kernels);
        queue->front_known = true;
      }
      if (queue->anchors.empty()) return;
      queue->anchors.pop_front();
    }
  }

  // Before a launch as many kernels had begun as there had been launches: the stream had nothing left to do.
  void CutAtLaunches(uint32_t rank_index, Rank* rank, Queue* queue, int64_t settled_ns) {
    if (!queue->front_known || !queue->one_stream) return;
    size_t at = 1, begun = 0;
    while (at < queue->launches.size() && queue->launches[at]->begin_ns <= settled_ns) {
      const int64_t before_ns = queue->launches[at]->begin_ns - options_.tolerance_ns;
      while (begun < queue->kernels.size() && queue->kernels[begun].begin_ns < before_ns) ++begun;
      if (begun >= at) {
        Decide(rank_index, rank, queue, at, begun);
        at = 1;
        begun = 0;
      } else {
        ++at;
      }
    }
  }

  // No anchor closes the lists. Where nothing is known to be lost they are in step from the front, and what has no
  // kernel yet is still to run; else only what has one possibility is taken.
  void DecideOpenEnd(uint32_t rank_index, Rank* rank, Queue* queue) {
    const size_t launches = queue->launches.size(), kernels = queue->kernels.size();
    if (kernels == 0) return;
    if (!queue->front_known) {
      Decide(rank_index, rank, queue, 0, kernels);
      return;
    }
    if (!rank->losses_known && kernels <= launches && InStep(*queue, kernels)) {
      Decide(rank_index, rank, queue, kernels, kernels);
      return;
    }
    Decide(rank_index, rank, queue, launches, kernels);
    queue->front_known = false;
  }

  // The first `count` launches and kernels do not contradict each other.
  bool InStep(const Queue& queue, size_t count) const {
    std::vector<OrderedLaunch> launches;
    std::vector<OrderedKernel> kernels;
    for (size_t i = 0; i < count; ++i) {
      launches.push_back({queue.launches[i]->earliest_ns, queue.launches[i]->func()});
      kernels.push_back({queue.kernels[i].begin_ns, queue.kernels[i].func});
    }
    const OrderMatch match = MatchInOrder(launches, kernels, true, options_.tolerance_ns);
    return count == 0 || match.launch_of[0] >= 0;
  }

  // Matches the first launches and kernels with each other and takes them off.
  void Decide(uint32_t rank_index, Rank* rank, Queue* queue, size_t launches, size_t kernels) {
    std::vector<OrderedLaunch> ordered_launches;
    std::vector<OrderedKernel> ordered_kernels;
    for (size_t i = 0; i < launches; ++i) {
      ordered_launches.push_back({queue->launches[i]->earliest_ns, queue->launches[i]->func()});
      queue->launches[i]->decided = true;
    }
    for (size_t i = 0; i < kernels; ++i) {
      ordered_kernels.push_back({queue->kernels[i].begin_ns, queue->kernels[i].func});
    }
    const OrderMatch match =
        MatchInOrder(ordered_launches, ordered_kernels, queue->front_known, options_.tolerance_ns);
    uint64_t matched = 0;
    for (size_t i = 0; i < kernels; ++i) {
      JoinedKernel joined;
      joined.rank_index = rank_index;
      joined.gpu_begin_ns = queue->kernels[i].begin_ns;
      joined.gpu_end_ns = queue->kernels[i].end_ns;
      if (match.launch_of[i] >= 0) {
        ++matched;
        Launch& launch = *queue->launches[static_cast<size_t>(match.launch_of[i])];
        joined.confidence =
            match.step == OrderStep::kInStep ? JoinConfidence::kExactOrder : JoinConfidence::kReanchored;
        if (!queue->one_stream) joined.confidence = JoinConfidence::kByTime;
        joined.launch_ns = rank->has_launches ? launch.begin_ns : std::min(launch.begin_ns, joined.gpu_begin_ns);
        joined.lane = launch.lane;
        joined.operations = std::move(launch.operations);
      }
      ++stats_.by_confidence[static_cast<size_t>(joined.confidence)];
      sink_(joined);
    }
    stats_.launches_without_kernel += launches - matched;
    queue->launches.erase(queue->launches.begin(), queue->launches.begin() + static_cast<ptrdiff_t>(launches));
    queue->kernels.erase(queue->kernels.begin(), queue->kernels.begin() + static_cast<ptrdiff_t>(kernels));
  }

  const std::vector<RankInfo>& ranks_;
  const Sink sink_;
  const JoinOptions options_;
  std::vector<Rank> states_;
  JoinStats stats_;
};

KernelJoiner::KernelJoiner(const std::vector<RankInfo>& ranks, Sink sink, const JoinOptions& options)
    : state_(std::make_unique<State>(ranks, std::move(sink), options)) {}
KernelJoiner::~KernelJoiner() = default;
void KernelJoiner::Add(const Event& event) { state_->Add(event); }
JoinStats KernelJoiner::Finish() { return state_->Finish(); }

analysis::KindMask KernelJoiner::Kinds() {
  using analysis::MaskOf;
  return MaskOf(EventKind::kCollApi) | MaskOf(EventKind::kP2pApi) | MaskOf(EventKind::kKernelLaunch) |
         MaskOf(EventKind::kGroup) | MaskOf(EventKind::kColl) | MaskOf(EventKind::kP2p) |
         MaskOf(EventKind::kGpuKernel) | MaskOf(EventKind::kGpuSync) | MaskOf(EventKind::kCudaApi);
}

Event CompletionOf(const JoinedKernel& kernel, const JoinedKernel::Operation& operation) {
  Event event;
  event.rank_index = kernel.rank_index;
  event.kind = static_cast<uint16_t>(EventKind::kOpComplete);
  event.comm = operation.comm;
  event.aux = static_cast<uint16_t>(kernel.confidence);
  event.lane = kernel.lane;
  event.op_id = operation.op_id;
  event.begin_ns = kernel.gpu_begin_ns;
  event.end_ns = kernel.gpu_end_ns;
  event.payload.completion.issue_ticks = static_cast<uint64_t>(kernel.launch_ns);
  event.payload.completion.source = static_cast<uint8_t>(schema::CompletionSource::kGpuKernel);
  event.payload.completion.func = operation.func;
  return event;
}

}  // namespace rankscope::answers
