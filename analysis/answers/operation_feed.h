// From a recording's events to matched operations: the matcher, and where the GPU was recorded the joiner, whose
// kernels tell the matcher when an operation ran.
//
// For whoever reads a recording's operations: the report and alignment/. Events go in by the order of their end, in
// one thread; operations come out through the sink. Must never: read events itself.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_OPERATION_FEED_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_OPERATION_FEED_H_

#include <vector>

#include "analysis/answers/communicators.h"
#include "analysis/answers/kernel_join.h"
#include "analysis/answers/operations.h"
#include "analysis/model.h"

namespace rankscope::answers {

// The kinds of which the recorder wrote at least one record: what is not there need not be asked for.
analysis::KindMask RecordedKinds(const std::vector<analysis::RankInfo>& ranks);

class OperationFeed {
 public:
  // All must outlive the feed.
  OperationFeed(const std::vector<analysis::RankInfo>& ranks, const Communicators& communicators,
                const MatcherOptions& options, OperationSink* sink);
  OperationFeed(const OperationFeed&) = delete;
  OperationFeed& operator=(const OperationFeed&) = delete;

  // What to ask the recording for.
  analysis::KindMask Kinds() const;
  void Add(const analysis::Event& event) {
    matcher_.Add(event);
    if (joins_) joiner_.Add(event);
  }
  // Closes what is open. Nothing may be added afterwards.
  JoinStats Finish();
  const MatcherStats& stats() const { return matcher_.stats(); }

 private:
  const bool joins_;
  OperationMatcher matcher_;
  KernelJoiner joiner_;
};

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_OPERATION_FEED_H_
