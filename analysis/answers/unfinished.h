// What was under way on each rank: the operations in the in-flight tables, and those that lost their place there.
//
// Three states and never fewer: finished, unfinished, not observable. An operation without any network or kernel
// event is not observable: that is neither finished nor hung. Used by the report and by the hang analysis; reads
// nothing.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_UNFINISHED_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_UNFINISHED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/answers/communicators.h"
#include "analysis/model.h"

namespace rankscope::answers {

enum class OperationProgress : uint8_t {
  kNotAnOperation,  // another event's slot, or a call captured into a graph
  kFinished,
  kUnfinished,
  kNotObservable,
};
OperationProgress ProgressOf(const analysis::InFlightInfo& slot);

enum class UnfinishedState : uint8_t {
  kCallOpen,     // the host is inside the NCCL call
  kNetworkOpen,  // launched; network (or kernel) events of it have not stopped
  kEvicted,      // it was unfinished when its place in the in-flight table was needed
};
const char* UnfinishedStateName(UnfinishedState state);  // "call_open"

struct UnfinishedOperation {
  uint32_t rank_index = 0;
  uint32_t comm = kNoCommunicator;
  uint32_t member = 0;
  UnfinishedState state = UnfinishedState::kCallOpen;
  bool launched = false;  // false: only the API call was seen
  bool point_to_point = false;
  bool copy_engine = false;
  bool replayed = false;
  uint8_t func = 0, dtype = 0, algo = 0, proto = 0;
  uint32_t seq = 0;      // NCCL's; only for launched collectives
  uint32_t ordinal = 0;  // of the launch; of the call where only that was seen
  int32_t root_or_peer = -1;
  uint64_t count = 0, bytes = 0, op_id = 0;
  int64_t issue_ns = 0, begin_ns = 0, last_progress_ns = 0;
  uint32_t children_started = 0, children_stopped = 0;
  uint32_t thread_id = 0;
  int64_t age_ns = 0;  // from its first sight to the reading of the ring; 0 unknown
};

// An operation's slot in the words of this file, whatever its progress.
UnfinishedOperation DescribeSlot(uint32_t rank_index, const analysis::InFlightInfo& slot,
                                 const std::vector<analysis::RankInfo>& ranks, const Communicators& communicators);
// Those of the in-flight tables, by rank and time.
std::vector<UnfinishedOperation> CollectUnfinished(const std::vector<analysis::RankInfo>& ranks,
                                                   const Communicators& communicators);
// One from an OpEvicted event.
UnfinishedOperation FromEviction(const analysis::Event& event, const std::vector<analysis::RankInfo>& ranks,
                                 const Communicators& communicators);

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_UNFINISHED_H_
