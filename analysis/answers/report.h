// The whole answer to one recording, as data. report_text.h and report_json.h render it.
//
// BuildReport reads the recording's events once, in memory that does not grow with them. It never fails: what could
// not be read is in `warnings`, which every rendering shows.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_REPORT_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_REPORT_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analysis/answers/communicators.h"
#include "analysis/answers/coverage.h"
#include "analysis/answers/gpu.h"
#include "analysis/answers/hang.h"
#include "analysis/answers/kernel_join.h"
#include "analysis/answers/operations.h"
#include "analysis/answers/phases.h"
#include "analysis/answers/ranks.h"
#include "analysis/answers/skew.h"
#include "analysis/answers/totals.h"
#include "analysis/answers/unfinished.h"
#include "analysis/model.h"

namespace rankscope::answers {

struct ReportOptions {
  MatcherOptions matcher;
  SkewOptions skew;
  HangOptions hang;
  size_t mismatches_kept = 20;
  size_t evicted_kept = 10000;  // unfinished operations from records of eviction
  size_t kernels_kept = 50;     // kinds of GPU kernels, by total time
  size_t ranges_kept = 100;     // kinds of ranges, by total time
  // Called now and then with the number of events read so far; may be empty.
  std::function<void(uint64_t events)> progress;
};

// One function on one communicator on one rank.
struct FunctionCounts {
  // The recorder's counters: the whole life of the communicator.
  uint64_t launched = 0, api_calls = 0;
  uint64_t last_seq = 0;  // 1 + NCCL's last sequence number, 0 = none
  // Seen in the event window.
  uint64_t launched_seen = 0, api_seen = 0, captured_seen = 0, replayed_seen = 0;
  uint64_t completed_seen = 0;  // operations whose end was observed
  uint64_t unfinished = 0;      // of Report::unfinished
  bool any() const {
    return (launched | api_calls | launched_seen | api_seen | captured_seen | completed_seen | unfinished) != 0;
  }
};

struct MemberCounts {
  uint32_t comm = 0, member = 0;
  std::array<FunctionCounts, schema::kFunctionLimit> by_func{};
};

struct MismatchedOperation {
  OperationKey key;
  uint8_t mismatches = 0;
  std::vector<Participant> participants;
};

struct HostSummary {
  std::string host;
  std::vector<uint32_t> rank_indices;
};

// Operations that some ranks' windows do not show, by why.
struct IncompleteCounts {
  uint64_t operations = 0;
  uint64_t not_reached = 0;   // a missing rank had not come to it when its ring was read
  uint64_t not_recorded = 0;  // the rank did it, its record is gone (overwritten or dropped)
};

struct Report {
  // What the job was.
  std::string job, launcher, command;
  std::vector<HostSummary> hosts;
  uint32_t world_size = 0;                // the largest that a process was told; 0 unknown
  std::vector<int32_t> missing_ranks;     // of 0..world_size-1, those without a recording
  std::vector<analysis::RankInfo> ranks;  // without in_flight
  RankNames rank_names;
  Communicators communicators;
  // The event window: first begin to last end of what was read.
  int64_t window_begin_ns = 0, window_end_ns = 0;
  uint64_t events = 0;

  Skew skew;
  std::vector<TotalsRow> totals;
  std::vector<UnfinishedOperation> unfinished;
  uint64_t evicted_left_out = 0;
  std::vector<MismatchedOperation> mismatches;
  uint64_t mismatches_left_out = 0;
  IncompleteCounts incomplete;
  std::vector<MemberCounts> counts;  // by communicator, member
  HangReport hang;
  Coverage coverage;
  MatcherStats matcher;
  GpuReport gpu;
  PhaseReport phases;
  JoinStats join;  // NCCL's kernels and operations
  uint64_t operations_with_gpu_times = 0;
  std::vector<analysis::HostClockInfo> clocks;
  std::vector<std::string> warnings;  // of the recording: what could not be read
  std::vector<std::string> notes;     // what was assumed
};

Report BuildReport(const analysis::Recording& recording, const ReportOptions& options = {});

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_REPORT_H_
