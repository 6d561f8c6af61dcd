// See report_json.h. Every field is described in docs/json.md.
#include "analysis/answers/report_json.h"

#include <algorithm>
#include <array>

#include "analysis/answers/bandwidth.h"
#include "analysis/answers/gpu_json.h"
#include "analysis/answers/json_parts.h"
#include "analysis/answers/names.h"
#include "analysis/answers/report_text.h"
#include "analysis/answers/report_words.h"

namespace rankscope::answers {

using nlohmann::json;

namespace {

json DurationsJson(const Histogram& histogram) {
  if (histogram.count() == 0) return nullptr;
  return {{"count", histogram.count()},     {"min", histogram.min()},         {"mean", histogram.mean()},
          {"p50", histogram.Quantile(0.5)}, {"p90", histogram.Quantile(0.9)}, {"p99", histogram.Quantile(0.99)},
          {"max", histogram.max()}};
}

json FunctionJson(uint8_t func, const FunctionCounts& counts) {
  return {{"function", std::string(FunctionName(func))},
          {"launched", counts.launched},
          {"api_calls", counts.api_calls},
          {"last_seq", counts.last_seq == 0 ? json(nullptr) : json(counts.last_seq - 1)},
          {"seen",
           {{"launched", counts.launched_seen},
            {"replayed", counts.replayed_seen},
            {"api_calls", counts.api_seen},
            {"captured_calls", counts.captured_seen},
            {"completed", counts.completed_seen}}},
          {"unfinished", counts.unfinished}};
}

// One rank on all its communicators.
json PerRankJson(const Report& report) {
  std::vector<json> comms(report.ranks.size(), json::array());
  for (const MemberCounts& counts : report.counts) {
    const Member& member = report.communicators[counts.comm].members[counts.member];
    json functions = json::array();
    for (size_t f = 0; f < counts.by_func.size(); ++f) {
      if (counts.by_func[f].any()) functions.push_back(FunctionJson(static_cast<uint8_t>(f), counts.by_func[f]));
    }
    comms[member.rank_index].push_back({{"communicator", counts.comm},
                                        {"communicator_rank", member.comm_rank},
                                        {"slot", member.comm_slot},
                                        {"functions", std::move(functions)}});
  }
  json list = json::array();
  for (uint32_t r = 0; r < report.ranks.size(); ++r) {
    json one = RankRefJson(report.ranks[r].rank, r);
    one["communicators"] = std::move(comms[r]);
    list.push_back(std::move(one));
  }
  return list;
}

json CommunicatorsJson(const Report& report) {
  json list = json::array();
  size_t next = 0;  // report.counts is in the order of the communicators
  for (const Communicator& comm : report.communicators.all()) {
    json members = json::array();
    for (const Member& member : comm.members) {
      json one = RankRefJson(report.ranks[member.rank_index].rank, member.rank_index);
      one["communicator_rank"] = member.comm_rank;
      one["slot"] = member.comm_slot;
      one["identity_assumed"] = member.identity_assumed;
      members.push_back(std::move(one));
    }
    // Functions with their sums; an operation of the communicator is one launch on each member.
    json functions = json::array();
    std::array<FunctionCounts, schema::kFunctionLimit> sums{};
    std::array<uint64_t, schema::kFunctionLimit> most{};
    for (; next < report.counts.size() && report.counts[next].comm == comm.id; ++next) {
      const MemberCounts& counts = report.counts[next];
      for (size_t f = 0; f < sums.size(); ++f) {
        const FunctionCounts& from = counts.by_func[f];
        sums[f].launched += from.launched;
        sums[f].api_calls += from.api_calls;
        sums[f].completed_seen += from.completed_seen;
        sums[f].unfinished += from.unfinished;
        most[f] = std::max(most[f], from.launched);
      }
    }
    for (size_t f = 0; f < sums.size(); ++f) {
      if (sums[f].launched + sums[f].api_calls == 0) continue;
      functions.push_back({{"function", std::string(FunctionName(static_cast<uint8_t>(f)))},
                           {"operations", most[f]},
                           {"launched", sums[f].launched},
                           {"api_calls", sums[f].api_calls},
                           {"completed_seen", sums[f].completed_seen},
                           {"unfinished", sums[f].unfinished}});
    }
    json one = CommunicatorJson(comm);
    one["members"] = std::move(members);
    one["functions"] = std::move(functions);
    list.push_back(std::move(one));
  }
  return list;
}

json TotalsJson(const Report& report) {
  json list = json::array();
  for (const TotalsRow& row : report.totals) {
    const uint64_t from = row.size_class == 0 ? 0 : uint64_t{1} << ((row.size_class - 1) & 63);
    list.push_back({{"function", std::string(FunctionName(row.func))},
                    {"size_class", {{"from_bytes", from}, {"bytes_are_per_rank", BytesArePerRank(row.func)}}},
                    {"job",
                     {{"launched", row.launched},
                      {"api_calls", row.api_calls},
                      {"bytes", row.bytes},
                      {"completed", row.completed},
                      {"duration_ns", row.completed == 0 ? json(nullptr)
                                                         : json({{"sum", row.duration_ns},
                                                                 {"max", row.duration_max_ns},
                                                                 {"p50", row.duration_p50_ns},
                                                                 {"p99", row.duration_p99_ns}})}}},
                    {"window",
                     {{"operations", row.matched},
                      {"incomplete", row.incomplete},
                      {"first_of_communicator", row.first_of_comm},
                      {"api_only", row.api_only},
                      {"bytes_min", row.bytes_min},
                      {"bytes_max", row.bytes_max},
                      {"skew_ns", DurationsJson(row.skew_ns)},
                      {"transfer_ns", DurationsJson(row.transfer_ns)},
                      {"algorithm_bytes_per_second", DurationsJson(row.algorithm_bytes_per_second)},
                      {"bus_bytes_per_second", DurationsJson(row.bus_bytes_per_second)}}}});
  }
  return list;
}

json UnfinishedJson(const Report& report) {
  json list = json::array();
  for (const UnfinishedOperation& op : report.unfinished) {
    json one = RankRefJson(report.ranks[op.rank_index].rank, op.rank_index);
    one["communicator"] = op.comm == kNoCommunicator ? json(nullptr) : json(op.comm);
    one["function"] = std::string(FunctionName(op.func));
    one["state"] = UnfinishedStateName(op.state);
    one["launched"] = op.launched;
    one["seq"] = op.launched && !op.point_to_point && !op.copy_engine ? json(op.seq) : json(nullptr);
    one["ordinal"] = op.ordinal == schema::kOrdinalUnknown ? json(nullptr) : json(op.ordinal);
    one[op.point_to_point ? "peer" : "root"] = op.root_or_peer;
    one["count"] = op.count;
    one["data_type"] = std::string(DataTypeName(op.dtype));
    one["bytes"] = op.bytes;
    one["graph_replay"] = op.replayed;
    one["issue_ns"] = op.issue_ns;
    one["begin_ns"] = op.begin_ns;
    one["last_progress_ns"] = op.last_progress_ns;
    one["age_ns"] = op.age_ns;
    one["network_operations_started"] = op.children_started;
    one["network_operations_stopped"] = op.children_stopped;
    one["thread_id"] = op.thread_id;
    list.push_back(std::move(one));
  }
  return list;
}

json MismatchesJson(const Report& report) {
  json list = json::array();
  for (const MismatchedOperation& op : report.mismatches) {
    json parts = json::array();
    for (const Participant& part : op.participants) {
      const Member& member = report.communicators[op.key.comm].members[part.member];
      json one = RankRefJson(report.ranks[member.rank_index].rank, member.rank_index);
      one["count"] = part.count;
      one["data_type"] = std::string(DataTypeName(part.dtype));
      one["bytes"] = part.bytes();
      one["root"] = part.root;
      parts.push_back(std::move(one));
    }
    list.push_back({{"operation", OperationJson(op.key)},
                    {"disagree_on", MismatchKeys(op.mismatches)},
                    {"participants", std::move(parts)}});
  }
  return list;
}

json SkewedJson(const Report& report, const std::vector<SkewedOperation>& operations) {
  json list = json::array();
  for (const SkewedOperation& op : operations) {
    list.push_back({{"operation", OperationJson(op.key)},
                    {"bytes", op.bytes},
                    {"first_arrival_ns", op.first_arrival_ns},
                    {"skew_ns", op.skew_ns},
                    {"second_last_ns", op.second_last_ns},
                    {"caused_wait_ns", op.caused_wait_ns},
                    {"last", RankRefJson(report.ranks[op.last_rank_index].rank, op.last_rank_index)},
                    {"first", RankRefJson(report.ranks[op.first_rank_index].rank, op.first_rank_index)}});
  }
  return list;
}

json SkewBody(const Report& report) {
  const Skew& skew = report.skew;
  json stragglers = json::array();
  for (const Straggler& straggler : skew.stragglers) {
    json one = RankRefJson(report.ranks[straggler.rank_index].rank, straggler.rank_index);
    one["share_of_window"] = straggler.share_of_window;
    one["share_of_waits"] = straggler.share_of_waits;
    stragglers.push_back(std::move(one));
  }
  json ranks = json::array();
  for (const RankSkew& rank : skew.ranks) {
    json one = RankRefJson(report.ranks[rank.rank_index].rank, rank.rank_index);
    one["operations"] = rank.operations;
    one["times_last"] = rank.times_last;
    one["caused_wait_ns"] = rank.caused_wait_ns;
    one["caused_mean_ns"] = rank.caused_mean_ns;
    one["largest_caused_ns"] = rank.largest_caused_ns;
    one["own_wait_ns"] = rank.own_wait_ns;
    one["lateness_ns"] = DurationsJson(rank.lateness);
    one["blocks_led"] = rank.blocks_led;
    one["p2p_operations"] = rank.p2p_operations;
    one["p2p_caused_wait_ns"] = rank.p2p_caused_wait_ns;
    one["p2p_own_wait_ns"] = rank.p2p_own_wait_ns;
    ranks.push_back(std::move(one));
  }
  return {{"verdict", VerdictKey(skew.verdict)},
          {"sentence", SkewSentence(report)},
          {"stragglers", std::move(stragglers)},
          {"single_delays", SkewedJson(report, skew.single)},
          {"largest", SkewedJson(report, skew.largest)},
          {"ranks", std::move(ranks)},
          {"skew_ns", DurationsJson(skew.skew)},
          {"operations",
           {{"counted", skew.counted},
            {"left_out_first", skew.left_out_first},
            {"left_out_incomplete", skew.left_out_incomplete},
            {"left_out_uncertain", skew.left_out_uncertain}}},
          {"blocks", skew.blocks},
          {"negative_transfers", skew.negative_transfers},
          {"waits_below_clock_error", skew.waits_below_clock},
          {"clock_error_ns", skew.clock_error_ns},
          {"clock_error_assumed", skew.clock_error_assumed},
          {"window", {{"begin_ns", skew.window_begin_ns}, {"end_ns", skew.window_end_ns}}}};
}

json CoverageJson(const Report& report) {
  const Coverage& coverage = report.coverage;
  const auto notes = [](const std::vector<CoverageNote>& from) {
    json list = json::array();
    for (const CoverageNote& note : from) list.push_back({{"id", note.id}, {"text", note.text}});
    return list;
  };
  json losses = json::array();
  for (const LossTotal& loss : coverage.losses) {
    losses.push_back({{"reason", std::string(LossReasonKey(loss.reason))},
                      {"number", loss.reason},
                      {"count", loss.count},
                      {"text", std::string(LossReasonText(loss.reason))},
                      {"rank_indices", loss.rank_indices}});
  }
  json kinds = json::array();
  for (const OverwrittenKind& kind : coverage.kinds) {
    kinds.push_back({{"kind", std::string(EventKindName(kind.kind))},
                     {"number", kind.kind},
                     {"committed", kind.committed},
                     {"read", kind.read},
                     {"overwritten", kind.overwritten},
                     {"dropped", kind.dropped}});
  }
  const MatcherStats& matcher = report.matcher;
  return {{"not_reported", notes(coverage.not_reported)},
          {"not_trusted", notes(coverage.not_trusted)},
          {"losses", std::move(losses)},
          {"records", std::move(kinds)},
          {"torn_records", coverage.torn_records},
          {"records_overwritten", coverage.records_overwritten},
          {"matching",
           {{"events", matcher.events},
            {"unknown_communicator", matcher.unknown_communicator},
            {"unmatchable", matcher.unmatchable},
            {"captured_calls", matcher.captured_calls},
            {"p2p_calls_without_launch", matcher.api_only_p2p},
            {"closed_early", matcher.closed_early},
            {"late_parts", matcher.late_parts},
            {"completions_without_operation", matcher.late_completions},
            {"repeated_parts", matcher.repeated_parts},
            {"open_participants_peak", matcher.open_participants_peak},
            {"incomplete", report.incomplete.operations},
            {"incomplete_not_reached", report.incomplete.not_reached},
            {"incomplete_not_recorded", report.incomplete.not_recorded}}}};
}

json JobJson(const Report& report) {
  json hosts = json::array();
  for (const HostSummary& host : report.hosts)
    hosts.push_back({{"host", host.host}, {"rank_indices", host.rank_indices}});
  return {{"name", report.job},
          {"launcher", report.launcher},
          {"command", report.command},
          {"processes", report.ranks.size()},
          {"world_size", report.world_size},
          {"missing_ranks", report.missing_ranks},
          {"hosts", std::move(hosts)}};
}

json RanksJson(const std::vector<analysis::RankInfo>& ranks) {
  json list = json::array();
  for (uint32_t r = 0; r < ranks.size(); ++r) list.push_back(RankInfoJson(ranks[r], r));
  return list;
}

json ClocksJson(const std::vector<analysis::HostClockInfo>& clocks) {
  json list = json::array();
  for (const auto& clock : clocks) list.push_back(ClockJson(clock));
  return list;
}

}  // namespace

json ToJson(const Report& report) {
  json out = SchemaJson("rankscope.report", kReportJsonVersion);
  out["job"] = JobJson(report);
  out["ranks"] = RanksJson(report.ranks);
  out["communicators"] = CommunicatorsJson(report);
  out["window"] = {{"begin_ns", report.window_begin_ns}, {"end_ns", report.window_end_ns}, {"events", report.events}};
  out["skew"] = SkewBody(report);
  out["totals"] = TotalsJson(report);
  out["per_rank"] = PerRankJson(report);
  out["unfinished"] = UnfinishedJson(report);
  out["unfinished_left_out"] = report.evicted_left_out;
  out["mismatches"] = MismatchesJson(report);
  out["mismatches_left_out"] = report.mismatches_left_out;
  out["hang"] = HangBody(report.hang);
  out["gpu"] = GpuJson(report);
  out["phases"] = PhasesJson(report);
  out["coverage"] = CoverageJson(report);
  out["clocks"] = ClocksJson(report.clocks);
  out["notes"] = report.notes;
  out["warnings"] = report.warnings;
  return out;
}

json SkewToJson(const Report& report) {
  json out = SchemaJson("rankscope.skew", kSkewJsonVersion);
  out.update(SkewBody(report));
  out["communicators"] = CommunicatorsJson(report);
  out["clocks"] = ClocksJson(report.clocks);
  out["notes"] = report.notes;
  out["warnings"] = report.warnings;
  return out;
}

json PhasesToJson(const Report& report) {
  json out = SchemaJson("rankscope.phases", kPhasesJsonVersion);
  out.update(PhasesJson(report));
  out["gpu"] = GpuJson(report);
  out["clocks"] = ClocksJson(report.clocks);
  out["notes"] = report.notes;
  out["warnings"] = report.warnings;
  return out;
}

json RanksToJson(const analysis::Recording& recording) {
  json out = SchemaJson("rankscope.ranks", kRanksJsonVersion);
  out["ranks"] = RanksJson(recording.ranks());
  out["clocks"] = ClocksJson(recording.clocks());
  out["warnings"] = recording.warnings();
  return out;
}

std::string DumpJson(const json& value) { return value.dump(2, ' ', false, json::error_handler_t::replace); }

}  // namespace rankscope::answers
