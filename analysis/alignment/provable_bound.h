// How wrong the hosts' corrections can be at most: in an operation that nobody leaves before all have come, no host's
// first end lies before any other's last arrival. Each operation so limits the difference of two hosts' errors; along
// paths from the reference the limits add up.
//
// Pure; one thread; time is linear in the operations and quadratic in a group's hosts, memory quadratic in the hosts
// of the largest group. Must never: believe an operation that contradicts what all others say.
#ifndef RANKSCOPE_ANALYSIS_ALIGNMENT_PROVABLE_BOUND_H_
#define RANKSCOPE_ANALYSIS_ALIGNMENT_PROVABLE_BOUND_H_

#include <cstdint>
#include <vector>

#include "analysis/alignment/clock_samples.h"
#include "analysis/alignment/host_clocks.h"

namespace rankscope::alignment {

// Fills bound_ns and contradictions of `clocks`, whose curves and errors are known. `reference`: by group.
// `shape_ns`: by host, how much the curve may be off at one time more than at another.
void BoundErrors(const ClockSamples& samples, const std::vector<uint32_t>& reference,
                 const std::vector<double>& shape_ns, std::vector<HostClock>* clocks);

}  // namespace rankscope::alignment

#endif  // RANKSCOPE_ANALYSIS_ALIGNMENT_PROVABLE_BOUND_H_
