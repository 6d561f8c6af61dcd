// Reports as text for a terminal: the answer first, then what it rests on, then the next command to type.
//
// Pure: strings in, strings out. 1,024 ranks stay readable: lists are collapsed and cut.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_REPORT_TEXT_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_REPORT_TEXT_H_

#include <string>

#include "analysis/answers/hang.h"
#include "analysis/answers/report.h"

namespace rankscope::answers {

struct TextOptions {
  int width = 100;  // columns; 0 = no limit
  bool color = false;
  size_t rows = 20;           // of each table
  std::string timeline = {};  // path as the user would type it, for the next command; "" = "TIMELINE"
};

std::string RenderText(const Report& report, const TextOptions& options = {});
// `rankscope skew`: the verdict, a table of ranks and the operations with the largest skew.
std::string RenderSkewText(const Report& report, const TextOptions& options = {});
// `rankscope hang`.
std::string RenderHangText(const HangReport& report, const TextOptions& options = {});

// `rankscope phases`: where the host's time goes, and what the GPUs did.
std::string RenderPhasesText(const Report& report, const TextOptions& options = {});

// One sentence: who others wait for and how much, or that nobody stands out.
std::string SkewSentence(const Report& report);
// One sentence on a waiting operation: "rank 2 has not called AllReduce #17 (67.1 MB, float32) on ...".
std::string WaitingSentence(const HangReport& report, const WaitingOperation& operation);

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_REPORT_TEXT_H_
