// What was communicated: operations by kind and size.
//
// Counts and bytes are the never-aging totals of the rings, so they are right for the whole job even where records
// have been overwritten; times, skew and bandwidth are of the operations that the event window shows. Both are given
// side by side and never mixed.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_TOTALS_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_TOTALS_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "analysis/answers/histogram.h"
#include "analysis/answers/operations.h"
#include "analysis/model.h"

namespace rankscope::answers {

struct TotalsRow {
  uint8_t func = 0;
  uint8_t size_class = 0;  // schema::SizeClass of an event's bytes: 2^(class-1) <= bytes < 2^class

  // Whole job, summed over ranks.
  uint64_t api_calls = 0;   // host calls (API v5 on)
  uint64_t launched = 0;    // launches; one operation of n ranks has n
  uint64_t bytes = 0;       // of the launches
  uint64_t completed = 0;   // launches whose end was observed
  int64_t duration_ns = 0;  // of those, launch to end
  int64_t duration_max_ns = 0;
  int64_t duration_p50_ns = 0, duration_p99_ns = 0;  // from half-octave buckets: up to 1.5 times too small

  // The event window. A Send row has the pairs of Send and Recv.
  uint64_t matched = 0;        // operations seen on all ranks
  uint64_t incomplete = 0;     // seen on some
  uint64_t first_of_comm = 0;  // of the matched: left out of the figures below
  uint64_t api_only = 0;       // of the matched: known by their call alone
  uint64_t bytes_min = 0, bytes_max = 0;
  Histogram skew_ns;
  Histogram transfer_ns;  // only where the end was observed
  Histogram algorithm_bytes_per_second, bus_bytes_per_second;
};

class TotalsCollector {
 public:
  explicit TotalsCollector(const std::vector<analysis::RankInfo>& ranks);
  void Add(const MatchedOperation& operation);
  // By time spent, then launches: the row that matters most first.
  std::vector<TotalsRow> Finish();

 private:
  std::map<std::pair<uint8_t, uint8_t>, TotalsRow> rows_;
};

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_TOTALS_H_
