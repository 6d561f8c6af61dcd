// The one door to recordings: a timeline, rings, or folders of rings.
#ifndef RANKSCOPE_ANALYSIS_RECORDING_OPEN_H_
#define RANKSCOPE_ANALYSIS_RECORDING_OPEN_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "analysis/model.h"

namespace rankscope::analysis {

struct OpenOptions {
  std::function<void(double)> progress;  // told the share done, 0 to 1
};

// `paths` is one timeline, or any number of ring files and folders that hold some. The error is one sentence for the
// user.
absl::StatusOr<std::unique_ptr<Recording>> OpenRecording(absl::Span<const std::string> paths,
                                                         const OpenOptions& options = {});

}  // namespace rankscope::analysis

#endif  // RANKSCOPE_ANALYSIS_RECORDING_OPEN_H_
