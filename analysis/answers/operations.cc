// See operations.h.
#include "analysis/answers/operations.h"

#include <algorithm>
#include <array>
#include <deque>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "analysis/answers/early_events.h"
#include "analysis/answers/names.h"
#include "analysis/answers/operation_measure.h"
#include "analysis/answers/unfinished.h"

namespace rankscope::answers {

using analysis::Event;
using analysis::RankInfo;
using schema::EventKind;

namespace {

// Where a rank stands in the sequence numbers of one function on one communicator.
struct SequenceState {
  bool seen = false;
  bool uncertain = false;  // still at the first number that the window shows, and that was not the rank's first
  uint32_t seq = 0;
  uint32_t repeat = 0;
};

struct RankState {
  std::vector<std::array<SequenceState, schema::kFunctionLimit>> sequences;  // by communicator slot
};

struct PartPlace {
  uint32_t slot = 0;
  uint32_t part = 0;
};

struct Closed {
  uint32_t number = 0, repeat = 0;
  bool any = false;
};

struct OpenOperation {
  MatchedOperation op;
  std::vector<uint64_t> op_ids;  // beside op.participants; 0 = none
  std::vector<bool> seen;
  uint32_t generation = 0;
  bool in_use = false;
  uint32_t completed = 0;
};

struct QueueEntry {
  uint32_t slot = 0;
  uint32_t generation = 0;
  int64_t due_ns = 0;
};

}  // namespace

analysis::KindMask MatcherKinds() {
  using analysis::MaskOf;
  return MaskOf(EventKind::kCollApi) | MaskOf(EventKind::kP2pApi) | MaskOf(EventKind::kColl) |
         MaskOf(EventKind::kP2p) | MaskOf(EventKind::kCeColl) | MaskOf(EventKind::kOpComplete) |
         MaskOf(EventKind::kOpEvicted);
}

class OperationMatcher::State {
 public:
  State(const std::vector<RankInfo>& ranks, const Communicators& communicators, const MatcherOptions& options,
        OperationSink* sink)
      : communicators_(communicators), options_(options), sink_(sink) {
    rank_states_.resize(ranks.size());
    parts_.resize(ranks.size());
    calls_.resize(ranks.size());
    unfinished_.resize(ranks.size());
    early_.resize(ranks.size());
    for (size_t r = 0; r < ranks.size(); ++r) {
      for (const auto& slot : ranks[r].in_flight) {
        if (ProgressOf(slot) == OperationProgress::kUnfinished) unfinished_[r].insert(slot.op_id);
      }
    }
    closed_.resize(communicators.all().size());
  }

  void Add(const Event& event) {
    if (event.rank_index >= rank_states_.size()) return;
    ++stats_.events;
    now_ns_ = std::max(now_ns_, event.end_ns);
    switch (static_cast<EventKind>(event.kind)) {
      case EventKind::kCollApi:
      case EventKind::kP2pApi:
        AddCall(event);
        break;
      case EventKind::kColl:
        AddCollective(event);
        break;
      case EventKind::kP2p:
        AddPointToPoint(event);
        break;
      case EventKind::kCeColl:
        AddCopyEngine(event);
        break;
      case EventKind::kOpComplete:
        AddCompletion(event);
        break;
      case EventKind::kOpEvicted:
        AddEviction(event);
        break;
      default:
        break;
    }
    if (++since_close_ >= 64) CloseDue();
  }

  void Finish() {
    for (uint32_t r = 0; r < calls_.size(); ++r) {
      while (calls_[r].size() > 0) ExpireCall(r);
    }
    while (!order_.empty()) {
      const QueueEntry entry = order_.front();
      order_.pop_front();
      if (Holds(entry)) Close(entry.slot);
    }
    for (const EarlyCompletions& early : early_) stats_.late_completions += early.size();
  }

  const MatcherStats& stats() const { return stats_; }

 private:
  bool Holds(const QueueEntry& entry) const {
    return operations_[entry.slot].in_use && operations_[entry.slot].generation == entry.generation;
  }

  // False, and counted, where the event names no communicator of its rank.
  bool FindCommunicator(uint32_t rank_index, uint16_t slot, uint32_t* comm, uint32_t* member) {
    *comm = slot == schema::kCommUnknown ? kNoCommunicator : communicators_.Find(rank_index, slot);
    if (*comm == kNoCommunicator) {
      ++stats_.unknown_communicator;
      return false;
    }
    *member = communicators_.MemberOf(rank_index, slot);
    return true;
  }

  void AddCall(const Event& event) {
    if ((event.flags & schema::kFlagGraphCaptured) != 0) {
      ++stats_.captured_calls;
      return;
    }
    const uint32_t r = event.rank_index;
    // The launch may have been recorded first: it ended before the call's own stop.
    const auto part = parts_[r].find(event.op_id);
    if (part != parts_[r].end()) {
      operations_[part->second.slot].op.participants[part->second.part].issue_ns = event.begin_ns;
      return;
    }
    calls_[r].Add(event);
    if (calls_[r].size() > options_.open_calls) ExpireCall(r);
  }

  // The oldest call: if its launch never came it is an operation known by its call alone.
  void ExpireCall(uint32_t r) {
    WaitingCall call;
    if (!calls_[r].PopOldest(&call)) return;
    if (IsPointToPoint(call.func)) {
      ++stats_.api_only_p2p;
      return;
    }
    OperationKey key;
    Participant part;
    if (call.func >= schema::kFunctionLimit || !FindCommunicator(r, call.comm_slot, &key.comm, &part.member)) return;
    key.operation_class = OperationClass::kApiOnly;
    key.func = call.func;
    key.number = call.ordinal;
    part.ordinal = call.ordinal;
    part.issue_ns = part.arrival_ns = call.begin_ns;
    part.stop_ns = call.end_ns;
    part.count = call.count;
    part.root = call.root;
    part.func = call.func;
    part.dtype = call.dtype;
    part.flags = call.flags;
    AddPart(r, key, part, call.op_id);
  }

  Participant PartOf(const Event& event, uint32_t member) {
    Participant part;
    part.member = member;
    part.issue_ns = calls_[event.rank_index].Take(event.op_id, event.begin_ns);
    part.arrival_ns = event.begin_ns;
    part.stop_ns = event.end_ns;
    part.flags = event.flags;
    part.unfinished = !unfinished_[event.rank_index].empty() && unfinished_[event.rank_index].contains(event.op_id);
    return part;
  }

  void AddCollective(const Event& event) {
    const schema::CollPayload& coll = event.payload.coll;
    OperationKey key;
    uint32_t member = 0;
    if (!FindCommunicator(event.rank_index, event.comm, &key.comm, &member)) return;
    if (coll.func >= schema::kFunctionLimit) return;
    Participant part = PartOf(event, member);
    part.ordinal = coll.ordinal;
    part.count = coll.count;
    part.root = coll.root;
    part.func = coll.func;
    part.dtype = coll.dtype;
    part.algo = coll.algo;
    part.proto = coll.proto;
    key.func = coll.func;
    key.number = coll.seq;
    key.repeat = RepeatOf(event, &part);
    AddPart(event.rank_index, key, part, event.op_id);
  }

  // Which repeat of its sequence number a launch is. Replays of a CUDA graph show one number again and again
  // (nccl-profiler-api.md, 3.9). Where the rank's window begins in the middle, the count is not known: then the
  // rank's own ordinal stands for it from the second on, which is right where all ranks' windows begin so.
  uint32_t RepeatOf(const Event& event, Participant* part) {
    auto& sequences = rank_states_[event.rank_index].sequences;
    if (event.comm >= sequences.size()) sequences.resize(size_t{event.comm} + 1);
    const schema::CollPayload& coll = event.payload.coll;
    SequenceState& state = sequences[event.comm][coll.func];
    if (state.seen && state.seq == coll.seq) {
      state.repeat = state.uncertain ? coll.ordinal : state.repeat + 1;
    } else {
      state.uncertain = !state.seen && coll.ordinal != 0;
      state.seen = true;
      state.seq = coll.seq;
      state.repeat = 0;
    }
    part->uncertain_key = state.uncertain;
    return state.repeat;
  }

  void AddPointToPoint(const Event& event) {
    const schema::P2pPayload& p2p = event.payload.p2p;
    OperationKey key;
    uint32_t member = 0;
    if (!FindCommunicator(event.rank_index, event.comm, &key.comm, &member)) return;
    const int32_t own = communicators_[key.comm].members[member].comm_rank;
    if (!IsPointToPoint(p2p.func) || own < 0 || p2p.peer < 0 || p2p.ordinal == schema::kOrdinalUnknown) {
      ++stats_.unmatchable;
      return;
    }
    const bool sends = p2p.func == static_cast<uint8_t>(schema::Function::kSend);
    Participant part = PartOf(event, member);
    part.ordinal = p2p.ordinal;
    part.count = p2p.count;
    part.func = p2p.func;
    part.dtype = p2p.dtype;
    key.operation_class = OperationClass::kPointToPoint;
    key.func = static_cast<uint8_t>(schema::Function::kSendRecv);
    key.number = p2p.ordinal;
    key.sender = sends ? own : p2p.peer;
    key.receiver = sends ? p2p.peer : own;
    AddPart(event.rank_index, key, part, event.op_id);
  }

  void AddCopyEngine(const Event& event) {
    const schema::CeCollPayload& ce = event.payload.ce_coll;
    OperationKey key;
    uint32_t member = 0;
    if (!FindCommunicator(event.rank_index, event.comm, &key.comm, &member)) return;
    if (ce.func >= schema::kFunctionLimit) return;
    Participant part = PartOf(event, member);
    part.ordinal = ce.ordinal;
    part.count = ce.count;
    part.root = ce.root;
    part.func = ce.func;
    part.dtype = ce.dtype;
    key.operation_class = OperationClass::kCopyEngine;
    key.func = ce.func;
    key.number = ce.ordinal;
    AddPart(event.rank_index, key, part, event.op_id);
  }

  void AddCompletion(const Event& event) {
    auto& parts = parts_[event.rank_index];
    const auto found = parts.find(event.op_id);
    if (found == parts.end()) {
      stats_.late_completions += early_[event.rank_index].Add(event, options_.open_calls);
      return;
    }
    OpenOperation& open = operations_[found->second.slot];
    Participant& part = open.op.participants[found->second.part];
    const auto source = static_cast<schema::CompletionSource>(event.payload.completion.source);
    // The network is done before the kernel is: what it says later doesn't count.
    if (part.source == schema::CompletionSource::kGpuKernel && source != part.source) return;
    if (part.completion_ns == 0) ++open.completed;
    part.completion_ns = event.end_ns;
    part.source = source;
    if (source == schema::CompletionSource::kGpuKernel) {
      part.kernel_begin_ns = event.begin_ns;
      part.unfinished = false;
    }
    EnqueueIfFinished(found->second.slot);
  }

  void AddEviction(const Event& event) {
    auto& parts = parts_[event.rank_index];
    const auto found = parts.find(event.op_id);
    if (found == parts.end()) return;
    Participant& part = operations_[found->second.slot].op.participants[found->second.part];
    if (part.completion_ns == 0) part.unfinished = true;
  }

  uint32_t ExpectedParts(const OperationKey& key) const {
    if (key.operation_class == OperationClass::kPointToPoint) return 2;
    return static_cast<uint32_t>(communicators_[key.comm].members.size());
  }

  void AddPart(uint32_t rank_index, const OperationKey& key, const Participant& part, uint64_t op_id) {
    auto [place, is_new] = open_.try_emplace(key, 0);
    if (is_new) {
      if (WasClosed(key)) {
        open_.erase(place);
        ++stats_.late_parts;
        return;
      }
      place->second = TakeOperation(key);
    }
    const uint32_t slot = place->second;
    OpenOperation& open = operations_[slot];
    // One bit a member and, for point-to-point, side: a send to oneself has both.
    const size_t bit = IsPointToPoint(part.func) ? (part.func & 1u) : part.member;
    if (bit >= open.seen.size()) open.seen.resize(bit + 1);
    if (open.seen[bit]) {
      ++stats_.repeated_parts;
      return;
    }
    open.seen[bit] = true;
    if (open.op.participants.empty()) {
      open.op.bytes = part.bytes();
      open.op.dtype = part.dtype;
      open.op.algo = part.algo;
      open.op.proto = part.proto;
      open.op.root = part.root;
    } else {
      ComparePart(part, &open.op);
    }
    open.op.participants.push_back(part);
    EarlyCompletion early;
    if (early_[rank_index].Take(op_id, &early)) {
      open.op.participants.back().completion_ns = early.end_ns;
      open.op.participants.back().source = early.source;
      ++open.completed;
    }
    open.op_ids.push_back(op_id);
    if (op_id != 0) {
      parts_[rank_index][op_id] = {slot, static_cast<uint32_t>(open.op.participants.size() - 1)};
    }
    ++open_parts_;
    stats_.open_participants_peak = std::max(stats_.open_participants_peak, open_parts_);
    if (open.op.participants.size() == open.op.expected && open.completed < open.op.expected) {
      arrived_.push_back({slot, open.generation, now_ns_ + options_.linger_unfinished_ns});
    }
    EnqueueIfFinished(slot);
    while (open_parts_ > options_.open_participants && !order_.empty()) CloseOldest();
  }

  bool WasClosed(const OperationKey& key) {
    if (key.operation_class == OperationClass::kPointToPoint) return false;
    const Closed& closed = closed_[key.comm][static_cast<size_t>(key.operation_class)][key.func];
    if (!closed.any) return false;
    return key.number < closed.number || (key.number == closed.number && key.repeat <= closed.repeat);
  }

  uint32_t TakeOperation(const OperationKey& key) {
    uint32_t slot;
    if (free_.empty()) {
      slot = static_cast<uint32_t>(operations_.size());
      operations_.emplace_back();
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    OpenOperation& open = operations_[slot];
    ++open.generation;
    open.in_use = true;
    open.completed = 0;
    open.op_ids.clear();
    open.seen.clear();
    std::vector<Participant> participants = std::move(open.op.participants);
    std::vector<uint32_t> missing = std::move(open.op.missing);
    participants.clear();
    missing.clear();
    open.op = MatchedOperation{};
    open.op.key = key;
    open.op.expected = ExpectedParts(key);
    open.op.participants = std::move(participants);
    open.op.missing = std::move(missing);
    order_.push_back({slot, open.generation, 0});
    return slot;
  }

  void EnqueueIfFinished(uint32_t slot) {
    const OpenOperation& open = operations_[slot];
    if (open.op.participants.size() < open.op.expected || open.completed < open.op.expected) return;
    finished_.push_back({slot, open.generation, now_ns_ + options_.linger_ns});
  }

  void CloseDue() {
    since_close_ = 0;
    for (auto* queue : {&finished_, &arrived_}) {
      // Times come from files: they may stand still, the queues may not grow for it.
      while (!queue->empty() && (queue->front().due_ns <= now_ns_ || queue->size() > options_.open_participants)) {
        const QueueEntry entry = queue->front();
        queue->pop_front();
        if (Holds(entry)) Close(entry.slot);
      }
    }
    while (!order_.empty() && !Holds(order_.front())) order_.pop_front();
    // An operation that waits for a rank holds those behind it in this queue, though they are closed.
    while (order_.size() > 4 * options_.open_participants) CloseOldest();
  }

  void CloseOldest() {
    // Finished operations only wait for a rare second completion: they go first.
    while (!finished_.empty() && open_parts_ > options_.open_participants) {
      const QueueEntry entry = finished_.front();
      finished_.pop_front();
      if (!Holds(entry)) continue;
      Close(entry.slot);
      return;
    }
    while (!order_.empty()) {
      const QueueEntry entry = order_.front();
      order_.pop_front();
      if (!Holds(entry)) continue;
      const MatchedOperation& op = operations_[entry.slot].op;
      if (op.participants.size() < op.expected) ++stats_.closed_early;
      Close(entry.slot);
      return;
    }
  }

  void Close(uint32_t slot) {
    OpenOperation& open = operations_[slot];
    MatchedOperation& op = open.op;
    for (size_t i = 0; i < op.participants.size(); ++i) {
      if (open.op_ids[i] == 0) continue;
      parts_[communicators_[op.key.comm].members[op.participants[i].member].rank_index].erase(open.op_ids[i]);
    }
    open_.erase(op.key);
    if (op.key.operation_class != OperationClass::kPointToPoint) {
      Closed& closed = closed_[op.key.comm][static_cast<size_t>(op.key.operation_class)][op.key.func];
      if (!closed.any || op.key.number > closed.number ||
          (op.key.number == closed.number && op.key.repeat > closed.repeat)) {
        closed = {op.key.number, op.key.repeat, true};
      }
    }
    open_parts_ -= op.participants.size();
    MeasureOperation(communicators_[op.key.comm], &seen_, &op);
    sink_->OnOperation(op);
    open.in_use = false;
    free_.push_back(slot);
  }

  const Communicators& communicators_;
  const MatcherOptions options_;
  OperationSink* const sink_;
  MatcherStats stats_;

  std::vector<RankState> rank_states_;
  std::vector<absl::flat_hash_map<uint64_t, PartPlace>> parts_;  // by rank: op_id -> its part
  std::vector<WaitingCalls> calls_;                              // by rank: calls without a launch
  std::vector<absl::flat_hash_set<uint64_t>> unfinished_;        // by rank: op_ids
  std::vector<EarlyCompletions> early_;                          // by rank: completions without their launch
  std::vector<std::array<std::array<Closed, schema::kFunctionLimit>, 4>> closed_;  // by communicator and class
  absl::flat_hash_map<OperationKey, uint32_t> open_;
  std::deque<OpenOperation> operations_;
  std::vector<uint32_t> free_;
  std::deque<QueueEntry> order_, finished_, arrived_;
  std::vector<bool> seen_;
  size_t open_parts_ = 0;
  int64_t now_ns_ = 0;
  uint32_t since_close_ = 0;
};

OperationMatcher::OperationMatcher(const std::vector<RankInfo>& ranks, const Communicators& communicators,
                                   const MatcherOptions& options, OperationSink* sink)
    : state_(std::make_unique<State>(ranks, communicators, options, sink)) {}
OperationMatcher::~OperationMatcher() = default;
void OperationMatcher::Add(const Event& event) { state_->Add(event); }
void OperationMatcher::Finish() { state_->Finish(); }
const MatcherStats& OperationMatcher::stats() const { return state_->stats(); }

}  // namespace rankscope::answers
