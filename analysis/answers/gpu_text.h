// The sections of a report's text that are of the GPUs and of the host's phases. Empty where nothing of the kind was
// recorded, but for the sentence that says why the GPU source gave nothing.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_GPU_TEXT_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_GPU_TEXT_H_

#include <string>

#include "analysis/answers/report.h"
#include "analysis/answers/text_style.h"

namespace rankscope::answers {

std::string GpuText(const Report& report, const TextStyle& style, size_t rows);
std::string PhasesText(const Report& report, const TextStyle& style, size_t rows);

// How the GPU source of a process ended up, in words: "records came", "another tool had CUPTI (...)", ...
std::string CuptiStateText(const analysis::CuptiSourceInfo& cupti);
// CUPTI's version as people know it: "12.4", "13.0 (130001)".
std::string CuptiVersionText(uint32_t api_version);

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_GPU_TEXT_H_
