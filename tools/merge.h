// Writing a timeline, for `merge` and `run`.
#ifndef RANKSCOPE_TOOLS_MERGE_H_
#define RANKSCOPE_TOOLS_MERGE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "analysis/model.h"

namespace rankscope::tools {

// Writes `recording` to `path`, with progress on the terminal, and says on stderr what was written.
absl::Status WriteWithProgress(absl::string_view verb, const analysis::Recording& recording, const std::string& path);

// <job>.rsc in the working directory, or <job>.2.rsc, ... where that is taken.
std::string FreeTimelineName(const std::string& job);

}  // namespace rankscope::tools

#endif  // RANKSCOPE_TOOLS_MERGE_H_
