// See tick_clock.h.
#include "analysis/recording/tick_clock.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/median.h"
#include "schema/ring_abi.h"

namespace rankscope::analysis {
namespace {

// Clock values above this are garbage: 2^61 ns is 73 years of uptime, or the year 2043 as wall time.
constexpr uint64_t kLargestNs = uint64_t{1} << 61;
// A run shorter than this gives no better rate than the recorder's own estimate: a pair is good to some 50 ns, and
// the estimate to some 50 parts in a million.
constexpr double kShortestFitNs = 1e6;
// Knots are at least this far apart, so that a pair's window (some 50 ns) bends a line by at most 0.2 parts in a
// million.
constexpr double kKnotDistanceNs = 250e6;
// NTP may run CLOCK_MONOTONIC up to 500 parts in a million off its nominal rate (adjtimex(2)); twice that is garbage.
constexpr double kLargestDrift = 1e-3;
constexpr double kOutlierFloorNs = 10e3;

double SaneRate(uint64_t ticks_per_second) {
  // 1 kHz to 100 GHz: anything else is no clock.
  if (ticks_per_second < 1000 || ticks_per_second > 100'000'000'000ull) return 1e9;
  return static_cast<double>(ticks_per_second);
}

double Distance(uint64_t from, uint64_t to) { return static_cast<double>(static_cast<int64_t>(to - from)); }

bool PlausibleSample(const ClockSample& sample) {
  return sample.ticks != 0 && sample.ticks < (uint64_t{1} << 63) && sample.monotonic_ns < kLargestNs;
}

// Sorted by ticks, strictly growing, without those whose window is much wider than usual.
std::vector<ClockSample> UsableSamples(absl::Span<const ClockSample> samples) {
  std::vector<ClockSample> usable;
  std::vector<uint64_t> windows;
  for (const ClockSample& sample : samples) {
    if (!PlausibleSample(sample)) continue;
    usable.push_back(sample);
    windows.push_back(sample.uncertainty_ns);
  }
  if (usable.empty()) return usable;
  const uint64_t usual_ns = std::min(UpperMedian(&windows), kLargestNs);
  usable.erase(std::remove_if(usable.begin(), usable.end(),
                              [&](const ClockSample& s) { return s.uncertainty_ns > 10 * usual_ns + 1000; }),
               usable.end());
  std::sort(usable.begin(), usable.end(), [](const ClockSample& a, const ClockSample& b) {
    return a.ticks != b.ticks ? a.ticks < b.ticks : a.uncertainty_ns < b.uncertainty_ns;
  });
  usable.erase(std::unique(usable.begin(), usable.end(),
                           [](const ClockSample& a, const ClockSample& b) { return a.ticks == b.ticks; }),
               usable.end());
  return usable;
}

// Median of the slopes over half the run: up to a quarter of bad pairs don't move it. 0 if there is none.
double RobustSlope(const std::vector<ClockSample>& samples) {
  std::vector<double> slopes;
  const size_t half = std::max<size_t>(samples.size() / 2, 1);
  for (size_t i = 0; i + half < samples.size(); ++i) {
    const double ticks = Distance(samples[i].ticks, samples[i + half].ticks);
    const double ns = Distance(samples[i].monotonic_ns, samples[i + half].monotonic_ns);
    if (ticks > 0 && ns > 0) slopes.push_back(ns / ticks);
  }
  return slopes.empty() ? 0.0 : UpperMedian(&slopes);
}

// Without the pairs that no disciplined clock could have given, and without steps backwards.
std::vector<ClockSample> DropOutliers(const std::vector<ClockSample>& samples, double slope) {
  std::vector<double> intercepts;
  const ClockSample& origin = samples.front();
  for (const ClockSample& sample : samples) {
    intercepts.push_back(Distance(origin.monotonic_ns, sample.monotonic_ns) -
                         Distance(origin.ticks, sample.ticks) * slope);
  }
  std::vector<double> unordered = intercepts;
  const double line_ns = UpperMedian(&unordered);
  const double span_ns = Distance(samples.front().ticks, samples.back().ticks) * slope;
  std::vector<ClockSample> kept;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (std::abs(intercepts[i] - line_ns) > kLargestDrift * span_ns + kOutlierFloorNs) continue;
    if (!kept.empty() && samples[i].monotonic_ns < kept.back().monotonic_ns) continue;
    kept.push_back(samples[i]);
  }
  return kept;
}

// The least uncertain pair of each stretch of kKnotDistanceNs; at least the two ends of the run.
std::vector<ClockSample> ChooseKnots(const std::vector<ClockSample>& samples, double slope) {
  const double span_ns = Distance(samples.front().ticks, samples.back().ticks) * slope;
  const double stretch_ns = std::min(kKnotDistanceNs, span_ns / 3);
  std::vector<ClockSample> knots;
  double knot_stretch = -1;
  for (const ClockSample& sample : samples) {
    const double stretch = std::floor(Distance(samples.front().ticks, sample.ticks) * slope / stretch_ns);
    if (stretch != knot_stretch) {
      knots.push_back(sample);
      knot_stretch = stretch;
    } else if (sample.uncertainty_ns < knots.back().uncertainty_ns) {
      knots.back() = sample;
    }
  }
  // Two neighbours at the border of their stretches would make a steep line: the better one stays.
  std::vector<ClockSample> spaced;
  for (const ClockSample& knot : knots) {
    if (!spaced.empty() && Distance(spaced.back().ticks, knot.ticks) * slope < stretch_ns / 2) {
      if (knot.uncertainty_ns < spaced.back().uncertainty_ns) spaced.back() = knot;
      continue;
    }
    spaced.push_back(knot);
  }
  return spaced;
}

}  // namespace

int64_t EpochOffset(absl::Span<const ClockSample> samples) {
  std::vector<int64_t> offsets;
  offsets.reserve(samples.size());
  for (const ClockSample& sample : samples) {
    if (!PlausibleSample(sample) || sample.realtime_ns >= kLargestNs || sample.realtime_ns == 0) continue;
    offsets.push_back(static_cast<int64_t>(sample.realtime_ns) - static_cast<int64_t>(sample.monotonic_ns));
  }
  return offsets.empty() ? 0 : UpperMedian(&offsets);
}

void TickClock::BuildSegments(const std::vector<ClockSample>& knots, double ns_per_tick, int64_t offset_ns) {
  segments_.clear();
  for (size_t i = 0; i < knots.size(); ++i) {
    Segment segment;
    segment.base_ticks = knots[i].ticks;
    segment.base_ns = static_cast<int64_t>(knots[i].monotonic_ns) + offset_ns;
    if (i + 1 < knots.size()) {
      segment.ns_per_tick =
          Distance(knots[i].monotonic_ns, knots[i + 1].monotonic_ns) / Distance(knots[i].ticks, knots[i + 1].ticks);
    } else {
      segment.ns_per_tick = segments_.empty() ? ns_per_tick : segments_.back().ns_per_tick;
    }
    segments_.push_back(segment);
  }
}

TickClock TickClock::Fit(const ClockDescription& description, absl::Span<const ClockSample> all_samples,
                         int64_t epoch_minus_monotonic_ns) {
  TickClock clock;
  const int64_t limit = static_cast<int64_t>(kLargestNs);
  const int64_t offset_ns = std::clamp(epoch_minus_monotonic_ns, -limit, limit);
  clock.ticks_per_second_ = SaneRate(description.ticks_per_second);
  double slope = 1e9 / clock.ticks_per_second_;

  if (description.tick_source == static_cast<uint32_t>(schema::TickSource::kMonotonicNs)) {
    clock.segments_ = {Segment{0, offset_ns, 1.0}};
    clock.ticks_per_second_ = 1e9;
    if (offset_ns == 0 && description.start_realtime_ns < kLargestNs && description.start_realtime_ns != 0) {
      const Segment start{description.start_ticks, static_cast<int64_t>(description.start_realtime_ns), 1.0};
      if (all_samples.empty()) clock.segments_ = {start};
    }
    clock.used_samples_ = all_samples.size();
    return clock;
  }

  std::vector<ClockSample> samples = UsableSamples(all_samples);
  if (samples.empty()) {
    // Only the start's wall time is left to hold on to.
    const uint64_t start_ns = description.start_realtime_ns < kLargestNs ? description.start_realtime_ns : 0;
    clock.segments_ = {Segment{description.start_ticks, static_cast<int64_t>(start_ns), slope}};
    return clock;
  }
  const double fitted = RobustSlope(samples);
  const bool long_enough = Distance(samples.front().ticks, samples.back().ticks) * fitted >= kShortestFitNs;
  if (long_enough) {
    slope = fitted;
    samples = DropOutliers(samples, slope);
  }
  if (!long_enough || samples.size() < 2 ||
      Distance(samples.front().ticks, samples.back().ticks) * slope < kShortestFitNs) {
    const auto best = std::min_element(
        samples.begin(), samples.end(),
        [](const ClockSample& a, const ClockSample& b) { return a.uncertainty_ns < b.uncertainty_ns; });
    if (!samples.empty()) clock.BuildSegments({*best}, slope, offset_ns);
  } else {
    clock.BuildSegments(ChooseKnots(samples, slope), slope, offset_ns);
    const double ticks = Distance(samples.front().ticks, samples.back().ticks);
    const double ns = Distance(samples.front().monotonic_ns, samples.back().monotonic_ns);
    if (ns > 0) slope = ns / ticks;
  }
  clock.ticks_per_second_ = 1e9 / slope;
  clock.used_samples_ = samples.size();
  for (const ClockSample& sample : samples) {
    const int64_t fit_ns = clock.ToEpochNs(sample.ticks);
    const int64_t true_ns = std::max<int64_t>(0, static_cast<int64_t>(sample.monotonic_ns) + offset_ns);
    clock.residual_ns_ = std::max(clock.residual_ns_, std::abs(static_cast<double>(fit_ns - true_ns)));
    clock.uncertainty_ns_ = std::max(clock.uncertainty_ns_, sample.uncertainty_ns);
  }
  return clock;
}

const TickClock::Segment& TickClock::SegmentOf(uint64_t ticks) const {
  auto next = std::upper_bound(segments_.begin(), segments_.end(), ticks,
                               [](uint64_t t, const Segment& segment) { return t < segment.base_ticks; });
  return next == segments_.begin() ? segments_.front() : *(next - 1);
}

int64_t TickClock::ToEpochNs(uint64_t ticks) const { return TickConverter(this).ToEpochNs(ticks); }

int64_t TickClock::LengthNs(uint64_t ticks) const {
  const double ns = static_cast<double>(ticks) * (1e9 / ticks_per_second_);
  return ns < 0x1p62 ? static_cast<int64_t>(std::llround(ns)) : int64_t{1} << 62;
}

void TickConverter::Load(const TickClock::Segment& segment) {
  const TickClock::Segment* first = clock_->segments_.data();
  const TickClock::Segment* last = first + clock_->segments_.size() - 1;
  base_ticks_ = segment.base_ticks;
  base_ns_ = segment.base_ns;
  ns_per_tick_ = segment.ns_per_tick;
  first_ticks_ = &segment == first ? 0 : segment.base_ticks;
  const uint64_t end_ticks = &segment == last ? std::numeric_limits<uint64_t>::max() : (&segment + 1)->base_ticks;
  span_ticks_ = end_ticks - first_ticks_;
}

void TickConverter::Seek(uint64_t ticks) { Load(clock_->SegmentOf(ticks)); }

}  // namespace rankscope::analysis
