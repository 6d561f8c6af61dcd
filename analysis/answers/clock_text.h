// How well times of two ranks compare, in a sentence: inside a host, and between hosts by how their clocks were
// aligned.
//
// Used by the text renderers. Pure.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_CLOCK_TEXT_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_CLOCK_TEXT_H_

#include <string>

#include "analysis/answers/report.h"

namespace rankscope::answers {

std::string ClockSentence(const Report& report);

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_CLOCK_TEXT_H_
