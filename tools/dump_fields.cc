// See dump_fields.h.
#include "tools/dump_fields.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/answers/names.h"
#include "analysis/answers/phases.h"

namespace rankscope::tools {
namespace {

using analysis::Event;
using schema::EventKind;

constexpr std::pair<uint16_t, const char*> kEventFlagNames[] = {
    {schema::kFlagFirstOfComm, "first_of_comm"},
    {schema::kFlagGraphCaptured, "graph_captured"},
    {schema::kFlagGraphReplay, "graph_replay"},
    {schema::kFlagHasApi, "has_api"},
    {schema::kFlagNoApi, "no_api"},
    {schema::kFlagForeign, "foreign"},
    {schema::kFlagBadStamp, "bad_stamp"},
    {schema::kFlagStopMissing, "stop_missing"},
    {schema::kFlagTrackingLost, "tracking_lost"},
    {schema::kFlagSymmetric, "symmetric"},
    {schema::kFlagNoParent, "no_parent"},
};
constexpr std::pair<uint8_t, const char*> kSlotStateNames[] = {
    {schema::kSlotOpen, "open"},         {schema::kSlotApiOpen, "api_open"},      {schema::kSlotIssued, "issued"},
    {schema::kSlotComplete, "complete"}, {schema::kSlotIsOperation, "operation"},
};
constexpr std::pair<uint32_t, const char*> kCommFlagNames[] = {
    {schema::kCommIdentityKnown, "identity_known"}, {schema::kCommSizeKnown, "size_known"},
    {schema::kCommFinalized, "finalized"},          {schema::kCommIdentityMissing, "identity_missing"},
    {schema::kCommMaskRefused, "mask_refused"},
};

template <typename Bits, size_t N>
Fields NamesOf(Bits bits, const std::pair<Bits, const char*> (&table)[N]) {
  Fields names = Fields::array();
  for (const auto& [bit, name] : table) {
    if ((bits & bit) != 0) names.push_back(name);
    bits = static_cast<Bits>(bits & ~bit);
  }
  if (bits != 0) names.push_back(absl::StrFormat("0x%x", bits));
  return names;
}

std::string Text(absl::string_view text) { return std::string(text); }

// What is not there is null, not a number that means nothing.
Fields Slot(uint16_t comm) { return comm == schema::kCommUnknown ? Fields(nullptr) : Fields(comm); }
Fields Ordinal(uint32_t ordinal) { return ordinal == schema::kOrdinalUnknown ? Fields(nullptr) : Fields(ordinal); }
Fields Peer(int32_t rank) { return rank < 0 ? Fields(nullptr) : Fields(rank); }
Fields Name(uint32_t id, const std::vector<std::string>& names) {
  return id == 0 || id > names.size() ? Fields(nullptr) : Fields(names[id - 1]);
}

// Shared by the payloads of operations; `count` of `dtype`.
void AddOperation(Fields* out, uint8_t func, uint64_t count, uint8_t dtype) {
  (*out)["function"] = Text(answers::FunctionName(func));
  (*out)["count"] = count;
  (*out)["data_type"] = Text(answers::DataTypeName(dtype));
}

void AddCollective(Fields* out, const Event& event) {
  const schema::CollPayload& coll = event.payload.coll;
  AddOperation(out, coll.func, coll.count, coll.dtype);
  (*out)["seq"] = coll.seq;
  (*out)["ordinal"] = Ordinal(coll.ordinal);
  (*out)["root"] = Peer(coll.root);
  (*out)["algorithm"] = Text(answers::AlgorithmName(coll.algo));
  (*out)["protocol"] = Text(answers::ProtocolName(coll.proto));
  (*out)["channels"] = event.aux & 0xff;
  (*out)["warps"] = event.aux >> 8;
}

void AddPointToPoint(Fields* out, const Event& event) {
  const schema::P2pPayload& p2p = event.payload.p2p;
  AddOperation(out, p2p.func, p2p.count, p2p.dtype);
  (*out)["peer"] = Peer(p2p.peer);
  (*out)["ordinal"] = Ordinal(p2p.ordinal);
  (*out)["channels"] = event.aux;
}

void AddProxyOp(Fields* out, const Event& event) {
  const schema::ProxyOpPayload& op = event.payload.proxy_op;
  (*out)["direction"] = (event.aux >> 8) != 0 ? "send" : "receive";
  (*out)["channel"] = event.aux & 0xff;
  (*out)["peer"] = Peer(op.peer);
  (*out)["steps"] = op.steps;
  (*out)["chunk_bytes"] = op.chunk_bytes;
  (*out)["bytes"] = op.bytes;
  (*out)["pid"] = op.pid;
}

void AddProxyStep(Fields* out, const Event& event) {
  const schema::ProxyStepPayload& step = event.payload.proxy_step;
  (*out)["direction"] = step.is_send != 0 ? "send" : "receive";
  (*out)["channel"] = event.aux;
  (*out)["step"] = step.step;
  (*out)["bytes"] = step.bytes;
  (*out)["wait_ticks"] = {step.wait_ticks[0], step.wait_ticks[1], step.wait_ticks[2]};
  (*out)["states_seen"] = step.states_seen;
}

void AddCompletion(Fields* out, const Event& event) {
  const schema::CompletionPayload& completion = event.payload.completion;
  (*out)["function"] = Text(answers::FunctionName(completion.func));
  (*out)["issue_ns"] = completion.issue_ticks;
  (*out)["source"] = Text(answers::CompletionSourceName(completion.source));
  (*out)["network_operations"] = completion.proxy_ops;
  (*out)["bytes"] = completion.bytes;
}

void AddCopyEngine(Fields* out, const Event& event) {
  switch (static_cast<EventKind>(event.kind)) {
    case EventKind::kCeColl: {
      const schema::CeCollPayload& coll = event.payload.ce_coll;
      AddOperation(out, coll.func, coll.count, coll.dtype);
      (*out)["ce_seq"] = coll.ce_seq;
      (*out)["ordinal"] = Ordinal(coll.ordinal);
      (*out)["root"] = Peer(coll.root);
      (*out)["sync_strategy"] = coll.sync_strategy;
      return;
    }
    case EventKind::kCeSync:
      (*out)["ranks"] = event.payload.ce_sync.ranks;
      (*out)["is_complete"] = event.payload.ce_sync.is_complete;
      return;
    default:
      (*out)["bytes"] = event.payload.ce_batch.bytes;
      (*out)["operations"] = event.payload.ce_batch.ops;
      (*out)["use_intra_sync"] = event.payload.ce_batch.use_intra_sync;
  }
}

void AddGpuStamp(Fields* out, const Event& event, const std::vector<std::string>& names) {
  const schema::GpuStampPayload& stamp = event.payload.gpu_stamp;
  (*out)["channel"] = event.aux;
  (*out)["gpu_begin_ns"] = stamp.gpu_begin_ns;
  (*out)["gpu_end_ns"] = stamp.gpu_end_ns;
  if (static_cast<EventKind>(event.kind) == EventKind::kKernelPhase) {
    (*out)["phase"] = stamp.phase;
    (*out)["name"] = Name(stamp.name, names);
  }
}

void AddPayload(Fields* out, const Event& event, const std::vector<std::string>& names) {
  switch (static_cast<EventKind>(event.kind)) {
    case EventKind::kGroupApi:
    case EventKind::kGroup:
      (*out)["depth"] = event.payload.group.depth;
      return;
    case EventKind::kCollApi:
    case EventKind::kP2pApi: {
      const schema::ApiPayload& api = event.payload.api;
      AddOperation(out, api.func, api.count, api.dtype);
      (*out)["ordinal"] = Ordinal(api.ordinal);
      (*out)["root"] = Peer(api.root);
      (*out)["stream_tag"] = api.stream_tag;
      return;
    }
    case EventKind::kKernelLaunch:
      (*out)["stream"] = event.payload.launch.stream;
      return;
    case EventKind::kColl:
      return AddCollective(out, event);
    case EventKind::kOpEvicted:  // which of the two it was is the function's to say
      return answers::IsPointToPoint(event.payload.coll.func) ? AddPointToPoint(out, event)
                                                              : AddCollective(out, event);
    case EventKind::kP2p:
      return AddPointToPoint(out, event);
    case EventKind::kProxyOp:
      return AddProxyOp(out, event);
    case EventKind::kProxyStep:
      return AddProxyStep(out, event);
    case EventKind::kProxyCtrl:
      (*out)["state"] = event.payload.proxy_ctrl.state;
      (*out)["appended"] = event.payload.proxy_ctrl.appended;
      return;
    case EventKind::kKernelChannel:
    case EventKind::kKernelPhase:
      return AddGpuStamp(out, event, names);
    case EventKind::kNetPlugin:
      (*out)["id"] = event.payload.net.id;
      (*out)["bytes"] = event.payload.net.bytes;
      (*out)["queue"] = event.payload.net.queue;
      (*out)["device"] = event.payload.net.device;
      return;
    case EventKind::kCeColl:
    case EventKind::kCeSync:
    case EventKind::kCeBatch:
      return AddCopyEngine(out, event);
    case EventKind::kOpComplete:
      return AddCompletion(out, event);
    case EventKind::kCommInit:
    case EventKind::kCommFinalize:
      return;
    case EventKind::kGpuKernel:
    case EventKind::kGpuSync:
    case EventKind::kGpuGraph:
    case EventKind::kGpuOverhead: {
      const schema::GpuKernelPayload& kernel = event.payload.kernel;
      (*out)["name"] = Name(kernel.name, names);
      (*out)["correlation"] = kernel.correlation;
      (*out)["device"] = kernel.device == 0xffff ? Fields(nullptr) : Fields(kernel.device);
      (*out)["context"] = kernel.context;
      (*out)["stream"] = kernel.stream;
      (*out)["grid_blocks"] = kernel.grid_blocks;
      (*out)["block_threads"] = kernel.block_threads;
      (*out)["aux"] = event.aux;
      return;
    }
    case EventKind::kCudaApi: {
      const schema::GpuKernelPayload& call = event.payload.kernel;
      (*out)["call"] = event.aux;
      (*out)["interface"] = call.block_threads == 5 ? "runtime" : "driver";
      (*out)["correlation"] = call.correlation;
      (*out)["pthread_low"] = call.stream;
      (*out)["returned"] = call.grid_blocks;
      return;
    }
    case EventKind::kGpuMemcpy:
    case EventKind::kGpuMemset:
    case EventKind::kGpuMemory:
    case EventKind::kGpuMemoryPool: {
      const schema::GpuCopyPayload& copy = event.payload.copy;
      (*out)["bytes"] = copy.bytes;
      (*out)["correlation"] = copy.correlation;
      (*out)["device"] = copy.device;
      (*out)["peer_device"] = copy.peer_device;
      (*out)["stream"] = copy.stream;
      (*out)["copy_kind"] = copy.copy_kind;
      (*out)["source_kind"] = copy.source_kind;
      (*out)["destination_kind"] = copy.destination_kind;
      (*out)["aux"] = event.aux;
      return;
    }
    case EventKind::kCallSite:
      (*out)["function"] = Name(event.payload.range.domain, names);
      (*out)["stack"] = Name(event.payload.range.name, names);
      return;
    case EventKind::kRange:
    case EventKind::kMark: {
      const schema::RangePayload& range = event.payload.range;
      (*out)["name"] = Name(range.name, names);
      (*out)["domain"] = Name(range.domain, names);
      (*out)["value"] = range.value;
      (*out)["detail"] = range.detail;
      (*out)["phase"] = answers::PhaseName(static_cast<schema::Phase>(range.phase));
      (*out)["phase_source"] = answers::PhaseSourceName(static_cast<schema::PhaseSource>(range.phase_source));
      (*out)["depth"] = range.depth;
      (*out)["form"] = event.aux;
      return;
    }
    case EventKind::kFileIo:
      (*out)["path_class"] = Name(event.payload.file_io.path_class, names);
      (*out)["operation"] = event.aux;
      (*out)["bytes"] = event.payload.file_io.bytes;
      (*out)["calls"] = event.payload.file_io.calls;
      return;
    case EventKind::kHostSample:
      (*out)["cpu_ns"] = event.payload.host.cpu_ns;
      (*out)["resident_bytes"] = event.payload.host.resident_bytes;
      (*out)["major_faults"] = event.payload.host.major_faults;
      return;
    default:  // a kind of a later source: its payload as it is
      (*out)["aux"] = event.aux;
      (*out)["words"] = {event.payload.words[0], event.payload.words[1], event.payload.words[2]};
  }
}

}  // namespace

Fields RankFields(const analysis::RankInfo& rank) {
  Fields out = {{"rank", rank.rank},
                {"rank_index", rank.rank_index},
                {"world_size", rank.world_size},
                {"rank_source", Text(answers::RankSourceName(rank.rank_source))},
                {"environment_rank", rank.env_rank},
                {"environment_world_size", rank.env_world_size},
                {"local_rank", rank.local_rank},
                {"local_world_size", rank.local_world_size},
                {"node_rank", rank.node_rank},
                {"restart_count", rank.restart_count},
                {"device", rank.device},
                {"device_uuid", rank.device_uuid},
                {"host", rank.host},
                {"boot_id", rank.boot_id},
                {"pid", rank.pid},
                {"job", rank.job},
                {"launcher", rank.launcher},
                {"run_id", rank.run_id},
                {"command", rank.command},
                {"library_version", rank.library_version},
                {"nccl_version", answers::NcclVersionText(rank.nccl_version)},
                {"nccl_api_version", rank.nccl_api_version},
                {"event_mask", rank.event_mask},
                {"ring_path", rank.ring_path},
                {"ring_bytes", rank.ring_bytes},
                {"alive", rank.alive},
                {"closed", rank.closed},
                {"start_ns", rank.start_ns},
                {"read_ns", rank.read_ns},
                {"last_event_ns", rank.last_event_ns},
                {"ticks_per_second", rank.ticks_per_second},
                {"clock_residual_ns", rank.clock_residual_ns},
                {"pair_cost_ns", rank.pair_cost_ns},
                {"torn_records", rank.torn_records}};
  Fields kinds = Fields::object(), losses = Fields::object(), threads = Fields::array();
  for (const analysis::KindCountInfo& kind : rank.kinds) {
    if ((kind.committed | kind.read | kind.overwritten | kind.dropped) == 0) continue;
    kinds[Text(answers::EventKindName(kind.kind))] = {{"committed", kind.committed},
                                                      {"read", kind.read},
                                                      {"overwritten", kind.overwritten},
                                                      {"dropped", kind.dropped}};
  }
  for (const analysis::LossInfo& loss : rank.losses) {
    if (loss.count != 0) losses[Text(answers::LossReasonKey(loss.reason))] = loss.count;
  }
  for (const analysis::ThreadInfo& thread : rank.threads) {
    threads.push_back({{"lane", thread.lane}, {"thread_id", thread.thread_id}, {"name", thread.name}});
  }
  out["records"] = std::move(kinds);
  out["losses"] = std::move(losses);
  out["threads"] = std::move(threads);
  return out;
}

Fields CommFields(const analysis::CommInfo& comm) {
  Fields out = {{"slot", comm.slot},
                {"hash", absl::StrFormat("0x%016x", comm.hash)},
                {"communicator_rank", Peer(comm.rank)},
                {"ranks", comm.ranks},
                {"nodes", comm.nodes},
                {"name", comm.name},
                {"api_version", comm.api_version},
                {"flags", NamesOf(comm.flags, kCommFlagNames)},
                {"init_ns", comm.init_ns},
                {"finalize_ns", comm.finalize_ns}};
  Fields functions = Fields::object();
  for (size_t f = 0; f < comm.launched_by_func.size(); ++f) {
    if ((comm.launched_by_func[f] | comm.api_by_func[f]) == 0) continue;
    const uint64_t last = comm.last_seq_by_func[f];
    functions[Text(answers::FunctionName(static_cast<uint8_t>(f)))] = {
        {"launched", comm.launched_by_func[f]},
        {"api_calls", comm.api_by_func[f]},
        {"last_seq", last == 0 ? Fields(nullptr) : Fields(last - 1)}};
  }
  out["functions"] = std::move(functions);
  return out;
}

Fields InFlightFields(const analysis::InFlightInfo& slot) {
  Fields out = {{"kind", Text(answers::EventKindName(slot.kind))},
                {"state", NamesOf(slot.state, kSlotStateNames)},
                {"comm", Slot(slot.comm)}};
  if (static_cast<EventKind>(slot.kind) == EventKind::kProxyOp) {
    // Of the same words, other meanings: schema/ring_abi.h, InFlightSlot.
    out["peer"] = Peer(slot.root_or_peer);
    out["bytes"] = slot.count;
    out["steps"] = slot.seq;
    out["chunk_bytes"] = slot.ordinal;
  } else {
    AddOperation(&out, slot.func, slot.count, slot.dtype);
    out["seq"] = slot.seq;
    out["ordinal"] = Ordinal(slot.ordinal);
    out["api_ordinal"] = Ordinal(slot.api_ordinal);
    out["root_or_peer"] = Peer(slot.root_or_peer);
    out["algorithm"] = Text(answers::AlgorithmName(slot.algo));
    out["protocol"] = Text(answers::ProtocolName(slot.proto));
  }
  out["flags"] = NamesOf(slot.flags, kEventFlagNames);
  out["op_id"] = slot.op_id;
  out["issue_ns"] = slot.issue_ns;
  out["begin_ns"] = slot.begin_ns;
  out["end_ns"] = slot.end_ns;
  out["last_progress_ns"] = slot.last_progress_ns;
  out["children_started"] = slot.children_started;
  out["children_stopped"] = slot.children_stopped;
  out["thread_id"] = slot.thread_id;
  return out;
}

Fields TotalFields(const analysis::TotalInfo& total) {
  // A size class of c holds sizes from 2^(c-1) bytes to twice that (schema/ring_abi.h, SizeClass).
  return {{"function", Text(answers::FunctionName(total.func))},
          {"least_bytes", total.size_class == 0 || total.size_class > 64 ? 0 : uint64_t{1} << (total.size_class - 1)},
          {"api_calls", total.api_calls},
          {"launched", total.launched},
          {"bytes", total.bytes},
          {"completed", total.completed},
          {"duration_ns", total.duration_ns},
          {"duration_max_ns", total.duration_max_ns}};
}

Fields EventFields(const Event& event, const std::vector<std::string>& names) {
  Fields out = {{"kind", Text(answers::EventKindName(event.kind))},
                {"begin_ns", event.begin_ns},
                {"end_ns", event.end_ns},
                {"lane", event.lane},
                {"comm", Slot(event.comm)},
                {"op_id", event.op_id == 0 ? Fields(nullptr) : Fields(event.op_id)},
                {"flags", NamesOf(event.flags, kEventFlagNames)}};
  AddPayload(&out, event, names);
  return out;
}

}  // namespace rankscope::tools
