// Algorithm and bus bandwidth by the formulas of nccl-tests (doc/PERFORMANCE.md and src/*.cu there).
//
// Pure functions. What t is (last arrival to the latest end) is the caller's business: a start-stop pair of a Coll
// event is the enqueue and must never be put in here.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_BANDWIDTH_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_BANDWIDTH_H_

#include <cstdint>

namespace rankscope::answers {

// S: the bytes that the formulas divide by the time. `bytes` is what NCCL's event says: the whole array for
// AllReduce, Broadcast, Reduce, Send and Recv; one rank's part for the others (nccl-profiler-api.md, 3.12).
double BandwidthBytes(uint8_t func, uint64_t bytes, uint32_t ranks);
// Bus bandwidth = algorithm bandwidth x this.
double BusFactor(uint8_t func, uint32_t ranks);

struct Bandwidth {
  double algorithm = 0;  // bytes a second; 0 = not known
  double bus = 0;
};
// Nothing is given (both 0) for a duration of 0 or less, or a function for which nccl-tests has no formula.
Bandwidth BandwidthOf(uint8_t func, uint64_t bytes, uint32_t ranks, int64_t transfer_ns);

// True where an event's bytes are one rank's part, for labels.
bool BytesArePerRank(uint8_t func);

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_BANDWIDTH_H_
