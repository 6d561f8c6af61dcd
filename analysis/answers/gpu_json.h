// The parts of a report's JSON that are of the GPUs and of the host's phases. Pure; docs/json.md describes every
// field.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_GPU_JSON_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_GPU_JSON_H_

#include <nlohmann/json.hpp>

#include "analysis/answers/report.h"

namespace rankscope::answers {

nlohmann::json GpuJson(const Report& report);
nlohmann::json PhasesJson(const Report& report);

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_GPU_JSON_H_
