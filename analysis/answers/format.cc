// See format.h.
#include "analysis/answers/format.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace rankscope::answers {

namespace {

// Three significant digits of a number below 1000.
std::string ThreeDigits(double value) {
  const double size = std::fabs(value);
  if (size >= 99.95) return absl::StrFormat("%.0f", value);
  if (size >= 9.995) return absl::StrFormat("%.1f", value);
  return absl::StrFormat("%.2f", value);
}

}  // namespace

std::string FormatDuration(int64_t duration_ns) {
  const auto value = static_cast<double>(duration_ns);
  const double size = std::fabs(value);
  if (size < 999.5) return absl::StrCat(duration_ns, " ns");
  if (size < 999.5e3) return ThreeDigits(value / 1e3) + " us";
  if (size < 999.5e6) return ThreeDigits(value / 1e6) + " ms";
  if (size < 119.95e9) return ThreeDigits(value / 1e9) + " s";
  const auto seconds = static_cast<int64_t>(std::llround(value / 1e9));
  const int64_t whole = seconds < 0 ? -seconds : seconds;
  const char* sign = seconds < 0 ? "-" : "";
  if (whole < 7200) return absl::StrFormat("%s%d min %02d s", sign, whole / 60, whole % 60);
  return absl::StrFormat("%s%d h %02d min", sign, whole / 3600, whole / 60 % 60);
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1000) return absl::StrCat(bytes, " B");
  static constexpr const char* kUnits[] = {" kB", " MB", " GB", " TB", " PB", " EB"};
  double value = static_cast<double>(bytes) / 1e3;
  int unit = 0;
  while (value >= 999.5 && unit < 5) {
    value /= 1e3;
    ++unit;
  }
  return ThreeDigits(value) + kUnits[unit];
}

std::string FormatBandwidth(double bytes_per_second) {
  if (!(bytes_per_second > 0)) return "-";
  if (bytes_per_second < 999.5e3) return ThreeDigits(bytes_per_second / 1e3) + " kB/s";
  if (bytes_per_second < 999.5e6) return ThreeDigits(bytes_per_second / 1e6) + " MB/s";
  return ThreeDigits(bytes_per_second / 1e9) + " GB/s";
}

std::string FormatCount(uint64_t count) {
  const std::string digits = absl::StrCat(count);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string FormatPercent(double fraction) { return ThreeDigits(fraction * 100) + " %"; }

std::string FormatUtc(int64_t unix_ns) {
  if (unix_ns <= 0) return "unknown";
  const time_t seconds = static_cast<time_t>(unix_ns / 1000000000);
  struct tm parts {};
  if (gmtime_r(&seconds, &parts) == nullptr) return "unknown";
  char text[32];
  if (strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts) == 0) return "unknown";
  return absl::StrFormat("%s.%03d UTC", text, unix_ns / 1000000 % 1000);
}

std::string FormatNumberList(std::vector<int64_t> numbers, size_t limit) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::string text;
  size_t ranges = 0;
  for (size_t i = 0; i < numbers.size();) {
    if (ranges == limit) {
      absl::StrAppend(&text, ", ", numbers.size() - i, " more");
      break;
    }
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (ranges++ > 0) text += ", ";
    absl::StrAppend(&text, numbers[i]);
    // Two neighbours read better as two numbers.
    if (end - i == 2) absl::StrAppend(&text, ", ", numbers[end - 1]);
    if (end - i > 2) absl::StrAppend(&text, "-", numbers[end - 1]);
    i = end;
  }
  return text;
}

std::string Plural(uint64_t count, const char* noun) {
  return absl::StrCat(FormatCount(count), " ", noun, count == 1 ? "" : "s");
}

}  // namespace rankscope::answers
