// What `report`, `skew` and `run` share in making a report.
#ifndef RANKSCOPE_TOOLS_ANSWER_H_
#define RANKSCOPE_TOOLS_ANSWER_H_

#include <string>

#include "analysis/answers/report.h"
#include "analysis/answers/report_text.h"
#include "tools/commands.h"

namespace rankscope::tools {

answers::Report BuildWithProgress(const analysis::Recording& recording);

// `opened` as OpenNamed gave it: for the next command to type.
answers::TextOptions TextOptionsFor(const AnswerOptions& options, const std::string& opened);

}  // namespace rankscope::tools

#endif  // RANKSCOPE_TOOLS_ANSWER_H_
