// A timeline file (*.rsc) as a Recording.
//
// Called by open.cc on one thread; Events() from any. Every message is verified when the file is opened; what is
// damaged is left out with a warning, what was cut is read as far as it goes. Must never: follow an offset that was
// not checked.
#ifndef RANKSCOPE_ANALYSIS_RECORDING_TIMELINE_READER_H_
#define RANKSCOPE_ANALYSIS_RECORDING_TIMELINE_READER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "analysis/model.h"

namespace rankscope::analysis {

absl::StatusOr<std::unique_ptr<Recording>> OpenTimeline(const std::string& path);

}  // namespace rankscope::analysis

#endif  // RANKSCOPE_ANALYSIS_RECORDING_TIMELINE_READER_H_
