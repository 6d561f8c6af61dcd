// See gpu_json.h.
#include "analysis/answers/gpu_json.h"

#include <string>

#include "analysis/answers/gpu_text.h"

namespace rankscope::answers {

using nlohmann::json;

namespace {

// What doors came in, by name.
json DoorsJson(uint32_t doors) {
  json list = json::array();
  const std::pair<uint32_t, const char*> names[] = {
      {schema::kDoorPlugin, "nccl_plugin"},  {schema::kDoorCuda, "cuda_injection"},
      {schema::kDoorNvtx, "nvtx_injection"}, {schema::kDoorPreload, "preload"},
      {schema::kDoorHook, "python_hook"},    {schema::kDoorNcclRanges, "nccl_ranges"},
      {schema::kDoorTrace, "torch_profiler"}};
  for (const auto& [bit, name] : names) {
    if ((doors & bit) != 0) list.push_back(name);
  }
  return list;
}

const char* StateName(uint32_t state) {
  constexpr const char* kNames[] = {"none", "armed", "yielded", "refused", "failed", "disarmed", "off", "no_library"};
  return state < std::size(kNames) ? kNames[state] : "unknown";
}

json SourceJson(const analysis::RankInfo& rank) {
  const analysis::CuptiSourceInfo& cupti = rank.cupti;
  constexpr const char* kClocks[] = {"none", "ours", "realtime"};
  return {{"state", StateName(cupti.state)},
          {"text", CuptiStateText(cupti)},
          {"library", cupti.library},
          {"api_version", cupti.api_version},
          {"holder", cupti.holder},
          {"failing_call", cupti.failing_call},
          {"result", cupti.result},
          {"clock", cupti.clock < std::size(kClocks) ? kClocks[cupti.clock] : "unknown"},
          {"clock_error_ns", cupti.clock_error_ns},
          {"arm_cost_ns", cupti.arm_cost_ns},
          {"records", cupti.records},
          {"buffers_lent", cupti.buffers_lent},
          {"buffers_returned", cupti.buffers_returned},
          {"flushes", cupti.flushes},
          {"blind_ns", cupti.blind_ns},
          {"resumes", cupti.resumes}};
}

}  // namespace

json GpuJson(const Report& report) {
  json ranks = json::array();
  for (uint32_t r = 0; r < report.gpu.ranks.size(); ++r) {
    const GpuRank& gpu = report.gpu.ranks[r];
    json copies = json::object();
    for (int d = 0; d < kCopyDirections; ++d) {
      const CopySums& sums = gpu.copies[static_cast<size_t>(d)];
      if (sums.copies == 0) continue;
      copies[CopyDirectionName(static_cast<CopyDirection>(d))] = {
          {"copies", sums.copies}, {"bytes", sums.bytes}, {"time_ns", sums.busy_ns}, {"pageable", sums.pageable}};
    }
    ranks.push_back({{"rank", report.ranks[r].rank},
                     {"rank_index", r},
                     {"doors", DoorsJson(report.ranks[r].doors)},
                     {"source", SourceJson(report.ranks[r])},
                     {"window_ns", gpu.last_ns - gpu.first_ns},
                     {"busy_ns", gpu.busy_ns},
                     {"compute_ns", gpu.compute_ns},
                     {"nccl_ns", gpu.nccl_ns},
                     {"nccl_hidden_ns", gpu.hidden_ns},
                     {"kernels", gpu.kernels},
                     {"nccl_kernels", gpu.nccl_kernels},
                     {"memsets", gpu.memsets},
                     {"graph_launches", gpu.graphs},
                     {"graph_ns", gpu.graph_ns},
                     {"host_waits", gpu.syncs},
                     {"host_wait_ns", gpu.sync_ns},
                     {"overhead_records", gpu.overheads},
                     {"overhead_ns", gpu.overhead_ns},
                     {"copies", std::move(copies)},
                     {"memory_taken", gpu.memory_taken},
                     {"memory_released", gpu.memory_released},
                     {"memory_peak_bytes", gpu.memory_peak_bytes}});
  }
  json kernels = json::array();
  for (const KernelSums& kernel : report.gpu.kernels) {
    kernels.push_back({{"name", kernel.name},
                       {"nccl", kernel.nccl},
                       {"launches", kernel.launches},
                       {"total_ns", kernel.total_ns},
                       {"max_ns", kernel.max_ns}});
  }
  const JoinStats& join = report.join;
  return {{"ranks", std::move(ranks)},
          {"kernels", std::move(kernels)},
          {"kernels_left_out", report.gpu.other_kernels},
          {"join",
           {{"nccl_kernels", join.kernels},
            {"launches", join.launches},
            {"joined", join.joined()},
            {"reanchored", join.reanchored()},
            {"by_order_of_rank", join.by_order()},
            {"launches_without_kernel", join.launches_without_kernel},
            {"kernels_without_launch", join.of(JoinConfidence::kNone)},
            {"graph_kernels", join.graph_kernels},
            {"captured_launches", join.captured},
            {"operations_with_gpu_times", report.operations_with_gpu_times}}}};
}

json PhasesJson(const Report& report) {
  json ranks = json::array();
  for (uint32_t r = 0; r < report.phases.ranks.size(); ++r) {
    const PhaseRank& rank = report.phases.ranks[r];
    json phases = json::object(), gpu = json::object(), sources = json::object(), files = json::object();
    for (size_t p = 1; p < rank.phase_ns.size(); ++p) {
      const auto phase = static_cast<schema::Phase>(p);
      if (phase != schema::Phase::kOther) phases[PhaseName(phase)] = rank.phase_ns[p];
      gpu[PhaseName(phase)] = rank.gpu_ns[p];
    }
    for (size_t s = 1; s < rank.source_ns.size(); ++s) {
      if (rank.source_ns[s] > 0) sources[PhaseSourceName(static_cast<schema::PhaseSource>(s))] = rank.source_ns[s];
    }
    for (const auto& [path_class, bytes] : rank.file_bytes)
      files[path_class] = {{"read_bytes", bytes.first}, {"written_bytes", bytes.second}};
    ranks.push_back({{"rank", report.ranks[r].rank},
                     {"rank_index", r},
                     {"window_ns", rank.window_ns},
                     {"phases_ns", std::move(phases)},
                     {"other_ns", rank.other_ns},
                     {"sources_ns", std::move(sources)},
                     {"gpu_ns", rank.launches == 0 ? json(nullptr) : std::move(gpu)},
                     {"gpu_unknown_ns", rank.gpu_unknown_ns},
                     {"ranges", rank.ranges},
                     {"garbage_collections", rank.garbage_collections},
                     {"garbage_collection_ns", rank.garbage_collection_ns},
                     {"files", std::move(files)},
                     {"cpu_ns", rank.cpu_ns},
                     {"cpu_window_ns", rank.cpu_window_ns},
                     {"resident_peak_bytes", rank.resident_peak_bytes}});
  }
  json ranges = json::array();
  for (const RangeSums& range : report.phases.ranges) {
    ranges.push_back(
        {{"domain", range.domain},
         {"name", range.name},
         {"phase", range.phase == schema::Phase::kUnknown ? json(nullptr) : json(PhaseName(range.phase))},
         {"count", range.count},
         {"total_ns", range.total_ns},
         {"max_ns", range.max_ns}});
  }
  return {
      {"ranks", std::move(ranks)}, {"ranges", std::move(ranges)}, {"ranges_left_out", report.phases.other_ranges}};
}

}  // namespace rankscope::answers
