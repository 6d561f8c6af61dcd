// See operation_measure.h.
#include "analysis/answers/operation_measure.h"

#include <algorithm>

namespace rankscope::answers {

namespace {

bool IsRooted(uint8_t func) {
  switch (static_cast<schema::Function>(func)) {
    case schema::Function::kBroadcast:
    case schema::Function::kReduce:
    case schema::Function::kGather:
    case schema::Function::kScatter:
      return true;
    default:
      return false;
  }
}

void FindMissing(const Communicator& comm, std::vector<bool>* seen, MatchedOperation* op) {
  seen->assign(comm.members.size(), false);
  if (op->key.operation_class == OperationClass::kPointToPoint) {
    const bool sender_seen = op->participants[0].func == static_cast<uint8_t>(schema::Function::kSend);
    const int32_t absent = sender_seen ? op->key.receiver : op->key.sender;
    for (uint32_t m = 0; m < comm.members.size(); ++m) {
      if (comm.members[m].comm_rank != absent) continue;
      op->missing.push_back(m);
      return;
    }
    return;
  }
  for (const Participant& part : op->participants) (*seen)[part.member] = true;
  for (uint32_t m = 0; m < seen->size(); ++m) {
    if (!(*seen)[m]) op->missing.push_back(m);
  }
}

}  // namespace

void ComparePart(const Participant& part, MatchedOperation* op) {
  if (part.bytes() != op->bytes) op->mismatches |= kMismatchBytes;
  if (part.dtype != op->dtype) op->mismatches |= kMismatchType;
  if (IsRooted(op->key.func) && part.root != op->root) op->mismatches |= kMismatchRoot;
}

void MeasureOperation(const Communicator& comm, std::vector<bool>* scratch, MatchedOperation* op) {
  op->complete = op->participants.size() >= op->expected;
  if (!op->complete) FindMissing(comm, scratch, op);
  // On the GPU a part arrives when its kernel begins: the host may run far ahead of it. All or none, for the two
  // don't compare.
  op->gpu_times = op->complete && !op->participants.empty() &&
                  std::all_of(op->participants.begin(), op->participants.end(),
                              [](const Participant& part) { return part.kernel_begin_ns != 0; });
  if (op->gpu_times) {
    for (Participant& part : op->participants) part.arrival_ns = part.kernel_begin_ns;
  }
  bool unfinished = false, uncertain = false, same_ordinals = true;
  op->first_arrival_ns = INT64_MAX;
  op->last_arrival_ns = INT64_MIN;
  int64_t second_last_ns = INT64_MIN;
  for (uint32_t i = 0; i < op->participants.size(); ++i) {
    const Participant& part = op->participants[i];
    op->first_of_comm |= (part.flags & schema::kFlagFirstOfComm) != 0;
    op->replayed |= (part.flags & schema::kFlagGraphReplay) != 0;
    unfinished |= part.unfinished;
    uncertain |= part.uncertain_key;
    same_ordinals &= part.ordinal == op->participants[0].ordinal;
    op->first_arrival_ns = std::min(op->first_arrival_ns, part.arrival_ns);
    if (part.arrival_ns > op->last_arrival_ns) {
      second_last_ns = op->last_arrival_ns;
      op->last_arrival_ns = part.arrival_ns;
      op->last = i;
    } else {
      second_last_ns = std::max(second_last_ns, part.arrival_ns);
    }
    if (part.completion_ns != 0) ++op->completions;
    op->end_ns = std::max(op->end_ns, part.completion_ns);
  }
  op->second_last_arrival_ns = second_last_ns == INT64_MIN ? op->last_arrival_ns : second_last_ns;
  op->uncertain = uncertain && !same_ordinals;
  op->skew_ns = op->last_arrival_ns - op->first_arrival_ns;
  if (unfinished || !op->complete) op->end_ns = 0;
  // A rank without a recording may have been the last one.
  const bool everyone = op->key.operation_class == OperationClass::kPointToPoint || comm.missing_comm_ranks.empty();
  if (op->end_ns == 0 || !everyone) return;
  op->transfer_ns = op->end_ns - op->last_arrival_ns;
  op->bandwidth = BandwidthOf(op->key.func, op->bytes, comm.size, op->transfer_ns);
}

}  // namespace rankscope::answers
