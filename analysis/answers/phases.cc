// See phases.h.
#include "analysis/answers/phases.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace rankscope::answers {

using analysis::Event;
using analysis::RankInfo;
using schema::EventKind;
using schema::Phase;
using schema::PhaseSource;

namespace {

// Calls of the autograd thread that are no further apart are one backward pass: it issues its reductions bucket by
// bucket.
constexpr int64_t kAutogradGapNs = 50'000'000;
constexpr size_t kSweepAt = 1 << 16;
constexpr int64_t kSweepBehindNs = 60'000'000'000;
constexpr size_t kLaunchesKept = 1 << 18;
constexpr uint16_t kNoLane = 0xffff;

struct Word {
  const char* word;
  Phase phase;
};
// Parts of the ranges' names of DeepSpeed (0.9 to 0.19), of FSDP, Megatron, Lightning and of torch.profiler's
// annotations where they are emitted as NVTX. The first that is contained counts, so the narrower ones come first.
constexpr Word kWords[] = {
    {"enumerate(DataLoader)", Phase::kDataLoading},
    {"DataLoader", Phase::kDataLoading},
    {"get_batch", Phase::kDataLoading},
    {"batch-generator", Phase::kDataLoading},
    {"batch_input", Phase::kDataLoading},
    {"save_checkpoint", Phase::kCheckpoint},
    {"load_checkpoint", Phase::kCheckpoint},
    {"save-checkpoint", Phase::kCheckpoint},
    {"DeepSpeedEngine.allreduce_gradients", Phase::kGradientReduction},
    {"reduce_partition_and_remove_grads", Phase::kGradientReduction},
    {"__reduce_and_partition_ipg_grads", Phase::kGradientReduction},
    {"__add_grad_to_ipg_bucket", Phase::kGradientReduction},
    {"__avg_scatter", Phase::kGradientReduction},
    {"partition_grads", Phase::kGradientReduction},
    {"independent_gradient_partition_epilogue", Phase::kGradientReduction},
    {"reduce_scatter_coalesced", Phase::kGradientReduction},
    {"all_to_all_quant_reduce", Phase::kGradientReduction},
    {"all_to_all_loco_quant_reduce", Phase::kGradientReduction},
    {"allreduce_mics_shard_grads", Phase::kGradientReduction},
    {"AllReduceCoalescedHandle.wait", Phase::kGradientReduction},
    {"FSDP::post_backward_reduce", Phase::kGradientReduction},
    {"grads-all-reduce", Phase::kGradientReduction},
    {"grads-reduce-scatter", Phase::kGradientReduction},
    {"Optimizer.zero_grad", Phase::kOptimizer},
    {"Optimizer.step", Phase::kOptimizer},
    {"Optimizer_Stage3.step", Phase::kOptimizer},
    {"Optimizer_Stage3.zero_grad", Phase::kOptimizer},
    {"unscale_and_clip_grads", Phase::kOptimizer},
    {"_overflow_check_and_loss_scale_update", Phase::kOptimizer},
    {"_prepare_fp32_grad_for_sub_group", Phase::kOptimizer},
    {"get_grad_norm_direct", Phase::kOptimizer},
    {"optimizer_step", Phase::kOptimizer},
    {"optimizer-inner-step", Phase::kOptimizer},
    {"DeepSpeedEngine.backward", Phase::kBackward},
    {"_run_before_backward_function", Phase::kBackward},
    {"_run_after_backward_function", Phase::kBackward},
    {"backward-compute", Phase::kBackward},
    {"DeepSpeedEngine.forward", Phase::kForward},
    {"_start_of_forward_hook", Phase::kForward},
    {"_post_forward_module_hook", Phase::kForward},
    {"DistributedDataParallel.forward", Phase::kForward},
    {"FullyShardedDataParallel.forward", Phase::kForward},
    {"forward-compute", Phase::kForward},
};
// Whole names, as people write them around their own code.
constexpr Word kNames[] = {
    {"forward", Phase::kForward},       {"fwd", Phase::kForward},
    {"backward", Phase::kBackward},     {"bwd", Phase::kBackward},
    {"optimizer", Phase::kOptimizer},   {"dataloader", Phase::kDataLoading},
    {"data", Phase::kDataLoading},      {"data_loading", Phase::kDataLoading},
    {"checkpoint", Phase::kCheckpoint},
};

}  // namespace

const char* PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kDataLoading:
      return "data loading";
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kGradientReduction:
      return "gradient reduction";
    case Phase::kOptimizer:
      return "optimizer";
    case Phase::kCheckpoint:
      return "checkpoint";
    case Phase::kUnknown:
    case Phase::kOther:
      break;
  }
  return "other";
}

const char* PhaseSourceName(PhaseSource source) {
  switch (source) {
    case PhaseSource::kThread:
      return "autograd thread";
    case PhaseSource::kRange:
      return "range names";
    case PhaseSource::kHook:
      return "Python hook";
    case PhaseSource::kFileIo:
      return "files";
    case PhaseSource::kKernel:
      return "kernel names";
    case PhaseSource::kNone:
      break;
  }
  return "none";
}

Phase PhaseOfRange(const std::string& domain, const std::string& name) {
  // NCCL's own ranges are calls of communication, in whatever phase.
  if (domain == "NCCL") return Phase::kUnknown;
  // "## forward ##"
  absl::string_view bare = name;
  while (!bare.empty() && (bare.front() == '#' || bare.front() == ' ')) bare.remove_prefix(1);
  while (!bare.empty() && (bare.back() == '#' || bare.back() == ' ')) bare.remove_suffix(1);
  for (const Word& word : kNames) {
    if (absl::EqualsIgnoreCase(bare, word.word)) return word.phase;
  }
  for (const Word& word : kWords) {
    if (absl::StrContains(name, word.word)) return word.phase;
  }
  return Phase::kUnknown;
}

PhaseCollector::PhaseCollector(const std::vector<RankInfo>& ranks, size_t ranges_kept)
    : ranks_(ranks), ranges_kept_(ranges_kept), states_(ranks.size()), autograd_lane_(ranks.size()) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (const analysis::KindCountInfo& kind : ranks[r].kinds) {
      states_[r].has_calls |= kind.kind == static_cast<uint16_t>(EventKind::kCudaApi) && kind.committed > 0;
    }
    for (const analysis::ThreadInfo& thread : ranks[r].threads) {
      if (thread.pthread_low != 0) states_[r].lane_of_thread[thread.pthread_low] = thread.lane;
      if (!absl::StartsWith(thread.name, "pt_autograd")) continue;
      if (autograd_lane_[r].size() <= thread.lane) autograd_lane_[r].resize(thread.lane + size_t{1});
      autograd_lane_[r][thread.lane] = true;
    }
  }
}

analysis::KindMask PhaseCollector::Kinds() {
  using analysis::MaskOf;
  return MaskOf(EventKind::kRange) | MaskOf(EventKind::kFileIo) | MaskOf(EventKind::kHostSample) |
         MaskOf(EventKind::kGroupApi) | MaskOf(EventKind::kCollApi) | MaskOf(EventKind::kColl) |
         MaskOf(EventKind::kCudaApi) | MaskOf(EventKind::kGpuKernel) | MaskOf(EventKind::kGpuMemcpy) |
         MaskOf(EventKind::kGpuMemset) | MaskOf(EventKind::kGpuGraph);
}

void PhaseCollector::Add(const Event& event) {
  if (event.rank_index >= states_.size()) return;
  State* state = &states_[event.rank_index];
  const RankInfo& info = ranks_[event.rank_index];
  switch (static_cast<EventKind>(event.kind)) {
    case EventKind::kRange:
      AddRange(state, info, event);
      break;
    case EventKind::kFileIo: {
      const uint32_t id = event.payload.file_io.path_class;
      const std::string path_class = id >= 1 && id <= info.names.size() ? info.names[id - 1] : "unknown";
      auto& bytes = state->sums.file_bytes[path_class];
      (event.aux == static_cast<uint16_t>(schema::FileOperation::kRead) ? bytes.first : bytes.second) +=
          event.payload.file_io.bytes;
      if (path_class == "checkpoint")
        AddInterval(state, {event.begin_ns, event.end_ns, Phase::kCheckpoint, PhaseSource::kFileIo, event.lane});
      if (path_class == "data")
        AddInterval(state, {event.begin_ns, event.end_ns, Phase::kDataLoading, PhaseSource::kFileIo, event.lane});
      break;
    }
    case EventKind::kHostSample:
      if (!state->sampled) state->first_sample = event;
      state->sampled = true;
      state->last_sample = event;
      state->sums.resident_peak_bytes = std::max(state->sums.resident_peak_bytes, event.payload.host.resident_bytes);
      break;
    case EventKind::kCudaApi:
      AddLaunch(state, event);
      break;
    case EventKind::kGpuKernel:
    case EventKind::kGpuGraph:
      AddWork(state, event.payload.kernel.correlation, event);
      break;
    case EventKind::kGpuMemcpy:
    case EventKind::kGpuMemset:
      AddWork(state, event.payload.copy.correlation, event);
      break;
    default:
      AddCall(state, event.rank_index, event);
      break;
  }
}

void PhaseCollector::AddRange(State* state, const RankInfo& info, const Event& event) {
  const schema::RangePayload& range = event.payload.range;
  const auto [place, is_new] = state->ranges.try_emplace({range.domain, range.name});
  RangeSums& sums = place->second;
  if (is_new) {
    if (range.name >= 1 && range.name <= info.names.size()) sums.name = info.names[range.name - 1];
    if (range.domain >= 1 && range.domain <= info.names.size()) sums.domain = info.names[range.domain - 1];
    sums.phase = PhaseOfRange(sums.domain, sums.name);
  }
  const int64_t length_ns = event.end_ns - event.begin_ns;
  ++sums.count;
  sums.total_ns += length_ns;
  sums.max_ns = std::max(sums.max_ns, length_ns);
  if (event.aux == static_cast<uint16_t>(schema::RangeForm::kHook) && sums.name == "gc") {
    ++state->sums.garbage_collections;
    state->sums.garbage_collection_ns += length_ns;
  }
  // What was left open by an exception has no true end.
  if ((event.flags & schema::kFlagStopMissing) != 0) return;
  Interval interval{event.begin_ns, event.end_ns, sums.phase, PhaseSource::kRange, event.lane};
  if (range.phase != 0 && range.phase < schema::kPhaseLimit) {
    interval.phase = static_cast<Phase>(range.phase);
    interval.source = PhaseSource::kHook;
    sums.phase = interval.phase;
  }
  if (interval.phase == Phase::kUnknown || interval.phase == Phase::kOther) return;
  ++state->sums.ranges;
  AddInterval(state, interval);
}

// NCCL calls of PyTorch's autograd thread are made in backward: the time from one to the next, where they are close,
// is backward.
void PhaseCollector::AddCall(State* state, uint32_t rank_index, const Event& event) {
  if (!IsAutograd(rank_index, event.lane)) return;
  const auto [place, is_new] = state->autograd.try_emplace(
      event.lane, Interval{event.begin_ns, event.end_ns, Phase::kBackward, PhaseSource::kThread, event.lane});
  Interval& pass = place->second;
  if (is_new) return;
  if (event.begin_ns - pass.end_ns > kAutogradGapNs) {
    AddInterval(state, pass);
    pass.begin_ns = event.begin_ns;
  }
  pass.begin_ns = std::min(pass.begin_ns, event.begin_ns);
  pass.end_ns = std::max(pass.end_ns, event.end_ns);
}

void PhaseCollector::AddInterval(State* state, const Interval& interval) {
  if (interval.end_ns <= interval.begin_ns || interval.end_ns <= state->swept_to_ns) return;
  if (state->first_ns == 0 || interval.begin_ns < state->first_ns) state->first_ns = interval.begin_ns;
  state->last_ns = std::max(state->last_ns, interval.end_ns);
  state->intervals.push_back(interval);
  if (state->intervals.size() >= kSweepAt) Sweep(state, state->last_ns - kSweepBehindNs);
}

void PhaseCollector::AddLaunch(State* state, const Event& event) {
  const schema::GpuKernelPayload& call = event.payload.kernel;
  if (call.correlation == 0) return;
  ++state->sums.launches;
  const auto lane = state->lane_of_thread.find(call.stream);
  const Launch launch{event.begin_ns, lane == state->lane_of_thread.end() ? kNoLane : lane->second};
  const auto [place, is_new] = state->launches.try_emplace(call.correlation, launch);
  if (!is_new) {
    // The runtime's call and the driver's inside it share an id; ids come again after some days.
    if (event.begin_ns - place->second.begin_ns > kSweepBehindNs) place->second = launch;
    place->second.begin_ns = std::min(place->second.begin_ns, launch.begin_ns);
    return;
  }
  state->launch_order.push_back(call.correlation);
  if (state->launch_order.size() <= kLaunchesKept) return;
  state->launches.erase(state->launch_order.front());
  state->launch_order.pop_front();
}

void PhaseCollector::AddWork(State* state, uint32_t correlation, const Event& event) {
  // Without CUDA calls there is nothing to look for.
  if (!state->has_calls) return;
  Work work{correlation, false, {0, kNoLane}, event.end_ns, event.end_ns - event.begin_ns};
  if (const auto found = state->launches.find(correlation); found != state->launches.end()) {
    work.known = true;
    work.launch = found->second;
  }
  state->work.push_back(work);
  if (state->work.size() < std::max(state->sweep_at_work, kSweepAt)) return;
  Sweep(state, std::max(state->last_ns, event.end_ns) - kSweepBehindNs);
  state->sweep_at_work = 2 * state->work.size();
}

bool PhaseCollector::IsAutograd(uint32_t rank_index, uint16_t lane) const {
  return lane < autograd_lane_[rank_index].size() && autograd_lane_[rank_index][lane];
}

// Gives the time up to `to_ns` to its phases, and the GPU work that was launched until then. Longer ranges that end
// later count from there on.
void PhaseCollector::Sweep(State* state, int64_t to_ns) {
  const auto rank_index = static_cast<uint32_t>(state - states_.data());
  to_ns = std::max(to_ns, state->swept_to_ns);
  enum What : uint8_t { kEnds, kBegins, kLaunches };
  struct Edge {
    int64_t at_ns;
    What what;
    size_t index;  // of an interval, or of work
  };
  std::vector<Edge> edges;
  std::vector<Interval> later;
  for (size_t i = 0; i < state->intervals.size(); ++i) {
    Interval& interval = state->intervals[i];
    interval.begin_ns = std::max(interval.begin_ns, state->swept_to_ns);
    if (interval.end_ns > to_ns) {
      later.push_back(interval);
      later.back().begin_ns = std::max(interval.begin_ns, to_ns);
      interval.end_ns = to_ns;
    }
    if (interval.end_ns <= interval.begin_ns) continue;
    edges.push_back({interval.begin_ns, kBegins, i});
    edges.push_back({interval.end_ns, kEnds, i});
  }
  std::vector<Work> later_work;
  for (size_t i = 0; i < state->work.size(); ++i) {
    Work& work = state->work[i];
    if (const auto found = state->launches.find(work.correlation); !work.known && found != state->launches.end()) {
      work.known = true;
      work.launch = found->second;
    }
    if ((work.known ? work.launch.begin_ns : work.end_ns) > to_ns) {
      later_work.push_back(work);
    } else if (work.known) {
      edges.push_back({work.launch.begin_ns, kLaunches, i});
    } else {
      state->sums.gpu_unknown_ns += work.length_ns;
    }
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return std::tie(a.at_ns, a.what, a.index) < std::tie(b.at_ns, b.what, b.index);
  });
  const auto weight = [&](size_t i) {
    const Phase phase = state->intervals[i].phase;
    return phase == Phase::kCheckpoint ? 2 : phase == Phase::kDataLoading ? 1 : 0;
  };
  // By weight, then by what began last: the winner is the last.
  std::set<std::tuple<int, int64_t, size_t>> active;
  // What a thread launches belongs to its own innermost range; else to backward, if it is the autograd thread; else
  // to the rank's phase.
  const auto phase_of_launch = [&](const Launch& launch) {
    if (launch.lane != kNoLane) {
      for (auto it = active.rbegin(); it != active.rend(); ++it) {
        const Interval& interval = state->intervals[std::get<2>(*it)];
        if (interval.lane == launch.lane) return interval.phase;
      }
      if (IsAutograd(rank_index, launch.lane)) return Phase::kBackward;
    }
    return active.empty() ? Phase::kOther : state->intervals[std::get<2>(*active.rbegin())].phase;
  };
  int64_t at_ns = 0;
  for (const Edge& edge : edges) {
    if (edge.what == kLaunches) {
      const Work& work = state->work[edge.index];
      state->sums.gpu_ns[static_cast<size_t>(phase_of_launch(work.launch))] += work.length_ns;
      continue;
    }
    if (!active.empty()) {
      const Interval& winner = state->intervals[std::get<2>(*active.rbegin())];
      const int64_t length_ns = edge.at_ns - at_ns;
      state->sums.phase_ns[static_cast<size_t>(winner.phase)] += length_ns;
      state->sums.source_ns[static_cast<size_t>(winner.source)] += length_ns;
    }
    at_ns = edge.at_ns;
    const auto key = std::make_tuple(weight(edge.index), state->intervals[edge.index].begin_ns, edge.index);
    if (edge.what == kBegins) {
      active.insert(key);
    } else {
      active.erase(key);
    }
  }
  state->swept_to_ns = to_ns;
  state->intervals = std::move(later);
  state->work = std::move(later_work);
}

PhaseReport PhaseCollector::Finish() {
  PhaseReport report;
  std::map<std::pair<std::string, std::string>, RangeSums> all;
  for (State& state : states_) {
    for (const auto& [lane, pass] : state.autograd) AddInterval(&state, pass);
    // Everything: what the GPU did may have been launched after the last range.
    Sweep(&state, INT64_MAX);
    PhaseRank& sums = state.sums;
    sums.window_ns = state.last_ns - state.first_ns;
    sums.other_ns = sums.window_ns;
    for (const int64_t phase_ns : sums.phase_ns) sums.other_ns -= phase_ns;
    if (state.sampled) {
      sums.cpu_ns =
          static_cast<int64_t>(state.last_sample.payload.host.cpu_ns - state.first_sample.payload.host.cpu_ns);
      sums.cpu_window_ns = state.last_sample.end_ns - state.first_sample.end_ns;
    }
    report.any |= state.last_ns != 0;
    report.ranks.push_back(sums);
    for (const auto& [ids, range] : state.ranges) {
      RangeSums& sum = all[{range.domain, range.name}];
      sum.domain = range.domain;
      sum.name = range.name;
      sum.phase = range.phase;
      sum.count += range.count;
      sum.total_ns += range.total_ns;
      sum.max_ns = std::max(sum.max_ns, range.max_ns);
    }
  }
  for (auto& [name, range] : all) report.ranges.push_back(std::move(range));
  report.any_ranges = !report.ranges.empty();
  std::sort(report.ranges.begin(), report.ranges.end(),
            [](const RangeSums& a, const RangeSums& b) { return a.total_ns > b.total_ns; });
  if (report.ranges.size() > ranges_kept_) {
    report.other_ranges = report.ranges.size() - ranges_kept_;
    report.ranges.resize(ranges_kept_);
  }
  return report;
}

}  // namespace rankscope::answers
