// What everybody was doing when the job hung: per communicator, which ranks are in which operation and which ranks
// have not reached it; and where ranks disagree on what the next operation is.
//
// From the in-flight tables, the counters of the communicators and the records of evicted operations; works the same
// on the rings of a live job, of a killed one, or of one that gave up. Finished, unfinished and not observable stay
// three things.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_HANG_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_HANG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analysis/answers/communicators.h"
#include "analysis/answers/operations.h"
#include "analysis/answers/ranks.h"
#include "analysis/answers/unfinished.h"
#include "analysis/model.h"

namespace rankscope::answers {

struct HangOptions {
  // In a live job an operation is only listed if somebody has been in it for so long: a healthy job always has some
  // under way. (Watchdogs of the field wait 30 s and more; who asks by hand wants to know earlier.)
  int64_t least_age_ns = 1'000'000'000;
  size_t operations_per_communicator = 20;
};

enum class RankState : uint8_t {
  kAlive,        // the process lived when its ring was read
  kGone,         // it is not there any more, and said no goodbye (exit and kill look the same)
  kSaidGoodbye,  // it closed its ring
};

struct HangRank {
  uint32_t rank_index = 0;
  RankState state = RankState::kAlive;
  int64_t last_event_ns = 0, read_ns = 0;
  uint32_t pid = 0;
  std::string host;
};

// One rank in a waiting operation.
struct WaitingPart {
  uint32_t member = 0;
  uint32_t rank_index = 0;
  OperationProgress progress = OperationProgress::kUnfinished;
  bool call_open = false;  // the host is inside the NCCL call
  bool evicted = false;
  int64_t arrival_ns = 0;
  int64_t age_ns = 0;  // at the reading of its ring
  int64_t last_progress_ns = 0;
  uint32_t children_started = 0, children_stopped = 0;
  uint64_t count = 0, bytes = 0;
  uint8_t dtype = 0;
  int32_t root = -1;
};

struct WaitingOperation {
  OperationKey key;  // kApiOnly: number is the ordinal of the call
  uint64_t count = 0, bytes = 0;
  uint8_t dtype = 0, algo = 0, proto = 0;
  int32_t root = -1;
  uint8_t mismatches = 0;  // Mismatch, among `in_it`
  std::vector<WaitingPart> in_it;
  std::vector<uint32_t> finished;  // members on which it ended
  std::vector<uint32_t> passed;  // members that launched it, of which nothing more is known: ended or not observable
  std::vector<uint32_t> not_reached;  // members that have not called it
  std::vector<uint32_t> not_known;    // members of which the rings do not say
  std::vector<int32_t> without_ring;  // communicator ranks that no process of the recording is
  int64_t first_arrival_ns = 0;
  int64_t longest_age_ns = 0;
};

// Two ranks in different operations of one communicator, neither of which the other has reached.
struct KindDisagreement {
  uint32_t operation_a = 0, operation_b = 0;  // positions in HangCommunicator::operations
  std::vector<uint32_t> members_a, members_b;
  int64_t position = -1;  // of launches on the communicator, from 0; -1 = not the same on both
};

// Counters that differ between the ranks of a communicator.
struct FunctionProgress {
  uint8_t func = 0;
  bool by_calls = false;  // counted by API calls, else by launches
  uint64_t most = 0, least = 0;
  std::vector<uint32_t> behind;  // members below `most`
};

struct HangCommunicator {
  uint32_t comm = 0;
  std::vector<WaitingOperation> operations;  // in the order of their first arrival
  uint64_t operations_left_out = 0;
  std::vector<KindDisagreement> disagreements;
  std::vector<FunctionProgress> progress;
};

enum class HangVerdict : uint8_t {
  kNothingWaits,   // nobody is in an operation that others have not reached, nothing is old
  kRanksMissing,   // some rank has not reached what others are in
  kDisagreement,   // ranks disagree on the operation (kind, size, type or root)
  kStuckTogether,  // all ranks are in it, and it does not end
};

struct HangReport {
  HangVerdict verdict = HangVerdict::kNothingWaits;
  std::vector<HangCommunicator> communicators;  // only those with something to say
  std::vector<HangRank> ranks;
  std::vector<std::string> warnings;  // of the recording
  std::vector<std::string> notes;     // what was assumed
  // For the renderers.
  RankNames rank_names;
  Communicators all_communicators;
  std::vector<int32_t> job_ranks;  // by rank_index
};

// Collects what the counters and in-flight tables don't hold, from events in any order, and concludes.
class HangCollector {
 public:
  // Kinds of events that Add looks at.
  static analysis::KindMask Kinds();
  // `ranks` and `communicators` must outlive the collector.
  HangCollector(const std::vector<analysis::RankInfo>& ranks, const Communicators& communicators,
                const HangOptions& options);
  ~HangCollector();
  HangCollector(const HangCollector&) = delete;
  HangCollector& operator=(const HangCollector&) = delete;
  void Add(const analysis::Event& event);
  HangReport Finish();

 private:
  class State;
  std::unique_ptr<State> state_;
};

// Reads the recording's evicted and point-to-point events, once.
HangReport BuildHangReport(const analysis::Recording& recording, const HangOptions& options = {});

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_HANG_H_
