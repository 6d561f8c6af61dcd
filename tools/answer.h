// What `report`, `skew`, `merge` and `run` share in making a report.
#ifndef RANKSCOPE_TOOLS_ANSWER_H_
#define RANKSCOPE_TOOLS_ANSWER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analysis/answers/report.h"
#include "analysis/answers/report_text.h"
#include "tools/commands.h"

namespace rankscope::tools {

// As OpenNamed; the clocks of several hosts aligned, where the recording was not aligned before.
absl::StatusOr<std::unique_ptr<analysis::Recording>> OpenAligned(const std::vector<std::string>& paths,
                                                                 std::string* opened);

answers::Report BuildWithProgress(const analysis::Recording& recording);

// `opened` as OpenNamed gave it: for the next command to type.
answers::TextOptions TextOptionsFor(const AnswerOptions& options, const std::string& opened);

}  // namespace rankscope::tools

#endif  // RANKSCOPE_TOOLS_ANSWER_H_
