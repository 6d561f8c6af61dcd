// A recording with its hosts' clocks aligned: the same ranks and events, their times put onto one clock as they are
// read.
//
// The one door to this folder. Called by whoever opens a recording of several hosts. Must never: align one that
// already is, or change a recording of one host.
#ifndef RANKSCOPE_ANALYSIS_ALIGNMENT_ALIGNED_RECORDING_H_
#define RANKSCOPE_ANALYSIS_ALIGNMENT_ALIGNED_RECORDING_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "analysis/model.h"

namespace rankscope::alignment {

struct AlignOptions {
  std::function<void(uint64_t events)> progress;
};

// Whether AlignHosts would read the recording: it has several hosts, and was not aligned.
bool NeedsAlignment(const analysis::Recording& recording);

// `recording` must outlive what is returned. Reads its operations once; where they tell nothing of the clocks, times
// stay as they are. nullptr where NeedsAlignment is false.
std::unique_ptr<analysis::Recording> AlignHosts(const analysis::Recording& recording,
                                                const AlignOptions& options = {});

// The same for a recording that nobody else holds; gives it back as it was where there is nothing to align.
std::unique_ptr<analysis::Recording> AlignHosts(std::unique_ptr<analysis::Recording> recording,
                                                const AlignOptions& options = {});

}  // namespace rankscope::alignment

#endif  // RANKSCOPE_ANALYSIS_ALIGNMENT_ALIGNED_RECORDING_H_
