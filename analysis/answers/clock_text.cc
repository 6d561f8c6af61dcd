// See clock_text.h.
#include "analysis/answers/clock_text.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/answers/format.h"

namespace rankscope::answers {

namespace {

using analysis::HostClockInfo;

// What the figures of the aligned hosts are at worst. Figures come from a file: nothing overflows.
struct Alignment {
  size_t aligned = 0, alone = 0;
  bool bound_known = true;
  int64_t error_ns = 0, bound_ns = 0;
  const HostClockInfo* farthest = nullptr;  // from its group's reference
  const HostClockInfo* fastest = nullptr;   // by drift
  const HostClockInfo* first_alone = nullptr;
  uint64_t fewest_operations = UINT64_MAX;
  std::map<int32_t, uint64_t> contradictions;  // by group
};

uint64_t Size(int64_t value) { return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value); }
int64_t Clamped(uint64_t value) { return static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX)); }

Alignment Summarise(const std::vector<HostClockInfo>& clocks) {
  Alignment sum;
  for (const HostClockInfo& clock : clocks) {
    if (clock.group < 0) {
      ++sum.alone;
      if (sum.first_alone == nullptr) sum.first_alone = &clock;
      continue;
    }
    ++sum.aligned;
    sum.error_ns = std::max(sum.error_ns, clock.error_ns);
    sum.bound_ns = std::max(sum.bound_ns, clock.bound_ns);
    sum.bound_known &= clock.bound_ns >= 0;
    sum.fewest_operations = std::min(sum.fewest_operations, clock.operations);
    sum.contradictions[clock.group] = clock.contradictions;
    if (sum.farthest == nullptr || Size(clock.offset_ns) > Size(sum.farthest->offset_ns)) sum.farthest = &clock;
    if (sum.fastest == nullptr || Size(clock.drift_ppb) > Size(sum.fastest->drift_ppb)) sum.fastest = &clock;
  }
  return sum;
}

std::string DriftText(int64_t drift_ppb) {
  return absl::StrFormat("%.1f ppm", static_cast<double>(Size(drift_ppb)) / 1000);
}

std::string AlignedText(const Alignment& sum) {
  std::string text =
      absl::StrCat("the clocks of ", Plural(sum.aligned, "host"), " were aligned by the operations that they share (",
                   FormatCount(sum.fewest_operations), " or more each): a host's times are within ",
                   FormatDuration(sum.error_ns), " by the estimate's spread");
  if (sum.bound_known) {
    absl::StrAppend(&text, ", and provably within ", FormatDuration(sum.bound_ns));
  } else {
    absl::StrAppend(&text, ", which nothing proves");
  }
  absl::StrAppend(&text, ". Corrected: up to ", FormatDuration(Clamped(Size(sum.farthest->offset_ns))), " (",
                  sum.farthest->host, ")");
  if (sum.fastest->drift_ppb != 0) {
    absl::StrAppend(&text, ", drift up to ", DriftText(sum.fastest->drift_ppb), " (", sum.fastest->host, ")");
  }
  if (sum.contradictions.size() > 1) {
    absl::StrAppend(&text, ". They form ", sum.contradictions.size(),
                    " groups that have no operation in common, whose clocks don't compare");
  }
  uint64_t contradictions = 0;
  for (const auto& [group, count] : sum.contradictions) contradictions += count;
  if (contradictions > 0) {
    absl::StrAppend(&text, ". ", Plural(contradictions, "operation"),
                    " ended before somebody had come, whatever the clocks: left out (their match is wrong)");
  }
  return text;
}

}  // namespace

std::string ClockSentence(const Report& report) {
  double residual_ns = 0;
  for (const auto& rank : report.ranks) residual_ns = std::max(residual_ns, rank.clock_residual_ns);
  const std::string inside = FormatDuration(static_cast<int64_t>(std::min(residual_ns, 9e18)));
  if (report.hosts.size() < 2 && report.clocks.size() < 2)
    return absl::StrCat("one host, one clock: times of two ranks compare to within ", inside);
  std::string text = absl::StrCat("within a host times of two ranks compare to within ", inside, "; between hosts ");
  const Alignment sum = Summarise(report.clocks);
  if (sum.aligned == 0) {
    absl::StrAppend(&text, "the hosts' own wall clocks are taken, whose error is not known");
  } else {
    absl::StrAppend(&text, AlignedText(sum));
    if (sum.first_alone != nullptr) {
      absl::StrAppend(&text, ". ", Plural(sum.alone, "host"), " (", sum.first_alone->host,
                      sum.alone > 1 ? " and others" : "",
                      ") took part in too few operations: the own wall clock is taken, whose error is not known");
    }
  }
  return absl::StrCat(text, sum.aligned == 0 ? ": waits" : ". Waits", " between hosts below ",
                      FormatDuration(report.skew.clock_error_ns), " are charged to nobody (",
                      Plural(report.skew.waits_below_clock, "wait"), ")");
}

}  // namespace rankscope::answers
