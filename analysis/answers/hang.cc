// See hang.h.
#include "analysis/answers/hang.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "analysis/answers/hang_disagreement.h"
#include "analysis/answers/names.h"
#include "analysis/answers/operation_measure.h"

namespace rankscope::answers {

using analysis::CommInfo;
using analysis::Event;
using analysis::RankInfo;
using schema::EventKind;

namespace {

struct KeyLess {
  bool operator()(const OperationKey& a, const OperationKey& b) const {
    return std::tie(a.operation_class, a.func, a.number, a.repeat, a.sender, a.receiver) <
           std::tie(b.operation_class, b.func, b.number, b.repeat, b.sender, b.receiver);
  }
};

// One rank's part, from a slot or an eviction.
struct Entry {
  UnfinishedOperation op;
  OperationProgress progress = OperationProgress::kUnfinished;
  uint32_t api_ordinal = schema::kOrdinalUnknown;
};

// One direction of a pair of ranks, as one of the two sides has counted it.
struct Side {
  uint32_t comm = 0;
  int32_t sender = 0, receiver = 0;
  bool sends = false;
  bool operator==(const Side& o) const {
    return comm == o.comm && sender == o.sender && receiver == o.receiver && sends == o.sends;
  }
  template <typename H>
  friend H AbslHashValue(H h, const Side& s) {
    return H::combine(std::move(h), s.comm, s.sender, s.receiver, s.sends);
  }
};

bool IsSend(uint8_t func) { return func == static_cast<uint8_t>(schema::Function::kSend); }

RankState StateOf(const RankInfo& rank) {
  if (rank.alive) return RankState::kAlive;
  return rank.closed ? RankState::kSaidGoodbye : RankState::kGone;
}

}  // namespace

class HangCollector::State {
 public:
  State(const std::vector<RankInfo>& ranks, const Communicators& communicators, const HangOptions& options)
      : ranks_(ranks), communicators_(communicators), options_(options), entries_(communicators.all().size()) {}

  void Add(const Event& event) {
    if (event.rank_index >= ranks_.size()) return;
    if (event.kind == static_cast<uint16_t>(EventKind::kP2p)) {
      const schema::P2pPayload& p2p = event.payload.p2p;
      NotePeer(event.rank_index, event.comm, p2p.func, p2p.peer, p2p.ordinal);
    } else if (event.kind == static_cast<uint16_t>(EventKind::kOpEvicted)) {
      Entry entry;
      entry.op = FromEviction(event, ranks_, communicators_);
      AddEntry(std::move(entry));
    }
  }

  HangReport Finish() {
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      for (const auto& slot : ranks_[r].in_flight) {
        if (slot.kind == static_cast<uint16_t>(EventKind::kP2p)) {
          NotePeer(r, slot.comm, slot.func, slot.root_or_peer, slot.ordinal);
        }
      }
    }
    FindSlowest();
    for (const bool unfinished : {true, false}) {
      for (uint32_t r = 0; r < ranks_.size(); ++r) {
        for (const auto& slot : ranks_[r].in_flight) AddSlot(r, slot, unfinished);
      }
    }
    HangReport report;
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      report.ranks.push_back(
          {r, StateOf(ranks_[r]), ranks_[r].last_event_ns, ranks_[r].read_ns, ranks_[r].pid, ranks_[r].host});
      report.job_ranks.push_back(ranks_[r].rank);
    }
    for (const Communicator& comm : communicators_.all()) {
      HangCommunicator found = Conclude(comm);
      if (found.operations.empty() && found.progress.empty()) continue;
      report.communicators.push_back(std::move(found));
    }
    report.verdict = VerdictOf(report.communicators);
    report.notes = communicators_.notes();
    report.rank_names = RankNames(ranks_);
    report.all_communicators = communicators_;
    return report;
  }

 private:
  const CommInfo& InfoOf(const Member& member) const { return ranks_[member.rank_index].comms[member.comm_index]; }

  void NotePeer(uint32_t rank_index, uint16_t slot, uint8_t func, int32_t peer, uint32_t ordinal) {
    const uint32_t comm = slot == schema::kCommUnknown ? kNoCommunicator : communicators_.Find(rank_index, slot);
    if (comm == kNoCommunicator || !IsPointToPoint(func) || ordinal == schema::kOrdinalUnknown) return;
    const Communicator& communicator = communicators_[comm];
    const int32_t own = communicator.members[communicators_.MemberOf(rank_index, slot)].comm_rank;
    const bool sends = IsSend(func);
    uint64_t& done = done_[{comm, sends ? own : peer, sends ? peer : own, sends}];
    done = std::max(done, uint64_t{ordinal} + 1);
  }

  // Per communicator and function: what every member has reached.
  void FindSlowest() {
    slowest_seq_.resize(communicators_.all().size());
    slowest_api_.resize(communicators_.all().size());
    for (const Communicator& comm : communicators_.all()) {
      slowest_seq_[comm.id].fill(UINT64_MAX);
      slowest_api_[comm.id].fill(UINT64_MAX);
      for (const Member& member : comm.members) {
        const CommInfo& info = InfoOf(member);
        for (size_t f = 0; f < schema::kFunctionLimit; ++f) {
          slowest_seq_[comm.id][f] = std::min(slowest_seq_[comm.id][f], info.last_seq_by_func[f]);
          slowest_api_[comm.id][f] = std::min(slowest_api_[comm.id][f], info.api_by_func[f]);
        }
      }
    }
  }

  // First the unfinished ones; then, of the others, those that somebody may not have reached and those that lie
  // beside an unfinished one. The many that everybody has left behind are not kept.
  void AddSlot(uint32_t rank_index, const analysis::InFlightInfo& slot, bool unfinished) {
    const OperationProgress progress = ProgressOf(slot);
    if (progress == OperationProgress::kNotAnOperation || slot.func >= schema::kFunctionLimit) return;
    if ((progress == OperationProgress::kUnfinished) != unfinished) return;
    Entry entry;
    entry.op = DescribeSlot(rank_index, slot, ranks_, communicators_);
    entry.progress = progress;
    entry.api_ordinal = slot.api_ordinal;
    if (entry.op.comm != kNoCommunicator && !unfinished && !IsNearTheFront(entry)) return;
    AddEntry(std::move(entry));
  }

  bool IsNearTheFront(const Entry& entry) const {
    const uint32_t comm = entry.op.comm;
    const OperationKey key = KeyOf(communicators_[comm], entry);
    switch (key.operation_class) {
      case OperationClass::kPointToPoint: {
        if (waiting_pairs_.contains(key)) return true;
        const auto other = done_.find({comm, key.sender, key.receiver, !IsSend(entry.op.func)});
        return other == done_.end() || other->second <= key.number;
      }
      case OperationClass::kApiOnly:
        return slowest_api_[comm][key.func] <= key.number;
      case OperationClass::kCopyEngine:
        return true;
      default: {
        const auto front = unfinished_from_.find({comm, key.func});
        return slowest_seq_[comm][key.func] <= key.number ||
               (front != unfinished_from_.end() && front->second <= key.number);
      }
    }
  }

  void AddEntry(Entry entry) {
    if (entry.op.comm == kNoCommunicator || entry.op.func >= schema::kFunctionLimit) return;
    // A Send or Recv that is only a call names no peer.
    if (entry.op.point_to_point && !entry.op.launched) return;
    if (entry.progress == OperationProgress::kUnfinished) {
      const OperationKey key = KeyOf(communicators_[entry.op.comm], entry);
      if (key.operation_class == OperationClass::kPointToPoint) {
        waiting_pairs_.insert(key);
      } else if (key.operation_class == OperationClass::kCollective) {
        const auto [place, is_new] = unfinished_from_.emplace(std::make_pair(key.comm, key.func), key.number);
        if (!is_new) place->second = std::min(place->second, key.number);
      }
    }
    entries_[entry.op.comm].push_back(std::move(entry));
  }

  OperationKey KeyOf(const Communicator& comm, const Entry& entry) const {
    OperationKey key;
    key.comm = comm.id;
    key.func = entry.op.func;
    key.number = entry.op.ordinal;
    if (entry.op.point_to_point) {
      const int32_t own = comm.members[entry.op.member].comm_rank;
      const bool sends = IsSend(entry.op.func);
      key.operation_class = OperationClass::kPointToPoint;
      key.func = static_cast<uint8_t>(schema::Function::kSendRecv);
      key.sender = sends ? own : entry.op.root_or_peer;
      key.receiver = sends ? entry.op.root_or_peer : own;
    } else if (!entry.op.launched) {
      key.operation_class = OperationClass::kApiOnly;
    } else if (entry.op.copy_engine) {
      key.operation_class = OperationClass::kCopyEngine;
    } else {
      key.number = entry.op.seq;
      // One number again and again is a graph's replay: then the count of launches is what ranks share.
      if (repeated_.count({comm.id, entry.op.func}) > 0) key.repeat = entry.op.ordinal;
    }
    return key;
  }

  void FindRepeats(const Communicator& comm) {
    std::set<std::tuple<uint32_t, uint8_t, uint32_t>> seen;
    for (const Entry& entry : entries_[comm.id]) {
      if (!entry.op.launched || entry.op.point_to_point || entry.op.copy_engine) continue;
      if (!seen.insert({entry.op.member, entry.op.func, entry.op.seq}).second) {
        repeated_.insert({comm.id, entry.op.func});
      }
    }
  }

  HangCommunicator Conclude(const Communicator& comm) {
    HangCommunicator result;
    result.comm = comm.id;
    FindRepeats(comm);
    // A call without launch stands for the operation that others launched with the same ordinal of the call.
    std::map<std::pair<uint8_t, uint32_t>, OperationKey> by_call;
    std::map<OperationKey, uint32_t, KeyLess> call_of;
    for (const Entry& entry : entries_[comm.id]) {
      if (!entry.op.launched || entry.op.point_to_point || entry.api_ordinal == schema::kOrdinalUnknown) continue;
      const OperationKey key = KeyOf(comm, entry);
      by_call.emplace(std::make_pair(entry.op.func, entry.api_ordinal), key);
      call_of.emplace(key, entry.api_ordinal);
    }
    std::map<OperationKey, std::vector<const Entry*>, KeyLess> operations;
    for (const Entry& entry : entries_[comm.id]) {
      OperationKey key = KeyOf(comm, entry);
      if (key.operation_class == OperationClass::kApiOnly) {
        const auto launched = by_call.find({entry.op.func, entry.op.ordinal});
        if (launched != by_call.end()) key = launched->second;
      }
      operations[key].push_back(&entry);
    }
    for (const auto& [key, parts] : operations) {
      if (!MayWait(key, parts)) continue;
      const auto call = call_of.find(key);
      WaitingOperation op =
          Describe(comm, key, parts, call != call_of.end() ? call->second : schema::kOrdinalUnknown);
      if (Waits(op)) result.operations.push_back(std::move(op));
    }
    std::stable_sort(
        result.operations.begin(), result.operations.end(),
        [](const WaitingOperation& a, const WaitingOperation& b) { return a.first_arrival_ns < b.first_arrival_ns; });
    if (result.operations.size() > options_.operations_per_communicator) {
      result.operations_left_out = result.operations.size() - options_.operations_per_communicator;
      result.operations.resize(options_.operations_per_communicator);
    }
    result.disagreements = FindDisagreements(comm, ranks_, result.operations);
    // In a live job counters differ all the time; in one that is over they should not.
    const bool over = std::none_of(comm.members.begin(), comm.members.end(),
                                   [&](const Member& member) { return ranks_[member.rank_index].alive; });
    if (!result.operations.empty() || over) result.progress = CompareCounters(comm, ranks_);
    return result;
  }

  // Cheap: is this operation worth a closer look?
  bool MayWait(const OperationKey& key, const std::vector<const Entry*>& parts) const {
    for (const Entry* part : parts) {
      if (part->progress == OperationProgress::kUnfinished) return true;
      if (part->progress == OperationProgress::kFinished) continue;
      switch (key.operation_class) {
        case OperationClass::kCollective:
          if (slowest_seq_[key.comm][key.func] <= key.number) return true;
          break;
        case OperationClass::kApiOnly:
          if (slowest_api_[key.comm][key.func] <= key.number) return true;
          break;
        default:
          return true;
      }
    }
    return false;
  }

  WaitingOperation Describe(const Communicator& comm, const OperationKey& key, const std::vector<const Entry*>& parts,
                            uint32_t call_ordinal) const {
    WaitingOperation op;
    op.key = key;
    std::vector<bool> seen(comm.members.size(), false);
    MatchedOperation compared;
    compared.key = key;
    for (const Entry* part : parts) AddPart(*part, &seen, &compared, &op);
    op.mismatches = compared.mismatches;
    if (key.operation_class == OperationClass::kPointToPoint) {
      PlacePeer(comm, seen, &op);
    } else {
      op.without_ring = comm.missing_comm_ranks;
      for (uint32_t m = 0; m < comm.members.size(); ++m) {
        if (!seen[m]) Place(comm, m, call_ordinal, &op);
      }
    }
    return op;
  }

  static void AddPart(const Entry& entry, std::vector<bool>* seen, MatchedOperation* compared, WaitingOperation* op) {
    const UnfinishedOperation& from = entry.op;
    (*seen)[from.member] = true;
    Participant participant;
    participant.count = from.count;
    participant.dtype = from.dtype;
    participant.root = from.root_or_peer;
    // A call's count and type are the user's, a launch's are NCCL's: they are not compared with each other.
    const bool comparable = from.launched || op->key.operation_class == OperationClass::kApiOnly;
    if (comparable && compared->expected != 0) {
      ComparePart(participant, compared);
    } else if (comparable || op->count == 0) {
      op->count = from.count;
      op->bytes = compared->bytes = from.bytes;
      op->dtype = compared->dtype = from.dtype;
      op->root = compared->root = from.root_or_peer;
      compared->expected = comparable ? 1 : 0;  // 1 = there is something to compare with
    }
    if (op->algo == 0) op->algo = from.algo;
    if (op->proto == 0) op->proto = from.proto;
    if (op->first_arrival_ns == 0 || from.begin_ns < op->first_arrival_ns) op->first_arrival_ns = from.begin_ns;
    if (entry.progress == OperationProgress::kFinished) {
      op->finished.push_back(from.member);
      return;
    }
    WaitingPart part;
    part.member = from.member;
    part.rank_index = from.rank_index;
    part.progress = entry.progress;
    part.call_open = from.state == UnfinishedState::kCallOpen && entry.progress == OperationProgress::kUnfinished;
    part.evicted = from.state == UnfinishedState::kEvicted;
    part.arrival_ns = from.begin_ns;
    part.age_ns = from.age_ns;
    part.last_progress_ns = from.last_progress_ns;
    part.children_started = from.children_started;
    part.children_stopped = from.children_stopped;
    part.count = from.count;
    part.bytes = from.bytes;
    part.dtype = from.dtype;
    part.root = from.root_or_peer;
    op->longest_age_ns = std::max(op->longest_age_ns, part.age_ns);
    op->in_it.push_back(part);
  }

  // A member of which no slot shows the operation: the counters say whether it came to it.
  void Place(const Communicator& comm, uint32_t m, uint32_t call_ordinal, WaitingOperation* op) const {
    const CommInfo& info = InfoOf(comm.members[m]);
    const size_t f = op->key.func;
    bool reached = false;
    switch (op->key.operation_class) {
      case OperationClass::kApiOnly:
        reached = info.api_by_func[f] > op->key.number;
        break;
      case OperationClass::kCopyEngine:
        reached = info.launched_by_func[f] > op->key.number;
        break;
      default:
        reached = info.last_seq_by_func[f] > op->key.number &&
                  (op->key.repeat == 0 || info.launched_by_func[f] > op->key.repeat);
        break;
    }
    if (reached) {
      op->passed.push_back(m);
    } else if (op->key.operation_class != OperationClass::kApiOnly && call_ordinal != schema::kOrdinalUnknown &&
               info.api_by_func[f] > call_ordinal) {
      op->not_known.push_back(m);  // it made the call, and neither slot nor launch tells more
    } else {
      op->not_reached.push_back(m);
    }
  }

  void PlacePeer(const Communicator& comm, const std::vector<bool>& seen, WaitingOperation* op) const {
    for (const bool sends : {true, false}) {
      const int32_t comm_rank = sends ? op->key.sender : op->key.receiver;
      uint32_t m = 0;
      while (m < comm.members.size() && comm.members[m].comm_rank != comm_rank) ++m;
      if (m == comm.members.size()) {
        op->without_ring.push_back(comm_rank);
        continue;
      }
      if (seen[m]) continue;
      const auto done = done_.find({comm.id, op->key.sender, op->key.receiver, sends});
      if (done != done_.end()) {
        (done->second > op->key.number ? op->passed : op->not_reached).push_back(m);
      } else {
        // Nothing of this pair: it never came to it, unless the records that said so are gone.
        (LostPointToPoint(comm.members[m].rank_index) ? op->not_known : op->not_reached).push_back(m);
      }
    }
  }

  bool LostPointToPoint(uint32_t rank_index) const {
    for (const auto& kind : ranks_[rank_index].kinds) {
      if (kind.kind == static_cast<uint16_t>(EventKind::kP2p)) return kind.overwritten + kind.dropped > 0;
    }
    return false;
  }

  bool Waits(const WaitingOperation& op) const {
    if (op.in_it.empty()) return false;
    const bool somebody_behind = !op.not_reached.empty() || !op.without_ring.empty();
    bool unfinished = false, all_alive = true;
    for (const WaitingPart& part : op.in_it) {
      unfinished |= part.progress == OperationProgress::kUnfinished;
      all_alive &= ranks_[part.rank_index].alive;
    }
    // Launched everywhere, and whether it ended can't be seen: that is no hang.
    if (!unfinished && (op.not_reached.empty() || op.key.operation_class == OperationClass::kCopyEngine))
      return false;
    if (all_alive && op.longest_age_ns < options_.least_age_ns) return false;
    return unfinished || somebody_behind;
  }

  static HangVerdict VerdictOf(const std::vector<HangCommunicator>& communicators) {
    HangVerdict verdict = HangVerdict::kNothingWaits;
    for (const HangCommunicator& comm : communicators) {
      if (!comm.disagreements.empty()) return HangVerdict::kDisagreement;
      for (const WaitingOperation& op : comm.operations) {
        if (op.mismatches != 0) return HangVerdict::kDisagreement;
        if (!op.not_reached.empty() || !op.without_ring.empty()) {
          verdict = HangVerdict::kRanksMissing;
        } else if (verdict == HangVerdict::kNothingWaits) {
          verdict = HangVerdict::kStuckTogether;
        }
      }
    }
    return verdict;
  }

  const std::vector<RankInfo>& ranks_;
  const Communicators& communicators_;
  const HangOptions options_;
  std::vector<std::vector<Entry>> entries_;   // by communicator
  absl::flat_hash_map<Side, uint64_t> done_;  // 1 + the largest ordinal that a side has shown
  absl::flat_hash_set<OperationKey> waiting_pairs_;
  std::map<std::pair<uint32_t, uint8_t>, uint32_t>
      unfinished_from_;                              // communicator, function -> first unfinished seq
  std::set<std::pair<uint32_t, uint8_t>> repeated_;  // communicator, function
  std::vector<std::array<uint64_t, schema::kFunctionLimit>> slowest_seq_, slowest_api_;
};

analysis::KindMask HangCollector::Kinds() {
  return analysis::MaskOf(EventKind::kP2p) | analysis::MaskOf(EventKind::kOpEvicted);
}

HangCollector::HangCollector(const std::vector<RankInfo>& ranks, const Communicators& communicators,
                             const HangOptions& options)
    : state_(std::make_unique<State>(ranks, communicators, options)) {}
HangCollector::~HangCollector() = default;
void HangCollector::Add(const Event& event) { state_->Add(event); }
HangReport HangCollector::Finish() { return state_->Finish(); }

HangReport BuildHangReport(const analysis::Recording& recording, const HangOptions& options) {
  const Communicators communicators(recording.ranks());
  HangCollector collector(recording.ranks(), communicators, options);
  std::vector<Event> batch(1024);
  std::vector<std::string> warnings = recording.warnings();
  const auto stream = recording.Events(HangCollector::Kinds());
  while (const size_t count = stream->Read(absl::MakeSpan(batch))) {
    for (size_t i = 0; i < count; ++i) collector.Add(batch[i]);
  }
  if (!stream->status().ok()) warnings.push_back(std::string(stream->status().message()));
  HangReport report = collector.Finish();
  report.warnings = std::move(warnings);
  return report;
}

}  // namespace rankscope::answers
