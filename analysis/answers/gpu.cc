// See gpu.h.
#include "analysis/answers/gpu.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace rankscope::answers {

using analysis::Event;
using analysis::RankInfo;
using schema::EventKind;

void BusyTime::Add(int64_t begin_ns, int64_t end_ns) {
  begin_ns = std::max(begin_ns, folded_to_ns_);
  if (begin_ns >= end_ns) return;
  while (!open_.empty() && open_.back().begin_ns >= begin_ns) {
    end_ns = std::max(end_ns, open_.back().end_ns);
    open_.pop_back();
  }
  if (!open_.empty() && open_.back().end_ns >= begin_ns) {
    open_.back().end_ns = std::max(open_.back().end_ns, end_ns);
  } else {
    open_.push_back({begin_ns, end_ns});
  }
  if (open_.size() < 4096) return;
  const int64_t horizon_ns = end_ns - kFoldNs;
  auto first = open_.begin();
  while (first != open_.end() && first->end_ns <= horizon_ns) {
    folded_ns_ += first->end_ns - first->begin_ns;
    folded_to_ns_ = first->end_ns;
    ++first;
  }
  open_.erase(open_.begin(), first);
}

int64_t BusyTime::total_ns() const {
  int64_t total = folded_ns_;
  for (const Interval& interval : open_) total += interval.end_ns - interval.begin_ns;
  return total;
}

const char* CopyDirectionName(CopyDirection direction) {
  switch (direction) {
    case CopyDirection::kHostToDevice:
      return "host to device";
    case CopyDirection::kDeviceToHost:
      return "device to host";
    case CopyDirection::kDeviceToDevice:
      return "device to device";
    case CopyDirection::kPeer:
      return "peer to peer";
    case CopyDirection::kOther:
      break;
  }
  return "other";
}

std::string ShortKernelName(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status),
                                                     std::free);
  const std::string name = status == 0 && plain != nullptr ? plain.get() : mangled;
  // Template arguments and parameters go; what is left is the qualified name.
  std::string out;
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (name.compare(i, 21, "(anonymous namespace)") == 0 && depth == 0) {
      out += "(anonymous)";
      i += 20;
      continue;
    }
    if (c == '<') {
      if (depth++ == 0) out += "<>";
    } else if (c == '>') {
      depth = std::max(0, depth - 1);
    } else if (c == '(' && depth == 0) {
      break;
    } else if (depth == 0) {
      out += c;
    }
  }
  if (out.rfind("void ", 0) == 0) out.erase(0, 5);
  constexpr size_t kLongest = 72;
  if (out.size() > kLongest) out = "..." + out.substr(out.size() - kLongest + 3);
  return out.empty() ? mangled.substr(0, kLongest) : out;
}

GpuCollector::GpuCollector(const std::vector<RankInfo>& ranks, size_t kernels_kept)
    : ranks_(ranks), kernels_kept_(kernels_kept), states_(ranks.size()) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    states_[r].sums.blind_ns = static_cast<int64_t>(std::min<uint64_t>(ranks[r].cupti.blind_ns, INT64_MAX));
  }
}

analysis::KindMask GpuCollector::Kinds() {
  using analysis::MaskOf;
  return MaskOf(EventKind::kGpuKernel) | MaskOf(EventKind::kGpuMemcpy) | MaskOf(EventKind::kGpuMemset) |
         MaskOf(EventKind::kGpuSync) | MaskOf(EventKind::kGpuMemory) | MaskOf(EventKind::kGpuGraph) |
         MaskOf(EventKind::kGpuOverhead);
}

void GpuCollector::AddKernel(State* state, const RankInfo& info, const Event& event) {
  const int64_t length_ns = event.end_ns - event.begin_ns;
  const bool nccl = event.aux == static_cast<uint16_t>(schema::GpuKernelClass::kNccl);
  GpuRank& sums = state->sums;
  ++sums.kernels;
  if (nccl) ++sums.nccl_kernels;
  const uint16_t device = event.payload.kernel.device;
  state->busy[device].Add(event.begin_ns, event.end_ns);
  (nccl ? state->nccl : state->compute)[device].Add(event.begin_ns, event.end_ns);
  state->kernels[device].Add(event.begin_ns, event.end_ns);
  const uint32_t id = event.payload.kernel.name;
  if (id > info.names.size()) return;
  if (state->by_name.size() <= id) state->by_name.resize(id + 1);
  KernelSums& kernel = state->by_name[id];
  kernel.nccl = nccl;
  ++kernel.launches;
  kernel.total_ns += length_ns;
  kernel.max_ns = std::max(kernel.max_ns, length_ns);
}

void GpuCollector::AddCopy(State* state, const Event& event) {
  const schema::GpuCopyPayload& copy = event.payload.copy;
  CopyDirection direction = CopyDirection::kOther;
  // CUpti_ActivityMemcpyKind
  if (copy.copy_kind == 1) direction = CopyDirection::kHostToDevice;
  if (copy.copy_kind == 2) direction = CopyDirection::kDeviceToHost;
  if (copy.copy_kind == 8) direction = CopyDirection::kDeviceToDevice;
  if (copy.copy_kind == 10 || (copy.device != copy.peer_device && direction == CopyDirection::kDeviceToDevice))
    direction = CopyDirection::kPeer;
  CopySums& sums = state->sums.copies[static_cast<size_t>(direction)];
  ++sums.copies;
  sums.bytes += copy.bytes;
  sums.busy_ns += event.end_ns - event.begin_ns;
  constexpr uint8_t kPageable = 1;  // CUpti_ActivityMemoryKind
  if (copy.source_kind == kPageable || copy.destination_kind == kPageable) ++sums.pageable;
  state->busy[copy.device].Add(event.begin_ns, event.end_ns);
}

void GpuCollector::AddMemory(State* state, const Event& event) {
  constexpr uint16_t kTaken = 1, kReleased = 2;
  GpuRank& sums = state->sums;
  if (event.aux == kTaken) {
    ++sums.memory_taken;
    uint64_t& bytes = state->live[event.op_id];
    state->live_bytes += event.payload.copy.bytes - bytes;
    bytes = event.payload.copy.bytes;
    sums.memory_peak_bytes = std::max(sums.memory_peak_bytes, state->live_bytes);
  } else if (event.aux == kReleased) {
    ++sums.memory_released;
    const auto found = state->live.find(event.op_id);
    if (found == state->live.end()) return;  // taken before the recording began
    state->live_bytes -= found->second;
    state->live.erase(found);
  }
}

void GpuCollector::Add(const Event& event) {
  if (event.rank_index >= states_.size()) return;
  State* state = &states_[event.rank_index];
  GpuRank& sums = state->sums;
  const int64_t length_ns = event.end_ns - event.begin_ns;
  switch (static_cast<EventKind>(event.kind)) {
    case EventKind::kGpuKernel:
      AddKernel(state, ranks_[event.rank_index], event);
      break;
    case EventKind::kGpuMemcpy:
      AddCopy(state, event);
      break;
    case EventKind::kGpuMemset:
      ++sums.memsets;
      state->busy[event.payload.copy.device].Add(event.begin_ns, event.end_ns);
      break;
    case EventKind::kGpuSync:
      ++sums.syncs;
      sums.sync_ns += length_ns;
      return;
    case EventKind::kGpuMemory:
      AddMemory(state, event);
      return;
    case EventKind::kGpuGraph:
      ++sums.graphs;
      sums.graph_ns += length_ns;
      state->busy[event.payload.kernel.device].Add(event.begin_ns, event.end_ns);
      state->compute[event.payload.kernel.device].Add(event.begin_ns, event.end_ns);
      state->kernels[event.payload.kernel.device].Add(event.begin_ns, event.end_ns);
      break;
    case EventKind::kGpuOverhead:
      ++sums.overheads;
      sums.overhead_ns += length_ns;
      return;
    default:
      return;
  }
  if (sums.first_ns == 0 || event.begin_ns < sums.first_ns) sums.first_ns = event.begin_ns;
  sums.last_ns = std::max(sums.last_ns, event.end_ns);
}

GpuReport GpuCollector::Finish() {
  GpuReport report;
  std::map<std::string, KernelSums> by_name;
  for (size_t r = 0; r < states_.size(); ++r) {
    State& state = states_[r];
    for (const auto& [device, busy] : state.busy) state.sums.busy_ns += busy.total_ns();
    for (const auto& [device, busy] : state.compute) state.sums.compute_ns += busy.total_ns();
    for (const auto& [device, busy] : state.nccl) state.sums.nccl_ns += busy.total_ns();
    // |A and B| = |A| + |B| - |A or B|
    state.sums.hidden_ns = state.sums.compute_ns + state.sums.nccl_ns;
    for (const auto& [device, busy] : state.kernels) state.sums.hidden_ns -= busy.total_ns();
    report.any |= state.sums.any();
    report.ranks.push_back(state.sums);
    for (size_t id = 0; id < state.by_name.size(); ++id) {
      const KernelSums& kernel = state.by_name[id];
      if (kernel.launches == 0) continue;
      const std::string name = id == 0 ? "(no name)" : ShortKernelName(ranks_[r].names[id - 1]);
      KernelSums& sums = by_name[name];
      sums.name = name;
      sums.nccl |= kernel.nccl;
      sums.launches += kernel.launches;
      sums.total_ns += kernel.total_ns;
      sums.max_ns = std::max(sums.max_ns, kernel.max_ns);
    }
  }
  for (auto& [name, kernel] : by_name) report.kernels.push_back(std::move(kernel));
  std::sort(report.kernels.begin(), report.kernels.end(), [](const KernelSums& a, const KernelSums& b) {
    return a.total_ns != b.total_ns ? a.total_ns > b.total_ns : a.name < b.name;
  });
  if (report.kernels.size() > kernels_kept_) {
    report.other_kernels = report.kernels.size() - kernels_kept_;
    report.kernels.resize(kernels_kept_);
  }
  return report;
}

}  // namespace rankscope::answers
