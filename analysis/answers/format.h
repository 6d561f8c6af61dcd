// Numbers as people read them: always with a unit, three significant digits; ranks as collapsed lists.
//
// Called by the text renderers. JSON has exact numbers and uses none of this.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_FORMAT_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_FORMAT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace rankscope::answers {

std::string FormatDuration(int64_t duration_ns);       // "1.23 ms", "12.3 s", "4 min 05 s"
std::string FormatBytes(uint64_t bytes);               // decimal: "67.1 MB", as in nccl-tests
std::string FormatBandwidth(double bytes_per_second);  // "12.3 GB/s"
std::string FormatCount(uint64_t count);               // "1,234,567"
std::string FormatPercent(double fraction);            // "12.3 %"
std::string FormatUtc(int64_t unix_ns);                // "2026-12-01 12:23:33.123 UTC"; "unknown" for 0

// "0-7, 12"; sorted, without repeats. After `limit` ranges: "..., 17 more".
std::string FormatNumberList(std::vector<int64_t> numbers, size_t limit = 12);

// "1 rank", "2 ranks".
std::string Plural(uint64_t count, const char* noun);

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_FORMAT_H_
