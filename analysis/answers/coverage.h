// What the answers do not rest on: operations that this NCCL never reports, figures that can't be trusted in it,
// events that were lost or overwritten, ranks that are not there. As sentences.
//
// The rules are a table (coverage.cc) with its sources; nothing is guessed from the events.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_COVERAGE_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_COVERAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/answers/communicators.h"
#include "analysis/answers/operations.h"
#include "analysis/model.h"

namespace rankscope::answers {

struct CoverageNote {
  std::string id;  // stable, for programs: "broadcast_api_only"
  std::string text;
};

struct LossTotal {
  uint32_t reason = 0;  // schema::LossReason
  uint64_t count = 0;
  std::vector<uint32_t> rank_indices;
};

struct OverwrittenKind {
  uint16_t kind = 0;  // schema::EventKind
  uint64_t committed = 0, read = 0, overwritten = 0, dropped = 0;
  std::vector<uint32_t> rank_indices;  // with overwritten or dropped ones
};

struct Coverage {
  std::vector<CoverageNote> not_reported;  // operations that NCCL does not report, or reports in part
  std::vector<CoverageNote> not_trusted;   // figures
  std::vector<LossTotal> losses;           // reasons with a count, the largest first
  std::vector<OverwrittenKind> kinds;      // kinds with any event
  uint64_t torn_records = 0;
  bool records_overwritten = false;
};

Coverage DescribeCoverage(const std::vector<analysis::RankInfo>& ranks, const Communicators& communicators,
                          const MatcherStats& matcher);

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_COVERAGE_H_
