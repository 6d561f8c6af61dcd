// Who waited for whom in an operation, and a queue that brings such operations into the order of time: operations are
// closed when they are complete, not when they happened.
//
// Used by the skew collector. Bounded: when too many parts are queued, the earliest operation goes.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_WAIT_QUEUE_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_WAIT_QUEUE_H_

#include <cstdint>
#include <vector>

#include "analysis/answers/operations.h"

namespace rankscope::answers {

struct OperationWaits {
  struct Part {
    uint32_t rank_index = 0;
    bool waits = false;  // certainly, for the cause
    int64_t arrival_ns = 0;
  };
  uint32_t comm = 0;
  uint32_t cause_member = 0;
  uint32_t cause_rank_index = 0;
  bool charged = true;  // false: only its time counts (a communicator's first operation)
  int64_t cause_arrival_ns = 0;
  int64_t end_ns = 0;  // 0 unknown
  std::vector<Part> parts;
};

// Only a fully synchronising function makes everybody wait for everybody: in Broadcast and Scatter the others wait
// for the root, in Reduce and Gather the root waits for the others. `operation` is complete and has two participants
// or more.
OperationWaits WaitsOf(const MatchedOperation& operation, const Communicator& comm);

class WaitQueue {
 public:
  explicit WaitQueue(size_t most_parts) : most_parts_(most_parts) {}
  void Push(OperationWaits waits);
  // Takes the earliest off if the queue is full, or in any case if `drain`. False = nothing to take.
  bool Pop(bool drain, OperationWaits* waits);

 private:
  const size_t most_parts_;
  size_t parts_ = 0;
  std::vector<OperationWaits> heap_;  // the earliest in front
};

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_WAIT_QUEUE_H_
