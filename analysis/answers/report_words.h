// Phrases that text and JSON share: labels of operations, the words of verdicts, lists of a communicator's members.
//
// Pure.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_REPORT_WORDS_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_REPORT_WORDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/answers/communicators.h"
#include "analysis/answers/hang.h"
#include "analysis/answers/operations.h"
#include "analysis/answers/ranks.h"
#include "analysis/answers/skew.h"

namespace rankscope::answers {

// "AllReduce #17", "AllReduce #17 (repeat 3)", "Send/Recv 2->3 #5", "Broadcast call #4". Numbers count from 0, as
// NCCL's do.
std::string OperationLabel(const OperationKey& key);
// "67.1 MB, float32, RING SIMPLE"; what is unknown is left out. AllGather and the like: "1.05 MB a rank".
std::string OperationDetail(uint8_t func, uint64_t bytes, uint8_t dtype, uint8_t algo, uint8_t proto);

const char* VerdictKey(SkewVerdict verdict);           // "nobody"
const char* VerdictKey(HangVerdict verdict);           // "ranks_missing"
const char* ClassKey(OperationClass operation_class);  // "collective"
const char* ProgressKey(OperationProgress progress);   // "unfinished"
const char* StateKey(RankState state);                 // "alive"
std::vector<std::string> MismatchKeys(uint8_t mismatches);

// Members by their job ranks ("ranks 0-2"); by communicator ranks where one process has several of them.
std::string MembersText(const RankNames& names, const Communicator& comm, const std::vector<uint32_t>& members);
// "communicator rank 3", "communicator ranks 3-7".
std::string CommRanksText(const std::vector<int32_t>& comm_ranks);

// "is" / "are", "has" / "have".
inline const char* IsOrAre(size_t count) { return count == 1 ? "is" : "are"; }
inline const char* HasOrHave(size_t count) { return count == 1 ? "has" : "have"; }

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_REPORT_WORDS_H_
