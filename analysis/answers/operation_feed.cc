// See operation_feed.h.
#include "analysis/answers/operation_feed.h"

namespace rankscope::answers {

namespace {

using schema::EventKind;

// A kernel may be tied to its operation long after that has ended on the network.
MatcherOptions WithRoomForKernels(bool kernels, MatcherOptions matcher) {
  const JoinOptions join;
  if (!kernels) return matcher;
  matcher.linger_ns += join.hold_ns + join.reorder_ns;
  matcher.linger_unfinished_ns += join.hold_ns + join.reorder_ns;
  return matcher;
}

}  // namespace

analysis::KindMask RecordedKinds(const std::vector<analysis::RankInfo>& ranks) {
  analysis::KindMask there = 0;
  for (const analysis::RankInfo& rank : ranks) {
    for (const analysis::KindCountInfo& kind : rank.kinds) {
      if (kind.kind < schema::kEventKindLimit && kind.committed > 0) there |= analysis::KindMask{1} << kind.kind;
    }
  }
  return there;
}

OperationFeed::OperationFeed(const std::vector<analysis::RankInfo>& ranks, const Communicators& communicators,
                             const MatcherOptions& options, OperationSink* sink)
    : joins_((RecordedKinds(ranks) & analysis::MaskOf(EventKind::kGpuKernel)) != 0),
      matcher_(ranks, communicators, WithRoomForKernels(joins_, options), sink),
      joiner_(ranks, [this](const JoinedKernel& kernel) {
        for (const auto& operation : kernel.operations) matcher_.Add(CompletionOf(kernel, operation));
      }) {}

analysis::KindMask OperationFeed::Kinds() const { return MatcherKinds() | (joins_ ? KernelJoiner::Kinds() : 0); }

JoinStats OperationFeed::Finish() {
  const JoinStats stats = joiner_.Finish();
  matcher_.Finish();
  return stats;
}

}  // namespace rankscope::answers
