// Ring files as a Recording: finding them, putting them on one clock, streaming their lanes.
//
// Called by open.cc on one thread; Events() may be called from any. Must never: fail because one of many rings can't
// be read (it says so in a warning and goes on), or read anything but ring files.
#ifndef RANKSCOPE_ANALYSIS_RECORDING_RING_SET_H_
#define RANKSCOPE_ANALYSIS_RECORDING_RING_SET_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "analysis/model.h"

namespace rankscope::analysis {

// All files that end in .ring in `directory`, and in its folders one level down (<dir>/<job>/<host>.<pid>.ring),
// sorted.
absl::StatusOr<std::vector<std::string>> FindRings(const std::string& directory);

// An error only if none of `paths` can be read. `progress` is told the share done, 0 to 1.
absl::StatusOr<std::unique_ptr<Recording>> OpenRings(absl::Span<const std::string> paths,
                                                     const std::function<void(double)>& progress);

}  // namespace rankscope::analysis

#endif  // RANKSCOPE_ANALYSIS_RECORDING_RING_SET_H_
