// See timeline_messages.h.
#include "analysis/recording/timeline_messages.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "analysis/recording/clean_text.h"

namespace rankscope::analysis {

namespace {

namespace tl = timeline;
using Builder = flatbuffers::FlatBufferBuilder;

uint64_t Time(int64_t ns) { return static_cast<uint64_t>(ns); }
int64_t Time(uint64_t ns) { return static_cast<int64_t>(std::min<uint64_t>(ns, uint64_t{1} << 62)); }

std::string Text(const flatbuffers::String* text) {
  return text == nullptr ? std::string() : CleanText({text->c_str(), text->size()});
}

template <size_t N>
flatbuffers::Offset<flatbuffers::Vector<uint64_t>> PackArray(Builder* builder,
                                                             const std::array<uint64_t, N>& values) {
  return builder->CreateVector(values.data(), N);
}
template <size_t N>
void UnpackArray(const flatbuffers::Vector<uint64_t>* vector, std::array<uint64_t, N>* out) {
  if (vector == nullptr) return;
  // The verifier checks where a vector begins, not how its elements are aligned.
  std::memcpy(out->data(), vector->Data(), std::min<size_t>(N, vector->size()) * sizeof(uint64_t));
}

flatbuffers::Offset<tl::Comm> PackComm(Builder* builder, const CommInfo& comm) {
  const auto name = builder->CreateString(comm.name);
  const auto launched = PackArray(builder, comm.launched_by_func);
  const auto api = PackArray(builder, comm.api_by_func);
  const auto seq = PackArray(builder, comm.last_seq_by_func);
  tl::CommBuilder out(*builder);
  out.add_slot(comm.slot);
  out.add_hash(comm.hash);
  out.add_rank(comm.rank);
  out.add_ranks(comm.ranks);
  out.add_nodes(comm.nodes);
  out.add_flags(comm.flags);
  out.add_name(name);
  out.add_api_version(comm.api_version);
  out.add_init_ns(Time(comm.init_ns));
  out.add_finalize_ns(Time(comm.finalize_ns));
  out.add_launched_by_func(launched);
  out.add_api_by_func(api);
  out.add_last_seq_by_func(seq);
  return out.Finish();
}

CommInfo UnpackComm(const tl::Comm& table) {
  CommInfo comm;
  comm.slot = table.slot();
  comm.hash = table.hash();
  comm.rank = table.rank();
  comm.ranks = table.ranks();
  comm.nodes = table.nodes();
  comm.flags = table.flags();
  comm.name = Text(table.name());
  comm.api_version = table.api_version();
  comm.init_ns = Time(table.init_ns());
  comm.finalize_ns = Time(table.finalize_ns());
  UnpackArray(table.launched_by_func(), &comm.launched_by_func);
  UnpackArray(table.api_by_func(), &comm.api_by_func);
  UnpackArray(table.last_seq_by_func(), &comm.last_seq_by_func);
  return comm;
}

flatbuffers::Offset<tl::InFlight> PackInFlight(Builder* builder, const InFlightInfo& slot) {
  tl::InFlightBuilder out(*builder);
  out.add_kind(slot.kind);
  out.add_state(slot.state);
  out.add_is_operation((slot.state & schema::kSlotIsOperation) != 0);
  out.add_comm(slot.comm);
  out.add_func(slot.func);
  out.add_data_type(slot.dtype);
  out.add_algo(slot.algo);
  out.add_proto(slot.proto);
  out.add_root_or_peer(slot.root_or_peer);
  out.add_count(slot.count);
  out.add_seq(slot.seq);
  out.add_ordinal(slot.ordinal);
  out.add_api_ordinal(slot.api_ordinal);
  out.add_flags(slot.flags);
  out.add_aux(slot.aux);
  out.add_op_id(slot.op_id);
  out.add_issue_ns(Time(slot.issue_ns));
  out.add_begin_ns(Time(slot.begin_ns));
  out.add_end_ns(Time(slot.end_ns));
  out.add_last_progress_ns(Time(slot.last_progress_ns));
  out.add_children_started(slot.children_started);
  out.add_children_stopped(slot.children_stopped);
  out.add_thread_id(slot.thread_id);
  return out.Finish();
}

InFlightInfo UnpackInFlight(const tl::InFlight& table) {
  InFlightInfo slot;
  slot.kind = table.kind();
  slot.state = table.state();
  slot.comm = table.comm();
  slot.func = table.func();
  slot.dtype = table.data_type();
  slot.algo = table.algo();
  slot.proto = table.proto();
  slot.root_or_peer = table.root_or_peer();
  slot.count = table.count();
  slot.seq = table.seq();
  slot.ordinal = table.ordinal();
  slot.api_ordinal = table.api_ordinal();
  slot.flags = table.flags();
  slot.aux = table.aux();
  slot.op_id = table.op_id();
  slot.issue_ns = Time(table.issue_ns());
  slot.begin_ns = Time(table.begin_ns());
  slot.end_ns = Time(table.end_ns());
  slot.last_progress_ns = Time(table.last_progress_ns());
  slot.children_started = table.children_started();
  slot.children_stopped = table.children_stopped();
  slot.thread_id = table.thread_id();
  return slot;
}

flatbuffers::Offset<tl::Total> PackTotal(Builder* builder, const TotalInfo& total) {
  return tl::CreateTotal(*builder, total.func, total.size_class, total.api_calls, total.launched, total.bytes,
                         total.completed, Time(total.duration_ns), Time(total.duration_max_ns),
                         builder->CreateVector(total.histogram.data(), total.histogram.size()));
}

TotalInfo UnpackTotal(const tl::Total& table) {
  TotalInfo total;
  total.func = table.func();
  total.size_class = table.size_class();
  total.api_calls = table.api_calls();
  total.launched = table.launched();
  total.bytes = table.bytes();
  total.completed = table.completed();
  total.duration_ns = Time(table.duration_ns());
  total.duration_max_ns = Time(table.duration_max_ns());
  if (const auto* histogram = table.histogram()) {
    for (uint32_t i = 0; i < std::min<uint32_t>(schema::kDurationBuckets, histogram->size()); ++i)
      total.histogram[i] = histogram->Get(i);
  }
  return total;
}

flatbuffers::Offset<tl::Cupti> PackCupti(Builder* builder, const CuptiSourceInfo& cupti) {
  const auto library = builder->CreateString(cupti.library), holder = builder->CreateString(cupti.holder),
             failing_call = builder->CreateString(cupti.failing_call);
  const auto strides = builder->CreateVector(cupti.strides);
  tl::CuptiBuilder out(*builder);
  out.add_state(cupti.state);
  out.add_api_version(cupti.api_version);
  out.add_result(cupti.result);
  out.add_clock(cupti.clock);
  out.add_clock_error_ns(cupti.clock_error_ns);
  out.add_enabled_kinds(cupti.enabled_kinds);
  out.add_missing_calls(cupti.missing_calls);
  out.add_armed_ns(Time(cupti.armed_ns));
  out.add_arm_cost_ns(cupti.arm_cost_ns);
  out.add_records(cupti.records);
  out.add_buffers_lent(cupti.buffers_lent);
  out.add_buffers_returned(cupti.buffers_returned);
  out.add_flushes(cupti.flushes);
  out.add_blind_since_ns(Time(cupti.blind_since_ns));
  out.add_blind_ns(cupti.blind_ns);
  out.add_resumes(cupti.resumes);
  out.add_buffer_bytes(cupti.buffer_bytes);
  out.add_buffer_count(cupti.buffer_count);
  out.add_device_buffer_bytes(cupti.device_buffer_bytes);
  out.add_device_buffer_limit(cupti.device_buffer_limit);
  out.add_device_buffer_preallocated(cupti.device_buffer_preallocated);
  out.add_per_thread_buffers(cupti.per_thread_buffers);
  out.add_strides(strides);
  out.add_library(library);
  out.add_holder(holder);
  out.add_failing_call(failing_call);
  return out.Finish();
}

CuptiSourceInfo UnpackCupti(const tl::Cupti& table) {
  CuptiSourceInfo cupti;
  cupti.state = table.state();
  cupti.api_version = table.api_version();
  cupti.result = table.result();
  cupti.clock = table.clock();
  cupti.clock_error_ns = table.clock_error_ns();
  cupti.enabled_kinds = table.enabled_kinds();
  cupti.missing_calls = table.missing_calls();
  cupti.armed_ns = Time(table.armed_ns());
  cupti.arm_cost_ns = table.arm_cost_ns();
  cupti.records = table.records();
  cupti.buffers_lent = table.buffers_lent();
  cupti.buffers_returned = table.buffers_returned();
  cupti.flushes = table.flushes();
  cupti.blind_since_ns = Time(table.blind_since_ns());
  cupti.blind_ns = table.blind_ns();
  cupti.resumes = table.resumes();
  cupti.buffer_bytes = table.buffer_bytes();
  cupti.buffer_count = table.buffer_count();
  cupti.device_buffer_bytes = table.device_buffer_bytes();
  cupti.device_buffer_limit = table.device_buffer_limit();
  cupti.device_buffer_preallocated = table.device_buffer_preallocated();
  cupti.per_thread_buffers = table.per_thread_buffers();
  if (const auto* strides = table.strides()) cupti.strides.assign(strides->begin(), strides->end());
  cupti.library = Text(table.library());
  cupti.holder = Text(table.holder());
  cupti.failing_call = Text(table.failing_call());
  return cupti;
}

template <typename In, typename Pack>
auto PackAll(Builder* builder, const std::vector<In>& values, Pack pack) {
  std::vector<decltype(pack(builder, values[0]))> offsets;
  offsets.reserve(values.size());
  for (const In& value : values) offsets.push_back(pack(builder, value));
  return builder->CreateVector(offsets);
}

template <typename Vector, typename Out, typename Unpack>
void UnpackAll(const Vector* vector, std::vector<Out>* out, Unpack unpack) {
  if (vector == nullptr) return;
  for (uint32_t i = 0; i < vector->size(); ++i) {
    const auto* table = vector->Get(i);
    if (table != nullptr) out->push_back(unpack(*table));
  }
}

}  // namespace

flatbuffers::Offset<tl::RankInfo> PackRankInfo(Builder* builder, const RankInfo& rank) {
  const auto text = [&](const std::string& s) { return builder->CreateString(s); };
  const auto host = text(rank.host), boot = text(rank.boot_id), job = text(rank.job), launcher = text(rank.launcher),
             run = text(rank.run_id), uuid = text(rank.device_uuid), command = text(rank.command),
             version = text(rank.library_version), path = text(rank.ring_path);
  const auto comms = PackAll(builder, rank.comms, PackComm);
  const auto in_flight = PackAll(builder, rank.in_flight, PackInFlight);
  const auto totals = PackAll(builder, rank.totals, PackTotal);
  const auto kinds = PackAll(builder, rank.kinds, [](Builder* b, const KindCountInfo& k) {
    return tl::CreateKindCount(*b, k.kind, k.committed, k.read, k.overwritten, k.dropped);
  });
  const auto losses = PackAll(builder, rank.losses,
                              [](Builder* b, const LossInfo& l) { return tl::CreateLoss(*b, l.reason, l.count); });
  const auto threads = PackAll(builder, rank.threads, [](Builder* b, const ThreadInfo& t) {
    return tl::CreateThread(*b, t.lane, t.thread_id, b->CreateString(t.name), t.pthread_low);
  });
  const auto names = builder->CreateVectorOfStrings(rank.names);
  const auto streams = PackAll(builder, rank.streams, [](Builder* b, const StreamInfo& s) {
    return tl::CreateStream(*b, s.handle, s.stream_id, s.context_id);
  });
  const auto cupti = rank.cupti.state == 0 ? flatbuffers::Offset<tl::Cupti>() : PackCupti(builder, rank.cupti);
  tl::RankInfoBuilder out(*builder);
  out.add_rank_index(rank.rank_index);
  out.add_rank(rank.rank);
  out.add_world_size(rank.world_size);
  out.add_local_rank(rank.local_rank);
  out.add_local_world_size(rank.local_world_size);
  out.add_rank_source(rank.rank_source);
  out.add_env_rank(rank.env_rank);
  out.add_env_world_size(rank.env_world_size);
  out.add_node_rank(rank.node_rank);
  out.add_restart_count(rank.restart_count);
  out.add_device(rank.device);
  out.add_pid(rank.pid);
  out.add_host(host);
  out.add_boot_id(boot);
  out.add_job(job);
  out.add_launcher(launcher);
  out.add_run_id(run);
  out.add_device_uuid(uuid);
  out.add_command(command);
  out.add_library_version(version);
  out.add_nccl_version(rank.nccl_version);
  out.add_nccl_api_version(rank.nccl_api_version);
  out.add_event_mask(rank.event_mask);
  out.add_record_kinds(rank.record_kinds);
  out.add_ring_path(path);
  out.add_ring_bytes(rank.ring_bytes);
  out.add_alive(rank.alive);
  out.add_closed(rank.closed);
  out.add_start_ns(Time(rank.start_ns));
  out.add_read_ns(Time(rank.read_ns));
  out.add_ticks_per_second(rank.ticks_per_second);
  out.add_tick_source(rank.tick_source);
  out.add_clock_residual_ns(rank.clock_residual_ns);
  out.add_torn_records(rank.torn_records);
  out.add_pair_cost_ns(rank.pair_cost_ns);
  out.add_comms(comms);
  out.add_in_flight(in_flight);
  out.add_totals(totals);
  out.add_kinds(kinds);
  out.add_losses(losses);
  out.add_threads(threads);
  out.add_names(names);
  out.add_last_event_ns(Time(rank.last_event_ns));
  out.add_doors(rank.doors);
  out.add_cupti(cupti);
  out.add_streams(streams);
  return out.Finish();
}

RankInfo UnpackRankInfo(const tl::RankInfo& table) {
  RankInfo rank;
  rank.rank_index = table.rank_index();
  rank.rank = table.rank();
  rank.world_size = table.world_size();
  rank.local_rank = table.local_rank();
  rank.local_world_size = table.local_world_size();
  rank.rank_source = table.rank_source();
  rank.env_rank = table.env_rank();
  rank.env_world_size = table.env_world_size();
  rank.node_rank = table.node_rank();
  rank.restart_count = table.restart_count();
  rank.device = table.device();
  rank.pid = table.pid();
  rank.host = Text(table.host());
  rank.boot_id = Text(table.boot_id());
  rank.job = Text(table.job());
  rank.launcher = Text(table.launcher());
  rank.run_id = Text(table.run_id());
  rank.device_uuid = Text(table.device_uuid());
  rank.command = Text(table.command());
  rank.library_version = Text(table.library_version());
  rank.nccl_version = table.nccl_version();
  rank.nccl_api_version = table.nccl_api_version();
  rank.event_mask = table.event_mask();
  rank.record_kinds = table.record_kinds();
  rank.ring_path = Text(table.ring_path());
  rank.ring_bytes = table.ring_bytes();
  rank.alive = table.alive();
  rank.closed = table.closed();
  rank.start_ns = Time(table.start_ns());
  rank.read_ns = Time(table.read_ns());
  rank.ticks_per_second = table.ticks_per_second();
  rank.tick_source = table.tick_source();
  rank.clock_residual_ns = table.clock_residual_ns();
  rank.torn_records = table.torn_records();
  rank.pair_cost_ns = table.pair_cost_ns();
  rank.last_event_ns = Time(table.last_event_ns());
  UnpackAll(table.comms(), &rank.comms, UnpackComm);
  UnpackAll(table.in_flight(), &rank.in_flight, UnpackInFlight);
  UnpackAll(table.totals(), &rank.totals, UnpackTotal);
  UnpackAll(table.kinds(), &rank.kinds, [](const tl::KindCount& k) {
    return KindCountInfo{k.kind(), k.committed(), k.read(), k.overwritten(), k.dropped()};
  });
  UnpackAll(table.losses(), &rank.losses, [](const tl::Loss& l) { return LossInfo{l.reason(), l.count()}; });
  UnpackAll(table.threads(), &rank.threads, [](const tl::Thread& t) {
    return ThreadInfo{t.lane(), t.thread_id(), Text(t.name()), t.pthread_low()};
  });
  UnpackAll(table.names(), &rank.names, [](const flatbuffers::String& s) { return Text(&s); });
  rank.doors = table.doors();
  if (table.cupti() != nullptr) rank.cupti = UnpackCupti(*table.cupti());
  UnpackAll(table.streams(), &rank.streams, [](const tl::Stream& s) {
    return StreamInfo{s.handle(), s.stream_id(), s.context_id()};
  });
  return rank;
}

}  // namespace rankscope::analysis
