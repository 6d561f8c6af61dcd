// The clock's fit against clocks whose truth is known by arithmetic.
#include "analysis/recording/tick_clock.h"

#include <gtest/gtest.h>

#include <vector>

#include "schema/ring_abi.h"

namespace rankscope::analysis {
namespace {

constexpr int64_t kOffsetNs = 1'700'000'000'000'000'000;

ClockDescription Tsc(uint64_t rate) {
  ClockDescription description;
  description.tick_source = static_cast<uint32_t>(schema::TickSource::kTsc);
  description.ticks_per_second = rate;
  return description;
}

// Pairs once a second of a counter that runs at `true_rate` and read 0 at monotonic 0.
std::vector<ClockSample> Samples(int seconds, double true_rate) {
  std::vector<ClockSample> samples;
  for (int s = 1; s <= seconds; ++s) {
    const uint64_t ns = static_cast<uint64_t>(s) * 1'000'000'000;
    samples.push_back({static_cast<uint64_t>(static_cast<double>(ns) * true_rate / 1e9), ns, ns + kOffsetNs, 50});
  }
  return samples;
}

TEST(TickClockTest, RateErrorOfTheStartEstimateIsFittedAway) {
  // The recorder thought 2.5 GHz, the truth is 100 ppm faster: after 100 s the estimate alone would be 10 ms off.
  const double true_rate = 2.5e9 * (1 + 100e-6);
  const TickClock clock = TickClock::Fit(Tsc(2'500'000'000), Samples(100, true_rate), kOffsetNs);
  const uint64_t ticks = static_cast<uint64_t>(77.5 * true_rate);
  EXPECT_NEAR(static_cast<double>(clock.ToEpochNs(ticks) - kOffsetNs), 77.5e9, 100);
  EXPECT_NEAR(clock.ticks_per_second(), true_rate, 10);
}

TEST(TickClockTest, OnePairThatIsWildlyOffDoesNotMoveTheFit) {
  std::vector<ClockSample> samples = Samples(60, 1e9);
  samples[30].monotonic_ns += 500'000'000;
  const TickClock clock = TickClock::Fit(Tsc(1'000'000'000), samples, kOffsetNs);
  EXPECT_NEAR(static_cast<double>(clock.ToEpochNs(31'000'000'000) - kOffsetNs), 31e9, 1000);
}

TEST(TickClockTest, WithoutPairsTheStartIsHeldOnTo) {
  ClockDescription description = Tsc(2'000'000'000);
  description.start_ticks = 4'000'000'000;
  description.start_realtime_ns = kOffsetNs;
  const TickClock clock = TickClock::Fit(description, {}, 0);
  EXPECT_EQ(clock.ToEpochNs(6'000'000'000), kOffsetNs + 1'000'000'000);
}

TEST(TickClockTest, ZeroTicksMeanNotYet) {
  const TickClock clock = TickClock::Fit(Tsc(1'000'000'000), Samples(10, 1e9), kOffsetNs);
  EXPECT_EQ(clock.ToEpochNs(0), 0);
}

TEST(TickClockTest, GarbagePairsAndRatesGiveSomeClockAndNoOverflow) {
  std::vector<ClockSample> samples = {
      {~0ull, ~0ull, ~0ull, ~0ull}, {0, 0, 0, 0}, {1ull << 62, 1, 1ull << 63, 0}, {5, ~0ull, 3, 1}};
  for (const uint64_t rate : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    const TickClock clock = TickClock::Fit(Tsc(rate), samples, INT64_MIN);
    for (const uint64_t ticks : {uint64_t{1}, uint64_t{1} << 40, uint64_t{1} << 63, ~uint64_t{0}}) {
      EXPECT_GE(clock.ToEpochNs(ticks), 0);
      EXPECT_GE(clock.LengthNs(ticks), 0);
    }
  }
}

TEST(TickClockTest, TheOffsetOfAHostIsTheMedianOfItsSamples) {
  std::vector<ClockSample> samples = Samples(9, 1e9);
  samples[4].realtime_ns += 3'600'000'000'000;  // somebody set the wall clock for a moment
  EXPECT_EQ(EpochOffset(samples), kOffsetNs);
}

TEST(TickClockTest, ConversionNeverStepsBack) {
  const TickClock clock = TickClock::Fit(Tsc(1'000'000'000), Samples(200, 1e9 * (1 + 30e-6)), kOffsetNs);
  TickConverter converter(&clock);
  int64_t last = 0;
  for (uint64_t ticks = 1; ticks < 210'000'000'000; ticks += 37'000'001) {
    const int64_t now = converter.ToEpochNs(ticks);
    ASSERT_GE(now, last);
    ASSERT_EQ(now, clock.ToEpochNs(ticks));
    last = now;
  }
}

}  // namespace
}  // namespace rankscope::analysis
