// See unfinished.h.
#include "analysis/answers/unfinished.h"

#include <algorithm>

#include "analysis/answers/names.h"

namespace rankscope::answers {

using analysis::InFlightInfo;
using analysis::RankInfo;
using schema::EventKind;

OperationProgress ProgressOf(const InFlightInfo& slot) {
  if ((slot.state & schema::kSlotIsOperation) == 0) return OperationProgress::kNotAnOperation;
  if ((slot.flags & schema::kFlagGraphCaptured) != 0) return OperationProgress::kNotAnOperation;
  if ((slot.state & (schema::kSlotOpen | schema::kSlotApiOpen)) != 0) return OperationProgress::kUnfinished;
  if ((slot.state & schema::kSlotIssued) == 0) return OperationProgress::kNotObservable;
  if (slot.children_started > slot.children_stopped) return OperationProgress::kUnfinished;
  if (slot.children_started == 0 || (slot.flags & schema::kFlagTrackingLost) != 0) {
    return OperationProgress::kNotObservable;
  }
  return OperationProgress::kFinished;
}

const char* UnfinishedStateName(UnfinishedState state) {
  switch (state) {
    case UnfinishedState::kCallOpen:
      return "call_open";
    case UnfinishedState::kNetworkOpen:
      return "network_open";
    case UnfinishedState::kEvicted:
      return "evicted";
  }
  return "unknown";
}

namespace {

void Locate(uint32_t rank_index, uint16_t comm_slot, const Communicators& communicators, UnfinishedOperation* op) {
  op->rank_index = rank_index;
  if (comm_slot == schema::kCommUnknown) return;
  op->comm = communicators.Find(rank_index, comm_slot);
  op->member = communicators.MemberOf(rank_index, comm_slot);
}

void Measure(const std::vector<RankInfo>& ranks, UnfinishedOperation* op) {
  op->bytes = op->count * schema::DataTypeBytes(static_cast<schema::DataType>(op->dtype));
  op->point_to_point = IsPointToPoint(op->func);
  const int64_t read_ns = ranks[op->rank_index].read_ns;
  if (read_ns != 0 && op->issue_ns != 0) op->age_ns = std::max<int64_t>(0, read_ns - op->issue_ns);
}

}  // namespace

UnfinishedOperation DescribeSlot(uint32_t rank_index, const InFlightInfo& slot, const std::vector<RankInfo>& ranks,
                                 const Communicators& communicators) {
  UnfinishedOperation op;
  Locate(rank_index, slot.comm, communicators, &op);
  const bool host_open = (slot.state & (schema::kSlotOpen | schema::kSlotApiOpen)) != 0;
  op.state = host_open ? UnfinishedState::kCallOpen : UnfinishedState::kNetworkOpen;
  op.launched = (slot.state & schema::kSlotIssued) != 0;
  op.copy_engine = slot.kind == static_cast<uint16_t>(EventKind::kCeColl);
  op.replayed = (slot.flags & schema::kFlagGraphReplay) != 0;
  op.func = slot.func;
  op.dtype = slot.dtype;
  op.algo = op.launched ? slot.algo : uint8_t{0};
  op.proto = op.launched ? slot.proto : uint8_t{0};
  op.seq = op.launched ? slot.seq : 0;
  op.ordinal = slot.ordinal;
  op.root_or_peer = slot.root_or_peer;
  op.count = slot.count;
  op.op_id = slot.op_id;
  op.issue_ns = slot.issue_ns;
  op.begin_ns = slot.begin_ns;
  op.last_progress_ns = slot.last_progress_ns;
  op.children_started = slot.children_started;
  op.children_stopped = slot.children_stopped;
  op.thread_id = slot.thread_id;
  Measure(ranks, &op);
  return op;
}

std::vector<UnfinishedOperation> CollectUnfinished(const std::vector<RankInfo>& ranks,
                                                   const Communicators& communicators) {
  std::vector<UnfinishedOperation> list;
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    const size_t first = list.size();
    for (const InFlightInfo& slot : ranks[r].in_flight) {
      if (ProgressOf(slot) != OperationProgress::kUnfinished) continue;
      list.push_back(DescribeSlot(r, slot, ranks, communicators));
    }
    std::stable_sort(list.begin() + static_cast<std::ptrdiff_t>(first), list.end(),
                     [](const auto& a, const auto& b) { return a.issue_ns < b.issue_ns; });
  }
  return list;
}

UnfinishedOperation FromEviction(const analysis::Event& event, const std::vector<RankInfo>& ranks,
                                 const Communicators& communicators) {
  UnfinishedOperation op;
  Locate(event.rank_index, event.comm, communicators, &op);
  op.state = UnfinishedState::kEvicted;
  op.replayed = (event.flags & schema::kFlagGraphReplay) != 0;
  const schema::CollPayload& coll = event.payload.coll;
  op.func = coll.func;
  op.dtype = coll.dtype;
  // The record does not say whether the slot held a launch or only its call; a launch has its channels in aux.
  op.launched = event.aux != 0;
  if (op.launched) {
    op.algo = coll.algo;
    op.proto = coll.proto;
    op.seq = coll.seq;
  }
  op.ordinal = coll.ordinal;
  op.root_or_peer = coll.root;
  op.count = coll.count;
  op.op_id = event.op_id;
  op.issue_ns = op.begin_ns = event.begin_ns;
  Measure(ranks, &op);
  return op;
}

}  // namespace rankscope::answers
