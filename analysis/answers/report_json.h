// Reports as JSON for programs; exact numbers, versioned shapes. docs/json.md describes every field.
//
// Pure. Text from files was cleaned by the reader; anything that is still not UTF-8 is replaced when dumped through
// DumpJson.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_REPORT_JSON_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_REPORT_JSON_H_

#include <nlohmann/json.hpp>
#include <string>

#include "analysis/answers/hang.h"
#include "analysis/answers/report.h"

namespace rankscope::answers {

inline constexpr int kReportJsonVersion = 1;
inline constexpr int kSkewJsonVersion = 1;
inline constexpr int kHangJsonVersion = 1;
inline constexpr int kRanksJsonVersion = 1;
inline constexpr int kPhasesJsonVersion = 1;

nlohmann::json ToJson(const Report& report);        // "rankscope.report"
nlohmann::json SkewToJson(const Report& report);    // "rankscope.skew"
nlohmann::json PhasesToJson(const Report& report);  // "rankscope.phases"
nlohmann::json ToJson(const HangReport& report);    // "rankscope.hang"
// `ls`, `dump`, `merge`: who was recorded, without reading events. "rankscope.ranks"
nlohmann::json RanksToJson(const analysis::Recording& recording);

// Two-space indent; never throws: bytes that are not UTF-8 become U+FFFD.
std::string DumpJson(const nlohmann::json& json);

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_REPORT_JSON_H_
