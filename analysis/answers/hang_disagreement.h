// Where the ranks of one communicator differ though NCCL demands the same of all: in the order of operations, and in
// how often they launched each function.
//
// Called by the hang analysis with the operations that wait. Pure.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_HANG_DISAGREEMENT_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_HANG_DISAGREEMENT_H_

#include <vector>

#include "analysis/answers/hang.h"

namespace rankscope::answers {

std::vector<KindDisagreement> FindDisagreements(const Communicator& comm,
                                                const std::vector<analysis::RankInfo>& ranks,
                                                const std::vector<WaitingOperation>& operations);

// Functions that members have launched (or, where nothing is ever launched, called) differently often.
std::vector<FunctionProgress> CompareCounters(const Communicator& comm, const std::vector<analysis::RankInfo>& ranks);

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_HANG_DISAGREEMENT_H_
