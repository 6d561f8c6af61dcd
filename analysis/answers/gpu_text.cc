// See gpu_text.h.
#include "analysis/answers/gpu_text.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analysis/answers/format.h"
#include "analysis/answers/report_text.h"
#include "analysis/answers/text_table.h"

namespace rankscope::answers {

namespace {

using Align = TextTable::Align;

std::string Share(int64_t part_ns, int64_t whole_ns) {
  return whole_ns <= 0 ? "" : FormatPercent(static_cast<double>(part_ns) / static_cast<double>(whole_ns));
}

// Ranks whose GPU source is in one state, on one line.
void AddSourceLines(const Report& report, const TextStyle& style, std::string* text) {
  std::map<std::string, std::vector<uint32_t>> by_state;
  for (uint32_t r = 0; r < report.ranks.size(); ++r) {
    const analysis::CuptiSourceInfo& cupti = report.ranks[r].cupti;
    if (static_cast<schema::CuptiState>(cupti.state) == schema::CuptiState::kArmed && cupti.blind_ns == 0) continue;
    by_state[CuptiStateText(cupti)].push_back(r);
  }
  for (const auto& [state, ranks] : by_state)
    absl::StrAppend(text, style.Wrap(absl::StrCat(report.rank_names.Many(ranks, 4), ": ", state), 2));
}

void AddGpuTable(const Report& report, const TextStyle& style, size_t rows, std::string* text) {
  TextTable table;
  table.AddColumn("rank", Align::kLeft);
  for (const char* title :
       {"seen", "busy", "compute", "NCCL", "hidden", "kernels", "graphs", "copied", "host waits", "memory peak"})
    table.AddColumn(title);
  std::vector<uint32_t> order;
  for (uint32_t r = 0; r < report.gpu.ranks.size(); ++r) {
    if (report.gpu.ranks[r].any()) order.push_back(r);
  }
  // The least busy first: that is where time is lost.
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const GpuRank &x = report.gpu.ranks[a], &y = report.gpu.ranks[b];
    return static_cast<double>(x.compute_ns) * static_cast<double>(y.last_ns - y.first_ns) <
           static_cast<double>(y.compute_ns) * static_cast<double>(x.last_ns - x.first_ns);
  });
  for (size_t i = 0; i < order.size() && i < rows; ++i) {
    const GpuRank& gpu = report.gpu.ranks[order[i]];
    const int64_t window_ns = gpu.last_ns - gpu.first_ns;
    uint64_t copied = 0;
    for (const CopySums& copies : gpu.copies) copied += copies.bytes;
    table.AddRow({report.rank_names.One(order[i]), FormatDuration(window_ns), Share(gpu.busy_ns, window_ns),
                  Share(gpu.compute_ns, window_ns), Share(gpu.nccl_ns, window_ns), Share(gpu.hidden_ns, gpu.nccl_ns),
                  FormatCount(gpu.kernels), gpu.graphs > 0 ? FormatCount(gpu.graphs) : "",
                  copied > 0 ? FormatBytes(copied) : "", gpu.syncs > 0 ? FormatDuration(gpu.sync_ns) : "",
                  gpu.memory_peak_bytes > 0 ? FormatBytes(gpu.memory_peak_bytes) : ""});
  }
  absl::StrAppend(text, table.Render(2, style.width()));
  if (order.size() > rows)
    absl::StrAppend(text, style.Wrap(absl::StrCat(order.size() - rows, " more ranks, whose GPUs compute more"), 2));
  absl::StrAppend(
      text, style.Wrap("busy, compute, NCCL: shares of the time seen in which a kernel, copy or set ran, a "
                       "kernel that is not NCCL's, one of NCCL's; hidden: share of NCCL's time in which others' "
                       "kernels ran, too; memory peak: of what was taken while it was recorded",
                       2));
}

void AddKernels(const Report& report, const TextStyle& style, size_t rows, std::string* text) {
  TextTable table;
  table.AddColumn("kernels by time");
  table.AddColumn("launches");
  table.AddColumn("mean");
  table.AddColumn("longest");
  table.AddColumn("kernel", Align::kLeft);
  for (size_t i = 0; i < report.gpu.kernels.size() && i < rows; ++i) {
    const KernelSums& kernel = report.gpu.kernels[i];
    table.AddRow({FormatDuration(kernel.total_ns), FormatCount(kernel.launches),
                  FormatDuration(kernel.total_ns / static_cast<int64_t>(std::max<uint64_t>(1, kernel.launches))),
                  FormatDuration(kernel.max_ns), kernel.name});
  }
  if (!table.empty()) absl::StrAppend(text, "\n", table.Render(2, style.width()));
}

void AddCopies(const Report& report, const TextStyle& style, std::string* text) {
  TextTable table;
  table.AddColumn("copies", Align::kLeft);
  for (const char* title : {"number", "bytes", "time", "rate", "pageable"}) table.AddColumn(title);
  for (int d = 0; d < kCopyDirections; ++d) {
    CopySums sums;
    for (const GpuRank& gpu : report.gpu.ranks) {
      sums.copies += gpu.copies[static_cast<size_t>(d)].copies;
      sums.bytes += gpu.copies[static_cast<size_t>(d)].bytes;
      sums.busy_ns += gpu.copies[static_cast<size_t>(d)].busy_ns;
      sums.pageable += gpu.copies[static_cast<size_t>(d)].pageable;
    }
    if (sums.copies == 0) continue;
    table.AddRow({CopyDirectionName(static_cast<CopyDirection>(d)), FormatCount(sums.copies), FormatBytes(sums.bytes),
                  FormatDuration(sums.busy_ns),
                  sums.busy_ns > 0
                      ? FormatBandwidth(static_cast<double>(sums.bytes) * 1e9 / static_cast<double>(sums.busy_ns))
                      : "",
                  sums.pageable > 0 ? FormatCount(sums.pageable) : ""});
  }
  if (!table.empty()) absl::StrAppend(text, "\n", table.Render(2, style.width()));
}

std::string JoinSentence(const JoinStats& join) {
  if (join.kernels + join.graph_kernels == 0) return "";
  std::string line = absl::StrCat(FormatCount(join.joined()), " of ", FormatCount(join.kernels),
                                  " NCCL kernels are tied to their operations, by stream and order of launch");
  if (join.by_order() > 0)
    absl::StrAppend(
        &line, "; ", FormatCount(join.by_order()),
        " of them by the order of the rank's plans alone (NCCL reports no launch, or CUPTI's number of the "
        "stream is not known), which is less sure");
  if (join.reanchored() > 0)
    absl::StrAppend(&line, "; ", FormatCount(join.reanchored()),
                    " of them beside lost records, where times and functions leave no other possibility");
  if (join.of(JoinConfidence::kNone) > 0)
    absl::StrAppend(&line, "; ", FormatCount(join.of(JoinConfidence::kNone)),
                    " are not tied: records are missing, and more than one launch is possible");
  if (join.graph_kernels > 0)
    absl::StrAppend(&line, "; ", FormatCount(join.graph_kernels),
                    " more were launched by CUDA graphs and are not tied");
  return line;
}

bool IsImported(const analysis::RankInfo& rank) { return (rank.doors & schema::kDoorTrace) != 0; }

std::string ClockText(const Report& report) {
  uint64_t error_ns = 0;
  bool realtime = false;
  for (const analysis::RankInfo& rank : report.ranks) {
    if (rank.cupti.clock == 0) continue;
    error_ns = std::max(error_ns, rank.cupti.clock_error_ns);
    realtime |= rank.cupti.clock == static_cast<uint32_t>(schema::CuptiClock::kRealtime);
  }
  return absl::StrCat("GPU times are on the host's clock, ",
                      realtime ? "by way of the wall clock, " : "which CUPTI was given, ", "read within ",
                      FormatDuration(static_cast<int64_t>(std::min<uint64_t>(error_ns, INT64_MAX))),
                      " of each other; CUPTI's own interpolation adds about a microsecond");
}

}  // namespace

std::string CuptiVersionText(uint32_t api_version) {
  if (api_version >= 100000)
    return absl::StrCat(api_version / 10000, ".", api_version / 100 % 100, " (", api_version, ")");
  return absl::StrCat("before 13.0 (API ", api_version, ")");
}

std::string CuptiStateText(const analysis::CuptiSourceInfo& cupti) {
  const std::string holder =
      cupti.holder.empty() ? "another tool" : absl::StrCat("another tool, ", cupti.holder, ",");
  const std::string blind =
      cupti.blind_ns == 0
          ? ""
          : absl::StrCat(" (nothing was seen for ",
                         FormatDuration(static_cast<int64_t>(std::min<uint64_t>(cupti.blind_ns, INT64_MAX))),
                         " while another client had CUPTI)");
  switch (static_cast<schema::CuptiState>(cupti.state)) {
    case schema::CuptiState::kNone:
      return "no GPU records: CUDA was not there when rankscope came, or CUDA_INJECTION64_PATH was not set "
             "(rankscope doctor)";
    case schema::CuptiState::kArmed:
      return "GPU records came" + blind;
    case schema::CuptiState::kYielded:
      return "no GPU records at the end: another client had CUPTI" + blind;
    case schema::CuptiState::kRefused:
      return absl::StrCat("no GPU records: ", holder, " had CUPTI (code ", cupti.result, ")");
    case schema::CuptiState::kFailed:
      return absl::StrCat("no GPU records: ", cupti.failing_call, " of ", cupti.library, " failed with code ",
                          cupti.result);
    case schema::CuptiState::kDisarmed:
      return "GPU records were given up: too many had impossible times" + blind;
    case schema::CuptiState::kOff:
      return "no GPU records: RANKSCOPE_CUPTI=0";
    case schema::CuptiState::kNoLibrary:
      return "no GPU records: no libcupti was found; set RANKSCOPE_CUPTI_LIB";
  }
  return absl::StrCat("the GPU source is in a state that this program doesn't know (", cupti.state, ")");
}

std::string GpuText(const Report& report, const TextStyle& style, size_t rows) {
  std::string text;
  // A recording from before the GPU source says nothing about it.
  const bool tried = std::any_of(report.ranks.begin(), report.ranks.end(),
                                 [](const analysis::RankInfo& rank) { return rank.cupti.state != 0; });
  if (!report.gpu.any && !tried) return text;
  absl::StrAppend(&text, "\n", style.Heading("GPU"), "\n");
  if (!report.gpu.any) {
    AddSourceLines(report, style, &text);
    return text;
  }
  AddGpuTable(report, style, rows, &text);
  AddKernels(report, style, rows, &text);
  AddCopies(report, style, &text);
  if (std::all_of(report.ranks.begin(), report.ranks.end(), IsImported)) {
    absl::StrAppend(&text, style.Wrap("times, and which kernel belongs to which operation, are torch.profiler's", 2));
    return text;
  }
  const std::string join = JoinSentence(report.join);
  if (!join.empty()) absl::StrAppend(&text, style.Wrap(join, 2));
  absl::StrAppend(&text, style.Wrap(ClockText(report), 2));
  AddSourceLines(report, style, &text);
  return text;
}

constexpr schema::Phase kShownPhases[] = {schema::Phase::kDataLoading, schema::Phase::kForward,
                                          schema::Phase::kBackward,    schema::Phase::kGradientReduction,
                                          schema::Phase::kOptimizer,   schema::Phase::kCheckpoint};

// One sentence, where CUDA's calls were recorded.
std::string GpuByPhaseText(const PhaseReport& phases, const TextStyle& style) {
  std::array<int64_t, schema::kPhaseLimit> sums{};
  int64_t all = 0, unknown = 0;
  bool any = false;
  for (const PhaseRank& rank : phases.ranks) {
    any |= rank.launches > 0;
    unknown += rank.gpu_unknown_ns;
    all += rank.gpu_unknown_ns;
    for (size_t p = 0; p < sums.size(); ++p) {
      sums[p] += rank.gpu_ns[p];
      all += rank.gpu_ns[p];
    }
  }
  if (!any || all == 0) return "";
  std::vector<std::string> pieces;
  const auto add = [&](const char* what, int64_t ns) {
    if (ns > 0) pieces.push_back(absl::StrCat(what, " ", Share(ns, all)));
  };
  for (const schema::Phase phase : kShownPhases) add(PhaseName(phase), sums[static_cast<size_t>(phase)]);
  add("no phase", sums[static_cast<size_t>(schema::Phase::kOther)] + sums[0]);
  add("launch not recorded", unknown);
  return style.Wrap(absl::StrCat("what the GPUs did, by the phase in which it was launched: ",
                                 absl::StrJoin(pieces, ", "), " of ", FormatDuration(all)),
                    2);
}

std::string PhasesText(const Report& report, const TextStyle& style, size_t rows) {
  std::string text;
  const PhaseReport& phases = report.phases;
  if (!phases.any && !phases.any_ranges) return text;
  absl::StrAppend(&text, "\n", style.Heading("Where the host's time goes"), "\n");
  if (!phases.any) {
    absl::StrAppend(&text,
                    style.Wrap("no range has a name that tells a phase; the Python hook (rankscope run --hook) "
                               "marks data loading, optimizer and checkpoints",
                               2));
    return text;
  }
  TextTable table;
  table.AddColumn("rank", Align::kLeft);
  table.AddColumn("seen");
  for (const schema::Phase phase : kShownPhases) table.AddColumn(PhaseName(phase));
  table.AddColumn("other");
  std::vector<uint32_t> order;
  for (uint32_t r = 0; r < phases.ranks.size(); ++r) {
    if (phases.ranks[r].window_ns > 0) order.push_back(r);
  }
  std::array<int64_t, 6> sources{};
  for (size_t i = 0; i < order.size(); ++i) {
    const PhaseRank& rank = phases.ranks[order[i]];
    for (size_t s = 0; s < sources.size(); ++s) sources[s] += rank.source_ns[s];
    if (i >= rows) continue;
    std::vector<std::string> cells = {report.rank_names.One(order[i]), FormatDuration(rank.window_ns)};
    for (const schema::Phase phase : kShownPhases) {
      const int64_t ns = rank.phase_ns[static_cast<size_t>(phase)];
      cells.push_back(ns == 0 ? "" : Share(ns, rank.window_ns));
    }
    cells.push_back(Share(rank.other_ns, rank.window_ns));
    table.AddRow(std::move(cells));
  }
  absl::StrAppend(&text, table.Render(2, style.width()));
  if (order.size() > rows) absl::StrAppend(&text, style.Wrap(absl::StrCat(order.size() - rows, " more ranks"), 2));
  const int64_t all = sources[0] + sources[1] + sources[2] + sources[3] + sources[4] + sources[5];
  std::vector<std::string> pieces;
  for (size_t s = 0; s < sources.size(); ++s) {
    if (sources[s] > 0)
      pieces.push_back(
          absl::StrCat(PhaseSourceName(static_cast<schema::PhaseSource>(s)), " ", Share(sources[s], all)));
  }
  absl::StrAppend(
      &text,
      style.Wrap(absl::StrCat("a moment belongs to the innermost range that has a phase; phases are "
                              "from ",
                              absl::StrJoin(pieces, ", "), "; other: no range told; the host runs ahead of the GPU"),
                 2));
  absl::StrAppend(&text, GpuByPhaseText(phases, style));
  uint64_t collections = 0;
  int64_t collection_ns = 0;
  std::map<std::string, std::pair<uint64_t, uint64_t>> files;
  for (const PhaseRank& rank : phases.ranks) {
    collections += rank.garbage_collections;
    collection_ns += rank.garbage_collection_ns;
    for (const auto& [path_class, bytes] : rank.file_bytes) {
      files[path_class].first += bytes.first;
      files[path_class].second += bytes.second;
    }
  }
  if (collections > 0)
    absl::StrAppend(&text, style.Wrap(absl::StrCat("Python collected garbage ", FormatCount(collections), " times, ",
                                                   FormatDuration(collection_ns), " in all"),
                                      2));
  for (const auto& [path_class, bytes] : files)
    absl::StrAppend(&text, style.Wrap(absl::StrCat(path_class, " files: ", FormatBytes(bytes.first), " read, ",
                                                   FormatBytes(bytes.second), " written"),
                                      2));
  return text;
}

std::string RenderPhasesText(const Report& report, const TextOptions& options) {
  const TextStyle style(options.width, options.color);
  std::string text;
  // The answer: the phase that takes most, over all ranks.
  std::array<int64_t, schema::kPhaseLimit> sums{};
  int64_t window_ns = 0;
  for (const PhaseRank& rank : report.phases.ranks) {
    for (size_t p = 0; p < sums.size(); ++p) sums[p] += rank.phase_ns[p];
    window_ns += rank.window_ns;
  }
  const size_t most = static_cast<size_t>(std::max_element(sums.begin(), sums.end()) - sums.begin());
  if (sums[most] == 0) {
    absl::StrAppend(&text,
                    style.Verdict("No phase is known: no range of a known name, no mark of the Python hook.", false),
                    "\n");
  } else {
    absl::StrAppend(
        &text,
        style.Verdict(absl::StrCat("Most of the host's time is ", PhaseName(static_cast<schema::Phase>(most)), ": ",
                                   Share(sums[most], window_ns), " of what is seen."),
                      false),
        "\n");
  }
  absl::StrAppend(&text, PhasesText(report, style, options.rows));
  TextTable table;
  table.AddColumn("ranges by time");
  table.AddColumn("number");
  table.AddColumn("mean");
  table.AddColumn("longest");
  table.AddColumn("phase", Align::kLeft);
  table.AddColumn("range", Align::kLeft);
  for (size_t i = 0; i < report.phases.ranges.size() && i < options.rows; ++i) {
    const RangeSums& range = report.phases.ranges[i];
    table.AddRow({FormatDuration(range.total_ns), FormatCount(range.count),
                  FormatDuration(range.total_ns / static_cast<int64_t>(std::max<uint64_t>(1, range.count))),
                  FormatDuration(range.max_ns), range.phase == schema::Phase::kUnknown ? "" : PhaseName(range.phase),
                  range.domain.empty() ? range.name : absl::StrCat(range.domain, ": ", range.name)});
  }
  if (!table.empty()) absl::StrAppend(&text, "\n", table.Render(2, style.width()));
  absl::StrAppend(&text, GpuText(report, style, options.rows));
  for (const std::string& warning : report.warnings) absl::StrAppend(&text, style.Wrap(warning, 2));
  return text;
}

}  // namespace rankscope::answers
