// See fake_recording.h.
#include "analysis/answers/fake_recording.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace rankscope::answers {

using analysis::CommInfo;
using analysis::Event;
using analysis::RankInfo;
using schema::EventKind;
using schema::Function;

namespace {

constexpr int64_t kEnqueueNs = 500;  // a launch's start to its stop
constexpr int64_t kCallNs = 300;     // an API call lies so long before its launch

// Both a merged stream and one rank's part of it.
template <typename Base>
class FakeEvents : public Base {
 public:
  explicit FakeEvents(std::vector<Event> events) : events_(std::move(events)) {}
  size_t Read(absl::Span<Event> out) override {
    const size_t count = std::min(out.size(), events_.size() - next_);
    std::copy_n(events_.begin() + static_cast<std::ptrdiff_t>(next_), count, out.begin());
    next_ += count;
    return count;
  }
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  std::vector<Event> events_;
  size_t next_ = 0;
};

}  // namespace

FakeRecording::FakeRecording(uint32_t ranks) : ranks_(ranks), next_op_(ranks, 0) {
  for (uint32_t r = 0; r < ranks; ++r) {
    RankInfo& rank = ranks_[r];
    rank.rank_index = r;
    rank.rank = static_cast<int32_t>(r);
    rank.world_size = static_cast<int32_t>(ranks);
    rank.pid = 1000 + r;
    rank.host = "node0";
    rank.boot_id = "boot0";
    rank.job = "job";
    rank.nccl_version = 22809;
    rank.nccl_api_version = 5;
    rank.event_mask = 0xf0f;
    rank.record_kinds = ~uint64_t{0};
    rank.ticks_per_second = 1e9;
    rank.start_ns = kStartNs;
    rank.read_ns = kStartNs + 3'600'000'000'000;
  }
  clocks_.push_back({.host = "node0", .boot_id = "boot0", .bound_ns = 0});
}

FakeRecording::Comm FakeRecording::AddComm(uint64_t hash, const std::vector<uint32_t>& processes) {
  Comm comm;
  comm.hash = hash;
  comm.processes = processes;
  for (uint32_t i = 0; i < processes.size(); ++i) {
    RankInfo& rank = ranks_[processes[i]];
    CommInfo info;
    info.slot = static_cast<uint16_t>(rank.comms.size());
    info.hash = hash;
    info.rank = static_cast<int32_t>(i);
    info.ranks = static_cast<int32_t>(processes.size());
    info.nodes = 1;
    info.flags = schema::kCommIdentityKnown | schema::kCommSizeKnown;
    info.api_version = 5;
    info.init_ns = kStartNs + static_cast<int64_t>(info.slot);
    comm.slots.push_back(info.slot);
    rank.comms.push_back(std::move(info));
  }
  return comm;
}

CommInfo& FakeRecording::InfoOf(const Comm& comm, uint32_t comm_rank) {
  return ranks_[comm.processes[comm_rank]].comms[comm.slots[comm_rank]];
}

Event& FakeRecording::Push(uint32_t process, EventKind kind, int64_t begin_ns, int64_t end_ns, uint16_t comm_slot,
                           uint64_t op_id, uint16_t flags) {
  Event event;
  event.rank_index = process;
  event.kind = static_cast<uint16_t>(kind);
  event.flags = flags;
  event.comm = comm_slot;
  event.begin_ns = begin_ns;
  event.end_ns = end_ns;
  event.op_id = op_id;
  events_.push_back(event);
  CountKind(process, kind);
  ranks_[process].last_event_ns = std::max(ranks_[process].last_event_ns, end_ns);
  return events_.back();
}

void FakeRecording::CountKind(uint32_t process, EventKind kind) {
  auto& kinds = ranks_[process].kinds;
  auto place =
      std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.kind == static_cast<uint16_t>(kind); });
  if (place == kinds.end()) place = kinds.insert(kinds.end(), {static_cast<uint16_t>(kind), 0, 0, 0, 0});
  ++place->committed;
  ++place->read;
}

void FakeRecording::Count(uint32_t process, Function func, uint64_t bytes, bool api, bool launch, bool completed,
                          int64_t duration_ns) {
  auto& totals = ranks_[process].totals;
  const auto size_class = static_cast<uint8_t>(schema::SizeClass(bytes));
  auto place = std::find_if(totals.begin(), totals.end(), [&](const auto& t) {
    return t.func == static_cast<uint8_t>(func) && t.size_class == size_class;
  });
  if (place == totals.end()) {
    place = totals.insert(totals.end(), analysis::TotalInfo{});
    place->func = static_cast<uint8_t>(func);
    place->size_class = size_class;
  }
  place->api_calls += api ? 1 : 0;
  place->launched += launch ? 1 : 0;
  place->bytes += launch ? bytes : 0;
  if (!completed) return;
  ++place->completed;
  place->duration_ns += duration_ns;
  place->duration_max_ns = std::max(place->duration_max_ns, duration_ns);
  ++place->histogram[static_cast<size_t>(schema::DurationBucket(static_cast<uint64_t>(duration_ns)))];
}

void FakeRecording::Collective(const Comm& comm, const Call& call, const std::vector<int64_t>& arrivals_ns) {
  const auto f = static_cast<size_t>(call.func);
  const uint64_t bytes = call.count * schema::DataTypeBytes(call.dtype);
  const int64_t last_ns = *std::max_element(arrivals_ns.begin(), arrivals_ns.end());
  for (uint32_t i = 0; i < arrivals_ns.size(); ++i) {
    const int64_t arrival_ns = arrivals_ns[i];
    if (arrival_ns == kAbsent) continue;
    const uint32_t process = comm.processes[i];
    CommInfo& info = InfoOf(comm, i);
    const uint64_t op_id = NextOp(process);
    uint16_t flags = call.extra_flags;
    if (call.first) flags |= schema::kFlagFirstOfComm;
    if (call.replay) flags |= schema::kFlagGraphReplay;
    if (call.api && !call.replay) {
      Event& api = Push(process, EventKind::kCollApi, arrival_ns - kCallNs, arrival_ns - kCallNs / 2, comm.slots[i],
                        op_id, flags | schema::kFlagHasApi);
      api.payload.api = {call.count,
                         7,
                         static_cast<uint32_t>(info.api_by_func[f]),
                         static_cast<uint8_t>(call.func),
                         static_cast<uint8_t>(call.dtype),
                         {},
                         call.root};
      ++info.api_by_func[f];
    }
    if (call.launch) {
      const uint64_t seq =
          call.repeat_seq && info.last_seq_by_func[f] > 0 ? info.last_seq_by_func[f] - 1 : info.last_seq_by_func[f];
      Event& coll = Push(process, EventKind::kColl, arrival_ns, arrival_ns + kEnqueueNs, comm.slots[i], op_id, flags);
      coll.payload.coll = {call.count,
                           static_cast<uint32_t>(seq),
                           static_cast<uint32_t>(info.launched_by_func[f]),
                           static_cast<uint8_t>(call.func),
                           static_cast<uint8_t>(call.dtype),
                           2,
                           3,
                           call.root};
      coll.aux = 2 | 8 << 8;
      ++info.launched_by_func[f];
      info.last_seq_by_func[f] = seq + 1;
    }
    const bool completed = call.launch && call.completes;
    const int64_t end_ns = last_ns + call.transfer_ns;
    if (completed) {
      Event& done = Push(process, EventKind::kOpComplete, arrival_ns, end_ns, comm.slots[i], op_id, flags);
      done.payload.completion = {static_cast<uint64_t>(arrival_ns - kCallNs),
                                 4,
                                 static_cast<uint8_t>(schema::CompletionSource::kProxy),
                                 static_cast<uint8_t>(call.func),
                                 {},
                                 bytes};
    }
    Count(process, call.func, bytes, call.api && !call.replay, call.launch, completed, end_ns - arrival_ns);
  }
}

void FakeRecording::PointToPoint(const Comm& comm, uint32_t sender, uint32_t receiver, uint64_t count,
                                 int64_t send_ns, int64_t receive_ns, int64_t transfer_ns) {
  for (const bool sends : {true, false}) {
    const int64_t arrival_ns = sends ? send_ns : receive_ns;
    if (arrival_ns == kAbsent) continue;
    const uint32_t own = sends ? sender : receiver;
    const uint32_t process = comm.processes[own];
    const Function func = sends ? Function::kSend : Function::kRecv;
    CommInfo& info = InfoOf(comm, own);
    uint32_t& ordinal = transfers_[{process, comm.slots[own], sender, receiver, sends}];
    const uint64_t op_id = NextOp(process);
    const uint16_t flags = ordinal == 0 ? uint16_t{schema::kFlagFirstOfComm} : uint16_t{0};
    Event& p2p = Push(process, EventKind::kP2p, arrival_ns, arrival_ns + kEnqueueNs, comm.slots[own], op_id, flags);
    p2p.payload.p2p = {count,
                       0,
                       ordinal,
                       static_cast<uint8_t>(func),
                       static_cast<uint8_t>(schema::DataType::kFloat32),
                       {},
                       static_cast<int32_t>(sends ? receiver : sender)};
    p2p.aux = 2;
    ++ordinal;
    ++info.launched_by_func[static_cast<size_t>(func)];
    const bool both = send_ns != kAbsent && receive_ns != kAbsent;
    if (both) {
      Event& done = Push(process, EventKind::kOpComplete, arrival_ns, std::max(send_ns, receive_ns) + transfer_ns,
                         comm.slots[own], op_id, flags);
      done.payload.completion = {
          static_cast<uint64_t>(arrival_ns), 2,  static_cast<uint8_t>(schema::CompletionSource::kProxy),
          static_cast<uint8_t>(func),        {}, count * 4};
    }
    Count(process, func, count * 4, false, true, both, transfer_ns);
  }
}

void FakeRecording::LeaveInFlight(const Comm& comm, uint32_t comm_rank, const Call& call, int64_t arrival_ns,
                                  uint32_t children_started, uint32_t children_stopped, bool call_open) {
  const auto f = static_cast<size_t>(call.func);
  const uint32_t process = comm.processes[comm_rank];
  CommInfo& info = InfoOf(comm, comm_rank);
  analysis::InFlightInfo slot;
  slot.comm = comm.slots[comm_rank];
  slot.func = static_cast<uint8_t>(call.func);
  slot.dtype = static_cast<uint8_t>(call.dtype);
  slot.root_or_peer = call.root;
  slot.count = call.count;
  slot.state = schema::kSlotIsOperation;
  slot.op_id = NextOp(process);
  slot.issue_ns = arrival_ns - kCallNs;
  slot.begin_ns = arrival_ns;
  slot.children_started = children_started;
  slot.children_stopped = children_stopped;
  slot.thread_id = 7000 + process;
  if (call.api) slot.api_ordinal = static_cast<uint32_t>(info.api_by_func[f]++);
  if (call.launch) {
    slot.kind = static_cast<uint16_t>(EventKind::kColl);
    slot.state |= schema::kSlotIssued;
    slot.algo = 2;
    slot.proto = 3;
    slot.seq = static_cast<uint32_t>(info.last_seq_by_func[f]++);
    slot.ordinal = static_cast<uint32_t>(info.launched_by_func[f]++);
    Event& coll = Push(process, EventKind::kColl, arrival_ns, arrival_ns + kEnqueueNs, slot.comm, slot.op_id, 0);
    coll.payload.coll = {call.count, slot.seq, slot.ordinal, slot.func, slot.dtype, 2, 3, call.root};
    coll.aux = 2;
  } else {
    slot.kind = static_cast<uint16_t>(EventKind::kCollApi);
    slot.ordinal = slot.api_ordinal;
  }
  if (call_open) slot.state |= call.launch ? schema::kSlotOpen : schema::kSlotApiOpen;
  ranks_[process].in_flight.push_back(slot);
}

void FakeRecording::Overwrite(uint32_t process, size_t events) {
  std::stable_sort(events_.begin(), events_.end(),
                   [](const Event& a, const Event& b) { return a.end_ns < b.end_ns; });
  std::vector<Event> kept;
  for (const Event& event : events_) {
    if (event.rank_index != process || events == 0) {
      kept.push_back(event);
      continue;
    }
    --events;
    for (auto& kind : ranks_[process].kinds) {
      if (kind.kind != event.kind) continue;
      --kind.read;
      ++kind.overwritten;
    }
  }
  events_ = std::move(kept);
}

std::vector<Event> FakeRecording::Chosen(analysis::KindMask kinds) const {
  std::vector<Event> chosen;
  for (const Event& event : events_) {
    if ((kinds >> event.kind & 1) != 0) chosen.push_back(event);
  }
  std::stable_sort(chosen.begin(), chosen.end(), [](const Event& a, const Event& b) { return a.end_ns < b.end_ns; });
  return chosen;
}

std::unique_ptr<analysis::EventStream> FakeRecording::Events(analysis::KindMask kinds) const {
  return std::make_unique<FakeEvents<analysis::EventStream>>(Chosen(kinds));
}

std::vector<std::unique_ptr<analysis::EventSource>> FakeRecording::Sources(analysis::KindMask kinds) const {
  std::vector<std::vector<Event>> by_rank(ranks_.size());
  for (const Event& event : Chosen(kinds)) by_rank[event.rank_index].push_back(event);
  std::vector<std::unique_ptr<analysis::EventSource>> sources;
  for (auto& events : by_rank)
    sources.push_back(std::make_unique<FakeEvents<analysis::EventSource>>(std::move(events)));
  return sources;
}

}  // namespace rankscope::answers
