// See json_parts.h.
#include "analysis/answers/json_parts.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/answers/names.h"
#include "analysis/answers/report_json.h"
#include "analysis/answers/report_text.h"
#include "analysis/answers/report_words.h"

namespace rankscope::answers {

using nlohmann::json;

namespace {

// Members of one communicator, as parallel lists.
json MembersJson(const HangReport& report, const Communicator& comm, const std::vector<uint32_t>& members) {
  json list = json::array();
  for (uint32_t m : members) {
    json one = RankRefJson(report.job_ranks[comm.members[m].rank_index], comm.members[m].rank_index);
    one["communicator_rank"] = comm.members[m].comm_rank;
    list.push_back(std::move(one));
  }
  return list;
}

json WaitingJson(const HangReport& report, const Communicator& comm, const WaitingOperation& op) {
  json in_it = json::array();
  for (const WaitingPart& part : op.in_it) {
    json one = RankRefJson(report.job_ranks[part.rank_index], part.rank_index);
    one["communicator_rank"] = comm.members[part.member].comm_rank;
    one["progress"] = ProgressKey(part.progress);
    one["call_open"] = part.call_open;
    one["evicted"] = part.evicted;
    one["arrival_ns"] = part.arrival_ns;
    one["age_ns"] = part.age_ns;
    one["last_progress_ns"] = part.last_progress_ns;
    one["network_operations_started"] = part.children_started;
    one["network_operations_stopped"] = part.children_stopped;
    one["count"] = part.count;
    one["bytes"] = part.bytes;
    one["data_type"] = std::string(DataTypeName(part.dtype));
    one["root"] = part.root;
    in_it.push_back(std::move(one));
  }
  return {{"operation", OperationJson(op.key)},
          {"sentence", WaitingSentence(report, op)},
          {"count", op.count},
          {"bytes", op.bytes},
          {"data_type", std::string(DataTypeName(op.dtype))},
          {"root", op.root},
          {"disagree_on", MismatchKeys(op.mismatches)},
          {"in_it", std::move(in_it)},
          {"finished", MembersJson(report, comm, op.finished)},
          {"passed", MembersJson(report, comm, op.passed)},
          {"not_reached", MembersJson(report, comm, op.not_reached)},
          {"not_known", MembersJson(report, comm, op.not_known)},
          {"without_recording", op.without_ring},
          {"first_arrival_ns", op.first_arrival_ns},
          {"longest_age_ns", op.longest_age_ns}};
}

json HangCommunicatorJson(const HangReport& report, const HangCommunicator& hang) {
  const Communicator& comm = report.all_communicators[hang.comm];
  json operations = json::array();
  for (const WaitingOperation& op : hang.operations) operations.push_back(WaitingJson(report, comm, op));
  json disagreements = json::array();
  for (const KindDisagreement& one : hang.disagreements) {
    disagreements.push_back({{"operation_a", OperationJson(hang.operations[one.operation_a].key)},
                             {"operation_b", OperationJson(hang.operations[one.operation_b].key)},
                             {"ranks_a", MembersJson(report, comm, one.members_a)},
                             {"ranks_b", MembersJson(report, comm, one.members_b)},
                             {"position", one.position < 0 ? json(nullptr) : json(one.position)}});
  }
  json progress = json::array();
  for (const FunctionProgress& one : hang.progress) {
    progress.push_back({{"function", std::string(FunctionName(one.func))},
                        {"counted_by", one.by_calls ? "api_calls" : "launches"},
                        {"most", one.most},
                        {"least", one.least},
                        {"behind", MembersJson(report, comm, one.behind)}});
  }
  json out = CommunicatorJson(comm);
  out["operations"] = std::move(operations);
  out["operations_left_out"] = hang.operations_left_out;
  out["kind_disagreements"] = std::move(disagreements);
  out["progress"] = std::move(progress);
  return out;
}

}  // namespace

json SchemaJson(const char* name, int version) { return {{"schema", {{"name", name}, {"version", version}}}}; }

json RankRefJson(int32_t rank, uint32_t rank_index) { return {{"rank", rank}, {"rank_index", rank_index}}; }

json RankInfoJson(const analysis::RankInfo& rank, uint32_t rank_index) {
  json out = RankRefJson(rank.rank, rank_index);
  out["world_size"] = rank.world_size;
  out["local_rank"] = rank.local_rank;
  out["rank_source"] = std::string(RankSourceName(rank.rank_source));
  out["environment_rank"] = rank.env_rank;
  out["node_rank"] = rank.node_rank;
  out["restart_count"] = rank.restart_count;
  out["device"] = rank.device;
  out["pid"] = rank.pid;
  out["host"] = rank.host;
  out["job"] = rank.job;
  out["launcher"] = rank.launcher;
  out["command"] = rank.command;
  out["library_version"] = rank.library_version;
  out["nccl_version"] = rank.nccl_version;
  out["nccl_version_text"] = NcclVersionText(rank.nccl_version);
  out["nccl_api_version"] = rank.nccl_api_version;
  out["event_mask"] = rank.event_mask;
  out["ring_path"] = rank.ring_path;
  out["ring_bytes"] = rank.ring_bytes;
  out["alive"] = rank.alive;
  out["closed"] = rank.closed;
  out["start_ns"] = rank.start_ns;
  out["read_ns"] = rank.read_ns;
  out["last_event_ns"] = rank.last_event_ns;
  out["clock_residual_ns"] = rank.clock_residual_ns;
  out["pair_cost_ns"] = rank.pair_cost_ns;
  out["torn_records"] = rank.torn_records;
  out["communicators"] = rank.comms.size();
  json losses = json::object();
  for (const auto& loss : rank.losses) {
    if (loss.count != 0) losses[std::string(LossReasonKey(loss.reason))] = loss.count;
  }
  out["losses"] = std::move(losses);
  json records = json::object();
  for (const auto& kind : rank.kinds) {
    if (kind.committed == 0 && kind.dropped == 0) continue;
    records[std::string(EventKindName(kind.kind))] = {{"committed", kind.committed},
                                                      {"read", kind.read},
                                                      {"overwritten", kind.overwritten},
                                                      {"dropped", kind.dropped}};
  }
  out["records"] = std::move(records);
  return out;
}

json ClockJson(const analysis::HostClockInfo& clock) {
  const bool aligned = clock.group >= 0;
  const auto known = [](int64_t ns) { return ns < 0 ? json(nullptr) : json(ns); };
  return {{"host", clock.host},
          {"boot_id", clock.boot_id},
          {"offset_ns", clock.offset_ns},
          {"bound_ns", known(clock.bound_ns)},
          {"error_ns", known(clock.error_ns)},
          {"drift_ppb", clock.drift_ppb},
          {"operations", clock.operations},
          {"group", aligned ? json(clock.group) : json(nullptr)},
          {"contradictions", clock.contradictions}};
}

json CommunicatorJson(const Communicator& comm) {
  return {{"id", comm.id},
          {"hash", comm.identity_known ? json(absl::StrFormat("%016x", comm.hash)) : json(nullptr)},
          {"instance", comm.instance},
          {"name", comm.name},
          {"size", comm.size},
          {"size_known", comm.size_known},
          {"nodes", comm.nodes},
          {"api_version", comm.api_version},
          {"identity_known", comm.identity_known},
          {"identity_assumed", comm.identity_assumed},
          {"missing_communicator_ranks", comm.missing_comm_ranks},
          {"init_ns", comm.init_ns},
          {"finalized", comm.finalized}};
}

json OperationJson(const OperationKey& key) {
  json out = {{"communicator", key.comm},
              {"function", std::string(FunctionName(key.func))},
              {"class", ClassKey(key.operation_class)},
              {"label", OperationLabel(key)}};
  switch (key.operation_class) {
    case OperationClass::kCollective:
      out["seq"] = key.number;
      out["repeat"] = key.repeat;
      break;
    case OperationClass::kPointToPoint:
      out["sender"] = key.sender;
      out["receiver"] = key.receiver;
      out["ordinal"] = key.number;
      break;
    default:
      out["ordinal"] = key.number;
      break;
  }
  return out;
}

json HangBody(const HangReport& report) {
  json communicators = json::array();
  for (const HangCommunicator& hang : report.communicators)
    communicators.push_back(HangCommunicatorJson(report, hang));
  json ranks = json::array();
  for (const HangRank& rank : report.ranks) {
    json one = RankRefJson(report.job_ranks[rank.rank_index], rank.rank_index);
    one["state"] = StateKey(rank.state);
    one["host"] = rank.host;
    one["pid"] = rank.pid;
    one["last_event_ns"] = rank.last_event_ns;
    one["read_ns"] = rank.read_ns;
    ranks.push_back(std::move(one));
  }
  return {{"verdict", VerdictKey(report.verdict)},
          {"communicators", std::move(communicators)},
          {"ranks", std::move(ranks)}};
}

json ToJson(const HangReport& report) {
  json out = SchemaJson("rankscope.hang", kHangJsonVersion);
  out.update(HangBody(report));
  out["notes"] = report.notes;
  out["warnings"] = report.warnings;
  return out;
}

}  // namespace rankscope::answers
