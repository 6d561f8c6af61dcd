// Who others wait for: arrival skew of each operation, charged to ranks, and the rule by which a rank stands out.
//
// Fed by the matcher with each closed operation; memory depends on the number of ranks, not of operations. The rule
// and its reasons are in docs/analysis.md ("Who stands out").
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_SKEW_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_SKEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/answers/histogram.h"
#include "analysis/answers/operations.h"
#include "analysis/answers/wait_queue.h"
#include "analysis/model.h"

namespace rankscope::answers {

struct SkewOptions {
  // A rank that cost the others less than this share of the window is not worth an accusation (HTA's rule for a
  // straggler is 1 % of the step as well).
  double least_share_of_window = 0.01;
  // It must have cost this many times what the median of the other ranks cost.
  double times_the_median = 3;
  // Chance to accuse anyone in a healthy job, for the test of recurrence.
  double false_accusation = 0.01;
  // Error taken for clocks of two hosts that were not aligned (NTP; fleets are known to differ by ms).
  int64_t unbounded_clock_error_ns = 1'000'000;
  size_t largest = 10;  // operations with the largest skew to keep
};

struct RankSkew {
  uint32_t rank_index = 0;
  uint64_t operations = 0;  // collectives that count, with this rank in them
  uint64_t times_last = 0;
  int64_t caused_wait_ns = 0;     // sum of what the others certainly waited for it; overlapping waits once
  double caused_mean_ns = 0;      // what one other rank lost to it, in the communicator where that is most
  int64_t own_wait_ns = 0;        // what it waited for others
  int64_t largest_caused_ns = 0;  // in one operation, the longest wait of another rank
  Histogram lateness;             // ns after the operation's first arrival, one value an operation
  uint64_t blocks_led = 0;        // blocks of operations in which it caused the most wait
  // Point-to-point, kept apart: a receiver that waits for its sender is how a pipeline works.
  uint64_t p2p_operations = 0;
  int64_t p2p_caused_wait_ns = 0, p2p_own_wait_ns = 0;
};

struct SkewedOperation {
  OperationKey key;
  uint64_t bytes = 0;
  int64_t first_arrival_ns = 0, skew_ns = 0;
  uint32_t last_rank_index = 0;
  uint32_t first_rank_index = 0;
  int64_t second_last_ns = 0;  // after the first arrival: what the skew would be without the last rank
  int64_t caused_wait_ns = 0;
  bool first_of_comm = false;
};

struct Straggler {
  uint32_t rank_index = 0;
  double share_of_window = 0;  // caused_mean_ns / window
  double share_of_waits = 0;   // of all ranks' caused_mean_ns
};

enum class SkewVerdict : uint8_t {
  kNothingToCompare,  // no operation with two ranks or more counts
  kNobody,            // no rank stands out
  kStragglers,
};

struct Skew {
  SkewVerdict verdict = SkewVerdict::kNothingToCompare;
  std::vector<Straggler> stragglers;     // the costliest first
  std::vector<SkewedOperation> largest;  // by skew, first operations of communicators left out
  std::vector<SkewedOperation> single;   // of `largest`, those that stick out (docs/analysis.md, "Single delays")
  std::vector<RankSkew> ranks;           // by rank_index; all ranks of the recording
  Histogram skew;                        // ns, of the collectives that count
  uint64_t counted = 0;                  // collectives that count
  uint64_t left_out_first = 0;           // first operations of communicators
  uint64_t left_out_incomplete = 0;      // not seen on all ranks
  uint64_t left_out_uncertain = 0;       // the match is in doubt
  uint64_t waits_below_clock = 0;        // waits shorter than what the clocks can tell: not charged
  uint64_t negative_transfers = 0;       // ended before the last arrival: clocks or match are wrong there
  uint64_t blocks = 0;                   // blocks of operations in which somebody waited
  int64_t window_begin_ns = 0, window_end_ns = 0;  // first to last arrival of what counts
  int64_t clock_error_ns = 0;                      // largest error taken for two ranks' clocks
  bool clock_error_assumed = false;                // some hosts' clocks were not aligned
};

class SkewCollector {
 public:
  SkewCollector(const std::vector<analysis::RankInfo>& ranks, const std::vector<analysis::HostClockInfo>& clocks,
                const Communicators& communicators, const SkewOptions& options);
  void Add(const MatchedOperation& operation);
  Skew Finish();

 private:
  void AddCollective(const MatchedOperation& operation);
  void AddPointToPoint(const MatchedOperation& operation);
  void Enqueue(const MatchedOperation& operation, bool charged);
  void Charge(const OperationWaits& waits);
  int64_t ClockError(uint32_t rank_a, uint32_t rank_b) const;
  bool Aligned(uint32_t host_a, uint32_t host_b) const;
  void KeepIfLarge(const MatchedOperation& operation);
  std::vector<double>& OpenBlock();
  void CountInBlock();
  void FindStragglers();
  uint64_t CountLedBlocks(const std::vector<bool>& settled, std::vector<uint64_t>* led) const;
  bool StandsOut(const RankSkew& rank, const std::vector<double>& sorted_costs, uint64_t led, uint64_t blocks) const;
  void FindSingleDelays();

  const Communicators& communicators_;
  const SkewOptions options_;
  Skew result_;
  WaitQueue queue_;
  std::vector<int64_t> busy_until_ns_, p2p_busy_until_ns_;  // by rank_index: where its last wait or operation ended
  std::vector<std::vector<double>> cost_ns_;                // by communicator and member
  std::vector<uint32_t> host_of_;                           // by rank_index
  std::vector<int64_t> residual_ns_;                        // by rank_index
  struct HostError {
    int32_t group = -1;
    int64_t error_ns = -1;
  };
  std::vector<HostError> host_error_;        // by host
  std::vector<std::vector<double>> blocks_;  // of consecutive operations: caused mean wait by rank_index
  uint64_t operations_per_block_ = 1;
  uint64_t in_block_ = 0;    // operations in the last block
  bool block_open_ = false;  // the last block takes more
};

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_SKEW_H_
