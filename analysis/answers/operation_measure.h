// The figures of one operation, once all its parts are known: arrivals, skew, end, transfer, bandwidth, who is
// missing.
//
// Called by the matcher for each operation that it closes. Pure; the scratch space is the caller's.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_OPERATION_MEASURE_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_OPERATION_MEASURE_H_

#include <vector>

#include "analysis/answers/operations.h"

namespace rankscope::answers {

// Notes on what `part` and the operation's first part disagree.
void ComparePart(const Participant& part, MatchedOperation* op);

// Fills the computed fields of an operation with at least one participant.
void MeasureOperation(const Communicator& comm, std::vector<bool>* scratch, MatchedOperation* op);

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_OPERATION_MEASURE_H_
