// See report_text.h. The hang's part is in hang_text.cc.
#include "analysis/answers/report_text.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analysis/answers/bandwidth.h"
#include "analysis/answers/clock_text.h"
#include "analysis/answers/format.h"
#include "analysis/answers/gpu_text.h"
#include "analysis/answers/names.h"
#include "analysis/answers/report_words.h"
#include "analysis/answers/text_style.h"
#include "analysis/answers/text_table.h"

namespace rankscope::answers {

namespace {

using Align = TextTable::Align;

int64_t Window(const Skew& skew) { return skew.window_end_ns - skew.window_begin_ns; }

std::string Times(uint64_t last, uint64_t of) {
  return absl::StrCat(FormatCount(last), " of ", Plural(of, "collective"));
}

std::string StragglerSentence(const Report& report, const Straggler& straggler, size_t position) {
  const RankSkew& rank = report.skew.ranks[straggler.rank_index];
  const std::string name = report.rank_names.One(straggler.rank_index);
  return absl::StrCat(position == 0 ? "The others wait for " : "and for ", name, ": each lost ",
                      FormatDuration(static_cast<int64_t>(rank.caused_mean_ns)), " to it on average, ",
                      FormatPercent(straggler.share_of_window), " of the ", FormatDuration(Window(report.skew)),
                      " that are seen (last in ", Times(rank.times_last, rank.operations), "; ",
                      FormatPercent(straggler.share_of_waits), " of all waiting)");
}

const RankSkew* Costliest(const Skew& skew) {
  const RankSkew* most = nullptr;
  for (const RankSkew& rank : skew.ranks) {
    if (rank.caused_mean_ns > 0 && (most == nullptr || rank.caused_mean_ns > most->caused_mean_ns)) most = &rank;
  }
  return most;
}

std::string SingleSentence(const Report& report, const SkewedOperation& op) {
  return absl::StrCat(report.rank_names.One(op.last_rank_index), " came ", FormatDuration(op.skew_ns),
                      " after the first to ", OperationLabel(op.key), " (", FormatBytes(op.bytes), ") on ",
                      CommunicatorLabel(report.communicators[op.key.comm]), ", ",
                      FormatDuration(op.skew_ns - op.second_last_ns), " after the next to last");
}

std::string SizeText(const TotalsRow& row) {
  const std::string unit = BytesArePerRank(row.func) ? " a rank" : "";
  if (row.matched > 0) {
    if (row.bytes_min == row.bytes_max) return FormatBytes(row.bytes_min) + unit;
    return absl::StrCat(FormatBytes(row.bytes_min), " to ", FormatBytes(row.bytes_max), unit);
  }
  if (row.size_class == 0) return "0 B";
  const uint64_t floor = uint64_t{1} << (row.size_class - 1);
  return absl::StrCat("from ", FormatBytes(floor), unit);
}

std::string QuantileText(const Histogram& histogram, double quantile) {
  return histogram.count() == 0 ? "" : FormatDuration(histogram.Quantile(quantile));
}

std::string HostsText(const Report& report) {
  std::vector<std::string> pieces;
  constexpr size_t kHosts = 4;
  for (size_t i = 0; i < report.hosts.size() && i < kHosts; ++i) {
    pieces.push_back(absl::StrCat(report.hosts[i].host.empty() ? "unknown host" : report.hosts[i].host, " (",
                                  report.rank_names.Many(report.hosts[i].rank_indices, 4), ")"));
  }
  if (report.hosts.size() > kHosts) pieces.push_back(absl::StrCat(report.hosts.size() - kHosts, " more"));
  return absl::StrJoin(pieces, ", ");
}

std::string VersionsText(const Report& report) {
  std::map<std::string, std::vector<uint32_t>> ranks_by_version;
  for (uint32_t r = 0; r < report.ranks.size(); ++r) {
    if ((report.ranks[r].doors & schema::kDoorTrace) != 0) {
      ranks_by_version[absl::StrCat("imported from torch.profiler",
                                    report.ranks[r].nccl_version > 0
                                        ? absl::StrCat(", NCCL ", NcclVersionText(report.ranks[r].nccl_version))
                                        : "")]
          .push_back(r);
      continue;
    }
    if (report.ranks[r].nccl_api_version == 0) continue;
    ranks_by_version[absl::StrCat("NCCL ", NcclVersionText(report.ranks[r].nccl_version), ", profiler table v",
                                  report.ranks[r].nccl_api_version)]
        .push_back(r);
  }
  if (ranks_by_version.empty()) return "no NCCL communicator was seen";
  if (ranks_by_version.size() == 1) return ranks_by_version.begin()->first;
  std::vector<std::string> pieces;
  for (const auto& [version, ranks] : ranks_by_version) {
    pieces.push_back(absl::StrCat(version, " on ", report.rank_names.Many(ranks, 4)));
  }
  return absl::StrJoin(pieces, "; ");
}

// Communicators of one size and kind on one line: a large job has hundreds.
std::string CommunicatorsText(const Report& report) {
  std::map<std::pair<uint32_t, std::string>, uint64_t> alike;
  for (const Communicator& comm : report.communicators.all()) ++alike[{comm.size, comm.name}];
  std::vector<std::string> pieces;
  constexpr size_t kKinds = 6;
  for (auto kind = alike.rbegin(); kind != alike.rend(); ++kind) {
    if (pieces.size() == kKinds) {
      pieces.emplace_back("others");
      break;
    }
    const auto& [size, name] = kind->first;
    pieces.push_back(
        absl::StrCat(kind->second, " of ", Plural(size, "rank"), name.empty() ? "" : absl::StrCat(" '", name, "'")));
  }
  return pieces.empty() ? "none" : absl::StrJoin(pieces, ", ");
}

void AddJob(const Report& report, const TextStyle& style, std::string* text) {
  absl::StrAppend(text, "\n", style.Heading("Job"), "\n");
  const std::string ranks =
      report.ranks.size() == 1 ? "1 process" : absl::StrCat(FormatCount(report.ranks.size()), " processes");
  std::string line = absl::StrCat(report.job.empty() ? "" : report.job + ": ", ranks, " on ",
                                  Plural(report.hosts.size(), "host"), ": ", HostsText(report));
  absl::StrAppend(text, style.Wrap(line, 2));
  if (!report.missing_ranks.empty()) {
    absl::StrAppend(
        text, style.Wrap(absl::StrCat("no recording of rank ",
                                      FormatNumberList({report.missing_ranks.begin(), report.missing_ranks.end()}),
                                      " of ", report.world_size),
                         2));
  }
  absl::StrAppend(
      text, style.Wrap(absl::StrCat(VersionsText(report),
                                    report.launcher.empty() ? "" : absl::StrCat("; started by ", report.launcher)),
                       2));
  if (!report.command.empty()) {
    constexpr size_t kCommand = 160;
    absl::StrAppend(text, style.Wrap(report.command.size() > kCommand ? report.command.substr(0, kCommand) + " ..."
                                                                      : report.command,
                                     2));
  }
  absl::StrAppend(text, style.Wrap(absl::StrCat("communicators: ", CommunicatorsText(report)), 2));
}

std::string WindowText(const Report& report) {
  std::string text =
      absl::StrCat("times are of ", Plural(report.events, "event"), " from ", FormatUtc(report.window_begin_ns),
                   " on, ", FormatDuration(report.window_end_ns - report.window_begin_ns), " long");
  absl::StrAppend(&text, report.coverage.records_overwritten
                             ? "; older ones were overwritten; launches and bytes are of the whole job"
                             : "; nothing older was overwritten");
  return text;
}

void AddTotals(const Report& report, const TextStyle& style, size_t rows, std::string* text) {
  absl::StrAppend(text, "\n", style.Heading("Operations by kind and size"), "\n");
  if (report.totals.empty()) {
    absl::StrAppend(text, style.Wrap("none was recorded", 2));
    return;
  }
  TextTable table;
  table.AddColumn("operation", Align::kLeft);
  table.AddColumn("size", Align::kLeft);
  for (const char* title : {"launches", "seen", "skew p50", "p99", "max", "transfer", "busbw"}) {
    table.AddColumn(title);
  }
  bool any_calls_only = false;
  const auto bandwidth = [](const Histogram& histogram) {
    return histogram.count() == 0 ? "" : FormatBandwidth(static_cast<double>(histogram.Quantile(0.5)));
  };
  for (size_t i = 0; i < report.totals.size() && i < rows; ++i) {
    const TotalsRow& row = report.totals[i];
    const bool calls_only = row.launched == 0 && row.api_calls > 0;
    any_calls_only |= calls_only;
    table.AddRow({absl::StrCat(FunctionName(row.func), calls_only ? "*" : ""), SizeText(row),
                  FormatCount(calls_only ? row.api_calls : row.launched),
                  row.matched > 0 ? FormatCount(row.matched) : "", QuantileText(row.skew_ns, 0.5),
                  QuantileText(row.skew_ns, 0.99), QuantileText(row.skew_ns, 1), QuantileText(row.transfer_ns, 0.5),
                  bandwidth(row.bus_bytes_per_second)});
  }
  absl::StrAppend(text, table.Render(2, style.width()));
  if (report.totals.size() > rows) {
    absl::StrAppend(text,
                    style.Wrap(absl::StrCat(report.totals.size() - rows, " more rows: --json has them all"), 2));
  }
  absl::StrAppend(
      text,
      style.Wrap("launches: summed over ranks; seen: operations that the times are of; transfer: median, last "
                 "arrival to the "
                 "latest end that was observed; busbw: median, by nccl-tests' formulas (--json has algbw as well)",
                 2));
  if (report.operations_with_gpu_times > 0) {
    absl::StrAppend(text,
                    style.Wrap(absl::StrCat("arrivals and ends of ", FormatCount(report.operations_with_gpu_times),
                                            " operations are those of their kernels on the GPUs"),
                               2));
  }
  if (any_calls_only) {
    absl::StrAppend(text, style.Wrap("* known by their calls alone: NCCL reports no launch of them", 2));
  }
  absl::StrAppend(text, style.Wrap(WindowText(report), 2));
}

void AddRankTable(const Report& report, const TextStyle& style, size_t rows, std::string* text) {
  std::vector<const RankSkew*> order;
  for (const RankSkew& rank : report.skew.ranks) {
    if (rank.operations + rank.p2p_operations > 0) order.push_back(&rank);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const RankSkew* a, const RankSkew* b) { return a->caused_mean_ns > b->caused_mean_ns; });
  TextTable table;
  table.AddColumn("rank", Align::kLeft);
  for (const char* title :
       {"last", "of", "cost each other", "most at once", "own wait", "late p50", "late p99", "p2p cost"}) {
    table.AddColumn(title);
  }
  for (size_t i = 0; i < order.size() && i < rows; ++i) {
    const RankSkew& rank = *order[i];
    table.AddRow({report.rank_names.One(rank.rank_index), FormatCount(rank.times_last), FormatCount(rank.operations),
                  FormatDuration(static_cast<int64_t>(rank.caused_mean_ns)), FormatDuration(rank.largest_caused_ns),
                  FormatDuration(rank.own_wait_ns), QuantileText(rank.lateness, 0.5),
                  QuantileText(rank.lateness, 0.99),
                  rank.p2p_caused_wait_ns > 0 ? FormatDuration(rank.p2p_caused_wait_ns) : ""});
  }
  if (table.empty()) return;
  absl::StrAppend(text, table.Render(2, style.width()));
  absl::StrAppend(
      text,
      style.Wrap("last, of: collectives; cost each other: what one other rank lost to it in all; p2p cost: what "
                 "receivers waited for its sends (in no verdict: pipelines work so)",
                 2));
  if (order.size() > rows) {
    absl::StrAppend(text, style.Wrap(absl::StrCat(order.size() - rows, " more ranks, each of which cost less"), 2));
  }
}

void AddLargest(const Report& report, const TextStyle& style, size_t rows, std::string* text) {
  TextTable table;
  table.AddColumn("largest skew");
  table.AddColumn("operation", Align::kLeft);
  table.AddColumn("on", Align::kLeft);
  table.AddColumn("size");
  table.AddColumn("last", Align::kLeft);
  table.AddColumn("without it");
  table.AddColumn("at", Align::kLeft);
  for (size_t i = 0; i < report.skew.largest.size() && i < rows; ++i) {
    const SkewedOperation& op = report.skew.largest[i];
    table.AddRow({FormatDuration(op.skew_ns), OperationLabel(op.key), absl::StrCat("communicator ", op.key.comm),
                  FormatBytes(op.bytes), report.rank_names.One(op.last_rank_index), FormatDuration(op.second_last_ns),
                  absl::StrCat("+", FormatDuration(op.first_arrival_ns - report.window_begin_ns))});
  }
  if (!table.empty()) absl::StrAppend(text, "\n", table.Render(2, style.width()));
}

// What the verdict left out, and by which rule.
void AddEvidence(const Report& report, const TextStyle& style, size_t rank_rows, size_t rows, std::string* text) {
  const Skew& skew = report.skew;
  if (report.communicators.all().empty()) return;  // a job of one process, or without NCCL
  absl::StrAppend(text, "\n", style.Heading("Who is late"), "\n");
  AddRankTable(report, style, rank_rows, text);
  AddLargest(report, style, rows, text);
  std::vector<std::string> left_out;
  if (skew.left_out_first > 0) {
    left_out.push_back(
        absl::StrCat(FormatCount(skew.left_out_first), " first of their communicator or pair (connection set-up)"));
  }
  if (skew.left_out_incomplete > 0) {
    left_out.push_back(absl::StrCat(FormatCount(skew.left_out_incomplete), " not seen on all ranks"));
  }
  if (skew.left_out_uncertain > 0) {
    left_out.push_back(absl::StrCat(FormatCount(skew.left_out_uncertain), " whose match is in doubt"));
  }
  std::string line = absl::StrCat(Plural(skew.counted, "collective"), " count");
  if (!left_out.empty()) absl::StrAppend(&line, "; left out: ", absl::StrJoin(left_out, ", "));
  absl::StrAppend(text, style.Wrap(line, 2));
  if (skew.negative_transfers > 0) {
    absl::StrAppend(text,
                    style.Wrap(absl::StrCat(Plural(skew.negative_transfers, "operation"),
                                            " ended before the last rank arrived: the clocks or the match are wrong "
                                            "there"),
                               2));
  }
}

std::string MismatchLine(const Report& report, const MismatchedOperation& op) {
  const Communicator& comm = report.communicators[op.key.comm];
  std::map<std::string, std::vector<uint32_t>> groups;
  for (const Participant& part : op.participants) {
    std::string what =
        absl::StrCat(FormatBytes(part.bytes()), " (", part.count, " x ", std::string(DataTypeName(part.dtype)), ")");
    if ((op.mismatches & kMismatchRoot) != 0) absl::StrAppend(&what, " root ", part.root);
    groups[what].push_back(part.member);
  }
  std::vector<std::string> pieces;
  for (const auto& [what, members] : groups) {
    pieces.push_back(absl::StrCat(what, " on ", MembersText(report.rank_names, comm, members)));
  }
  return absl::StrCat("ranks disagree in ", OperationLabel(op.key), " on ", CommunicatorLabel(comm), ": ",
                      absl::StrJoin(pieces, ", "));
}

// Operations whose end should have come, grouped by what they are: a thousand ranks make one line.
void AddUnfinished(const Report& report, const TextStyle& style, size_t rows, std::string* text) {
  struct Group {
    std::vector<uint32_t> members;
    int64_t oldest_ns = 0;
    uint64_t bytes = 0;
  };
  std::map<std::pair<uint32_t, std::string>, Group> groups;
  for (const UnfinishedOperation& op : report.unfinished) {
    OperationKey key;
    key.func = op.func;
    key.number = op.launched && !op.point_to_point && !op.copy_engine ? op.seq : op.ordinal;
    std::string label =
        op.launched ? OperationLabel(key) : absl::StrCat(std::string(FunctionName(op.func)), " call #", key.number);
    if (op.point_to_point && op.launched)
      absl::StrAppend(&label, op.func == static_cast<uint8_t>(schema::Function::kSend) ? " to " : " from ",
                      op.root_or_peer);
    if (op.state == UnfinishedState::kEvicted) label += " (evicted)";
    Group& group = groups[{op.comm, label}];
    group.members.push_back(op.member);
    group.oldest_ns = std::max(group.oldest_ns, op.age_ns);
    group.bytes = op.bytes;
  }
  if (groups.empty()) return;
  absl::StrAppend(text, "\n", style.Heading("Not finished when the rings were read"), "\n");
  size_t shown = 0;
  for (const auto& [key, group] : groups) {
    if (shown++ == rows) break;
    const bool known = key.first != kNoCommunicator;
    absl::StrAppend(
        text,
        style.Wrap(
            absl::StrCat(key.second, " (", FormatBytes(group.bytes), ") on ",
                         known ? CommunicatorLabel(report.communicators[key.first]) : "an unknown communicator", ": ",
                         known ? MembersText(report.rank_names, report.communicators[key.first], group.members)
                               : Plural(group.members.size(), "rank")),
            2));
  }
  if (groups.size() > rows) absl::StrAppend(text, style.Wrap(absl::StrCat(groups.size() - rows, " more"), 2));
}

void AddCoverage(const Report& report, const TextStyle& style, std::string* text) {
  const Coverage& coverage = report.coverage;
  if (!coverage.not_reported.empty()) absl::StrAppend(text, "\n", style.Heading("What this does not show"), "\n");
  for (const CoverageNote& note : coverage.not_reported) absl::StrAppend(text, style.Wrap("- " + note.text, 2));
  if (!coverage.not_trusted.empty()) {
    absl::StrAppend(text, "\n", style.Heading("What to take with care"), "\n");
    for (const CoverageNote& note : coverage.not_trusted) absl::StrAppend(text, style.Wrap("- " + note.text, 2));
  }
  for (const std::string& note : report.notes) absl::StrAppend(text, style.Wrap("- " + note, 2));
  absl::StrAppend(text, "\n", style.Heading("Lost"), "\n");
  bool any = false;
  for (const OverwrittenKind& kind : coverage.kinds) {
    if (kind.overwritten + kind.dropped == 0) continue;
    any = true;
    absl::StrAppend(
        text,
        style.Wrap(absl::StrCat(std::string(EventKindName(kind.kind)), ": ", FormatCount(kind.overwritten), " of ",
                                FormatCount(kind.committed), " overwritten by newer ones",
                                kind.dropped > 0 ? absl::StrCat(", ", FormatCount(kind.dropped), " dropped") : "",
                                ", on ", report.rank_names.Many(kind.rank_indices, 4)),
                   2));
  }
  for (const LossTotal& loss : coverage.losses) {
    any = true;
    absl::StrAppend(
        text, style.Wrap(absl::StrCat(FormatCount(loss.count), " ", std::string(LossReasonText(loss.reason)), ", on ",
                                      report.rank_names.Many(loss.rank_indices, 4)),
                         2));
  }
  if (coverage.torn_records > 0) {
    any = true;
    absl::StrAppend(text, style.Wrap(absl::StrCat(Plural(coverage.torn_records, "record"),
                                                  " half written when the ring was read or the process was killed"),
                                     2));
  }
  if (!any) absl::StrAppend(text, style.Wrap("nothing: no event was dropped or overwritten", 2));
  for (const std::string& warning : report.warnings) absl::StrAppend(text, style.Wrap(warning, 2));
}

std::string NextCommand(const Report& report, const TextOptions& options) {
  const std::string timeline = options.timeline.empty() ? "TIMELINE" : options.timeline;
  if (report.hang.verdict != HangVerdict::kNothingWaits) return "rankscope hang " + timeline;
  if (!report.skew.stragglers.empty() || !report.skew.single.empty()) return "rankscope skew " + timeline;
  return absl::StrCat("rankscope report --json ", timeline);
}

void AddVerdict(const Report& report, TextStyle* style, std::string* text) {
  if (report.hang.verdict != HangVerdict::kNothingWaits) {
    const bool alive = std::all_of(report.ranks.begin(), report.ranks.end(),
                                   [](const analysis::RankInfo& rank) { return rank.alive; });
    absl::StrAppend(
        text,
        style->Verdict(alive ? "The job waits:" : "The job ended with operations that ranks were still in:", true),
        "\n", HangLines(report.hang, style, 2), "\n");
  }
  absl::StrAppend(text, style->Verdict(SkewSentence(report), !report.skew.stragglers.empty()), "\n");
  if (!report.skew.stragglers.empty()) return;
  for (const SkewedOperation& op : report.skew.single) {
    absl::StrAppend(text, style->Wrap(absl::StrCat("a single delay: ", SingleSentence(report, op)), 2));
  }
}

}  // namespace

std::string SkewSentence(const Report& report) {
  const Skew& skew = report.skew;
  switch (skew.verdict) {
    case SkewVerdict::kNothingToCompare:
      if (report.communicators.all().empty() && !report.ranks.empty() &&
          (report.ranks[0].doors & schema::kDoorTrace) != 0)
        return "The traces name no collective of a process group: who waited for whom can't be told from them.";
      if (report.communicators.all().empty())
        return "No NCCL communicator was seen: nobody waited for anybody there.";
      return "Nothing to compare: no collective was seen on two ranks or more after the first of its communicator.";
    case SkewVerdict::kNobody: {
      const RankSkew* most = Costliest(skew);
      if (most == nullptr) return "No rank stands out: nobody measurably waited for anybody.";
      const double share = Window(skew) > 0 ? most->caused_mean_ns / static_cast<double>(Window(skew)) : 0;
      return absl::StrCat(
          "No rank stands out: what ", report.rank_names.One(most->rank_index), " cost the others most of all is ",
          FormatDuration(static_cast<int64_t>(most->caused_mean_ns)), " each, ", FormatPercent(share), " of the ",
          FormatDuration(Window(skew)), " that are seen (last in ", Times(most->times_last, most->operations), ").");
    }
    case SkewVerdict::kStragglers:
      break;
  }
  std::vector<std::string> pieces;
  constexpr size_t kNamed = 4;
  for (size_t i = 0; i < skew.stragglers.size() && i < kNamed; ++i) {
    pieces.push_back(StragglerSentence(report, skew.stragglers[i], i));
  }
  if (skew.stragglers.size() > kNamed) {
    pieces.push_back(absl::StrCat("and for ", Plural(skew.stragglers.size() - kNamed, "more rank")));
  }
  return absl::StrJoin(pieces, "; ") + ".";
}

std::string RenderText(const Report& report, const TextOptions& options) {
  TextStyle style(options.width, options.color);
  std::string text;
  AddVerdict(report, &style, &text);
  for (size_t i = 0; i < report.mismatches.size() && i < 5; ++i) {
    absl::StrAppend(&text, style.Wrap(MismatchLine(report, report.mismatches[i]), 2));
  }
  AddJob(report, style, &text);
  AddTotals(report, style, options.rows, &text);
  AddEvidence(report, style, std::min<size_t>(options.rows, 8), std::min<size_t>(options.rows, 5), &text);
  absl::StrAppend(&text, GpuText(report, style, std::min<size_t>(options.rows, 8)),
                  PhasesText(report, style, std::min<size_t>(options.rows, 8)));
  AddUnfinished(report, style, options.rows, &text);
  AddCoverage(report, style, &text);
  absl::StrAppend(&text, "\n", style.Heading("Clock"), "\n", style.Wrap(ClockSentence(report), 2));
  absl::StrAppend(&text, "\n", style.Heading("Next"), "\n  ", NextCommand(report, options), "\n");
  return text;
}

std::string RenderSkewText(const Report& report, const TextOptions& options) {
  TextStyle style(options.width, options.color);
  std::string text = style.Verdict(SkewSentence(report), !report.skew.stragglers.empty()) + "\n";
  for (const SkewedOperation& op : report.skew.single) {
    absl::StrAppend(&text, style.Wrap(absl::StrCat("a single delay: ", SingleSentence(report, op)), 2));
  }
  AddEvidence(report, style, options.rows, options.rows, &text);
  if (report.skew.skew.count() > 0) {
    const Histogram& skew = report.skew.skew;
    absl::StrAppend(
        &text, style.Wrap(absl::StrCat("arrival skew of a collective: p50 ", FormatDuration(skew.Quantile(0.5)),
                                       ", p90 ", FormatDuration(skew.Quantile(0.9)), ", p99 ",
                                       FormatDuration(skew.Quantile(0.99)), ", largest ", FormatDuration(skew.max())),
                          2));
  }
  for (const std::string& note : report.notes) absl::StrAppend(&text, style.Wrap(note, 2));
  for (const std::string& warning : report.warnings) absl::StrAppend(&text, style.Wrap(warning, 2));
  absl::StrAppend(&text, "\n", style.Heading("Clock"), "\n", style.Wrap(ClockSentence(report), 2));
  return text;
}

}  // namespace rankscope::answers
