// See wait_queue.h.
#include "analysis/answers/wait_queue.h"

#include <algorithm>

namespace rankscope::answers {

namespace {

using schema::Function;

bool Later(const OperationWaits& a, const OperationWaits& b) { return a.cause_arrival_ns > b.cause_arrival_ns; }

}  // namespace

OperationWaits WaitsOf(const MatchedOperation& operation, const Communicator& comm) {
  const auto func = static_cast<Function>(operation.key.func);
  const bool others_on_root = func == Function::kBroadcast || func == Function::kScatter;
  const bool root_on_others = func == Function::kReduce || func == Function::kGather;
  uint32_t root = UINT32_MAX;
  for (uint32_t i = 0; i < operation.participants.size(); ++i) {
    if (comm.members[operation.participants[i].member].comm_rank == operation.root) root = i;
  }
  const bool root_known = root != UINT32_MAX;
  const uint32_t cause = others_on_root && root_known ? root : operation.last;
  OperationWaits waits;
  waits.comm = comm.id;
  waits.cause_member = operation.participants[cause].member;
  waits.cause_rank_index = comm.members[waits.cause_member].rank_index;
  waits.cause_arrival_ns = operation.participants[cause].arrival_ns;
  waits.end_ns = operation.end_ns;
  waits.parts.reserve(operation.participants.size());
  for (uint32_t i = 0; i < operation.participants.size(); ++i) {
    const Participant& part = operation.participants[i];
    bool certain = i != cause;
    if (others_on_root) certain &= root_known;
    if (root_on_others) certain &= i == root;
    waits.parts.push_back({comm.members[part.member].rank_index, certain, part.arrival_ns});
  }
  return waits;
}

void WaitQueue::Push(OperationWaits waits) {
  parts_ += waits.parts.size();
  heap_.push_back(std::move(waits));
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

bool WaitQueue::Pop(bool drain, OperationWaits* waits) {
  if (heap_.empty() || (!drain && parts_ <= most_parts_)) return false;
  std::pop_heap(heap_.begin(), heap_.end(), Later);
  *waits = std::move(heap_.back());
  heap_.pop_back();
  parts_ -= waits->parts.size();
  return true;
}

}  // namespace rankscope::answers
