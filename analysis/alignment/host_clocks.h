// From what operations say of the clocks to a correction for each host, with an estimate's error and a provable
// bound.
//
// Pure; one thread; memory as the samples. The rules, and where they come from, are in docs/analysis.md ("Clocks").
// Must never: let a few wrong operations move a clock, or claim to know what no operation shows.
#ifndef RANKSCOPE_ANALYSIS_ALIGNMENT_HOST_CLOCKS_H_
#define RANKSCOPE_ANALYSIS_ALIGNMENT_HOST_CLOCKS_H_

#include <cstdint>
#include <vector>

#include "analysis/alignment/clock_curve.h"
#include "analysis/alignment/clock_samples.h"

namespace rankscope::alignment {

struct HostClock {
  int32_t group = -1;  // hosts that operations tie to each other; -1: too few operations with anybody
  ClockCurve curve;    // what to add to the host's time to get that of the group's reference host
  int64_t error_ns = -1;
  int64_t bound_ns = -1;
  uint64_t operations = 0;
  uint64_t contradictions = 0;  // of the group
};

// `hosts`: how many there are; the first of a group is its reference, whose clock stays as it is.
std::vector<HostClock> EstimateHostClocks(const ClockSamples& samples, uint32_t hosts);

}  // namespace rankscope::alignment

#endif  // RANKSCOPE_ANALYSIS_ALIGNMENT_HOST_CLOCKS_H_
