// From a process's clock ticks to nanoseconds since the epoch, by the clock pairs that its recorder took.
//
// Called by: the ring reader, on one thread at a time for building; a built TickClock is immutable and may be shared.
// Must never: trust a pair (they come from an untrusted file), divide by zero, or leave the range of int64_t.
//
// The way: ticks -> CLOCK_MONOTONIC by straight lines between chosen pairs (knots); CLOCK_MONOTONIC -> epoch by one
// offset, which all processes of one boot of one host share, so that the skew between them is exact to the residual.
#ifndef RANKSCOPE_ANALYSIS_RECORDING_TICK_CLOCK_H_
#define RANKSCOPE_ANALYSIS_RECORDING_TICK_CLOCK_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace rankscope::analysis {

// One reading of the three clocks, as found in a ring.
struct ClockSample {
  uint64_t ticks = 0;
  uint64_t monotonic_ns = 0;
  uint64_t realtime_ns = 0;
  uint64_t uncertainty_ns = 0;
};

// What a ring says of its clock besides the pairs.
struct ClockDescription {
  uint32_t tick_source = 0;  // schema::TickSource
  uint64_t ticks_per_second = 0;
  uint64_t start_ticks = 0;
  uint64_t start_realtime_ns = 0;
};

class TickClock {
 public:
  TickClock() = default;

  // Fits the pairs. `epoch_minus_monotonic_ns` is the host's shared offset, see EpochOffset().
  static TickClock Fit(const ClockDescription& description, absl::Span<const ClockSample> samples,
                       int64_t epoch_minus_monotonic_ns);

  // Nanoseconds since the epoch; 0 for ticks of 0, which mean "not yet" all over the ring.
  int64_t ToEpochNs(uint64_t ticks) const;
  // A length; never negative, clamped to what int64_t holds.
  int64_t LengthNs(uint64_t ticks) const;

  double ticks_per_second() const { return ticks_per_second_; }
  // Largest distance of a used pair from the fit.
  double residual_ns() const { return residual_ns_; }
  // Largest reading window of a used pair: the pairs themselves are no better than this.
  uint64_t uncertainty_ns() const { return uncertainty_ns_; }
  size_t used_samples() const { return used_samples_; }

 private:
  friend class TickConverter;

  // ns = base_ns + (ticks - base_ticks) * ns_per_tick, for ticks in [base_ticks, base_ticks of the next). The first
  // segment also serves everything before it.
  struct Segment {
    uint64_t base_ticks = 0;
    int64_t base_ns = 0;
    double ns_per_tick = 1.0;
  };
  const Segment& SegmentOf(uint64_t ticks) const;
  void BuildSegments(const std::vector<ClockSample>& knots, double ns_per_tick, int64_t offset_ns);

  std::vector<Segment> segments_{Segment{}};
  double ticks_per_second_ = 1e9;
  double residual_ns_ = 0;
  uint64_t uncertainty_ns_ = 0;
  size_t used_samples_ = 0;
};

// The fast way for ticks that mostly grow: remembers the last segment. One per cursor, one thread.
class TickConverter {
 public:
  explicit TickConverter(const TickClock* clock) : clock_(clock) { Load(clock->segments_.front()); }

  int64_t ToEpochNs(uint64_t ticks) {
    if (ticks - first_ticks_ >= span_ticks_) [[unlikely]]
      Seek(ticks);
    return Apply(ticks);
  }

 private:
  void Seek(uint64_t ticks);
  void Load(const TickClock::Segment& segment);
  int64_t Apply(uint64_t ticks) const {
    const double distance_ns = static_cast<double>(static_cast<int64_t>(ticks - base_ticks_)) * ns_per_tick_;
    // 2^61 on both sides keeps the sum inside int64_t whatever the file says.
    if (!(distance_ns > -0x1p61 && distance_ns < 0x1p61)) [[unlikely]]
      return ticks > base_ticks_ ? kFarFutureNs : 0;
    const int64_t ns = base_ns_ + static_cast<int64_t>(distance_ns + (distance_ns < 0 ? -0.5 : 0.5));
    return ns < 0 || ticks == 0 ? 0 : ns;
  }
  static constexpr int64_t kFarFutureNs = int64_t{1} << 62;

  const TickClock* clock_;
  uint64_t first_ticks_ = 0;  // the cached segment serves [first_ticks_, first_ticks_ + span_ticks_)
  uint64_t span_ticks_ = 0;
  uint64_t base_ticks_ = 0;
  int64_t base_ns_ = 0;
  double ns_per_tick_ = 1.0;
};

// Epoch minus CLOCK_MONOTONIC of one boot of one host: the median over the samples of all its processes, which a
// step of the wall clock during the run or a bad pair doesn't move far. 0 if there is no usable sample.
int64_t EpochOffset(absl::Span<const ClockSample> samples);

}  // namespace rankscope::analysis

#endif  // RANKSCOPE_ANALYSIS_RECORDING_TICK_CLOCK_H_
