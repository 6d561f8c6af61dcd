// Clocks that are seconds apart, brought within reach of each other: all ranks of a communicator leave its creation
// at nearly the same moment.
//
// From Recording::ranks() alone, before any event is read. Pure. Must never: move a clock that is right to a second,
// for the creation of a communicator tells no more than that.
#ifndef RANKSCOPE_ANALYSIS_ALIGNMENT_COARSE_CLOCKS_H_
#define RANKSCOPE_ANALYSIS_ALIGNMENT_COARSE_CLOCKS_H_

#include <cstdint>
#include <vector>

#include "analysis/alignment/clock_curve.h"
#include "analysis/model.h"

namespace rankscope::alignment {

// By host, ns to add to its clock; 0 where it is within a second of host 0, or nothing tells. `host_of`: by
// rank_index.
std::vector<int64_t> CoarseOffsets(const std::vector<analysis::RankInfo>& ranks, const std::vector<uint32_t>& host_of,
                                   uint32_t hosts);

// The curve for times to which `offset_ns` was not yet added.
ClockCurve Shifted(const ClockCurve& curve, int64_t offset_ns);

}  // namespace rankscope::alignment

#endif  // RANKSCOPE_ANALYSIS_ALIGNMENT_COARSE_CLOCKS_H_
