// Curves: fitted to points whose line is known, and applied to times.
#include "analysis/alignment/clock_curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "analysis/alignment/planted_clocks.h"

namespace rankscope::alignment {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

// `count` points over `span_ns` of the line with this height in the middle and slope, plus normal noise.
std::vector<CurvePoint> Points(size_t count, int64_t span_ns, double height_ns, double slope, double sigma_ns,
                               uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0, 1);
  std::vector<CurvePoint> points;
  for (size_t i = 0; i < count; ++i) {
    const int64_t after_ns = span_ns * static_cast<int64_t>(i) / static_cast<int64_t>(count - 1) - span_ns / 2;
    points.push_back(
        {kPlantedStartNs + after_ns, height_ns + slope * static_cast<double>(after_ns) + sigma_ns * noise(random)});
  }
  return points;
}

TEST(ClockCurveTest, ALineThatADistantFifthOfThePointsContradictsIsFoundAllTheSame) {
  std::vector<CurvePoint> points = Points(1000, 60 * kSecondNs, 7e6, 30e-6, 1000);
  for (size_t i = 0; i < points.size(); i += 5) points[i].correction_ns += 3e6;  // all on one side
  const CurveFit fit = FitCurve(points);
  ASSERT_TRUE(fit.fitted);
  // A fifth of outliers on one side moves the median to the 62.5th percentile of the rest: 0.32 sigma.
  for (const int64_t after_s : {-30, -10, 0, 20, 30}) {
    const double truth_ns = 7e6 + 30e-6 * static_cast<double>(after_s * kSecondNs);
    EXPECT_NEAR(fit.curve.At(kPlantedStartNs + after_s * kSecondNs), truth_ns, 320 + 300) << after_s;
  }
  EXPECT_NEAR(fit.curve.slope(), 30e-6, 1e-8);
  // The median of the distances of all points: the 62.5th percentile of the good ones, 0.89 sigma, times 1.4826.
  EXPECT_NEAR(fit.spread_ns, 1.32 * 1000, 200);
}

TEST(ClockCurveTest, FewerPointsThanALineNeedsAreNotFitted) {
  for (size_t count = 2; count < kLeastPoints; ++count) {
    EXPECT_FALSE(FitCurve(Points(count, kSecondNs, 5, 0, 0)).fitted) << count;
  }
  EXPECT_FALSE(FitCurve({}).fitted);
  EXPECT_TRUE(FitCurve(Points(kLeastPoints, kSecondNs, 5, 0, 0)).fitted);
}

TEST(ClockCurveTest, ASlopeThatThePointsCanNotTellIsNotUsed) {
  // Sigma of the slope: 1000 ns x sqrt(12 / 20) / 10 ms = 77 ppm: 50 ppm may as well be none.
  const CurveFit fit = FitCurve(Points(20, 10'000'000, 9000, 50e-6, 1000));
  ASSERT_TRUE(fit.fitted);
  EXPECT_EQ(fit.curve.slope(), 0);
  EXPECT_NEAR(fit.curve.At(kPlantedStartNs), 9000, 1000);
  // ... and what it may be wrong by for that is said: the true line is off by 250 ns at the ends.
  EXPECT_GE(fit.shape_ns, 250);
}

TEST(ClockCurveTest, PointsOfOneMomentHaveNoSlope) {
  std::vector<CurvePoint> points(100, CurvePoint{kPlantedStartNs, 40});
  points[3].correction_ns = -1e9;
  const CurveFit fit = FitCurve(points);
  ASSERT_TRUE(fit.fitted);
  EXPECT_EQ(fit.curve.At(kPlantedStartNs + 5 * kSecondNs), 40);
}

TEST(ClockCurveTest, AClockWhoseRateChangesGetsAPieceForEach) {
  // 20 ppm for 30 s, then -40 ppm: at the best line this is 450 us off.
  std::vector<CurvePoint> points = Points(3000, 60 * kSecondNs, 0, 20e-6, 2000);
  const auto truth_ns = [](int64_t at_ns) {
    const auto after_ns = static_cast<double>(at_ns - kPlantedStartNs);
    return 20e-6 * after_ns - 60e-6 * std::max(0.0, after_ns);
  };
  for (CurvePoint& point : points) {
    point.correction_ns -= 60e-6 * std::max(0.0, static_cast<double>(point.at_ns - kPlantedStartNs));
  }
  const CurveFit fit = FitCurve(points);
  ASSERT_TRUE(fit.fitted);
  EXPECT_GT(fit.curve.knots().size(), 10u);
  // Within a piece (64 of them: 0.94 s) the bend may be missed: by up to 60 ppm x 0.94 s / 4.
  const int64_t margin_ns = kSecondNs;
  for (int64_t at_ns = points.front().at_ns + margin_ns; at_ns < points.back().at_ns - margin_ns;
       at_ns += kSecondNs / 3) {
    EXPECT_NEAR(fit.curve.At(at_ns), truth_ns(at_ns), fit.shape_ns) << at_ns - kPlantedStartNs;
    EXPECT_NEAR(fit.curve.At(at_ns), truth_ns(at_ns), 17'000) << at_ns - kPlantedStartNs;
  }
}

TEST(ClockCurveTest, ASteadyClockStaysALineHoweverManyPointsThereAre) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const CurveFit fit = FitCurve(Points(2000, 60 * kSecondNs, 1e6, -17e-6, 3000, seed));
    EXPECT_EQ(fit.curve.knots().size(), 1u) << seed;
  }
}

TEST(ClockCurveTest, TheConverterAddsWhatTheCurveSaysInWhateverOrderTimesCome) {
  std::vector<CurvePoint> knots;
  for (int i = 0; i < 10; ++i) {
    knots.push_back({kPlantedStartNs + i * kSecondNs, 1000.0 * i * (i % 3)});
  }
  const ClockCurve curve(knots, 25e-6);
  ClockConverter convert(&curve);
  std::mt19937_64 random(4);
  for (int i = 0; i < 10'000; ++i) {
    const int64_t at_ns = kPlantedStartNs + static_cast<int64_t>(random() % 14'000'000'000) - 2 * kSecondNs;
    // The corrections are below 2^53 ns, so At() is good to far less than a ns; rounding may differ by one.
    EXPECT_NEAR(static_cast<double>(convert(at_ns) - at_ns), curve.At(at_ns), 1.0);
  }
  for (const CurvePoint& knot : knots) {
    EXPECT_EQ(convert(knot.at_ns) - knot.at_ns, std::llround(knot.correction_ns));
  }
}

TEST(ClockCurveTest, ATimeThatIsNotKnownStaysAndNoTimeBecomesOne) {
  const ClockCurve curve(CurvePoint{kPlantedStartNs, -5e6}, 0);
  ClockConverter convert(&curve);
  EXPECT_EQ(convert(0), 0);
  EXPECT_EQ(convert(-7), -7);
  EXPECT_EQ(convert(1), 1) << "0 would mean that it is not known";
  EXPECT_EQ(convert(INT64_MAX), INT64_MAX);
  EXPECT_EQ(convert(INT64_MIN), INT64_MIN);
  EXPECT_EQ(convert(kPlantedStartNs), kPlantedStartNs - 5'000'000);
  const ClockCurve nothing;
  ClockConverter keep(&nothing);
  EXPECT_EQ(keep(kPlantedStartNs), kPlantedStartNs);
}

TEST(ClockCurveTest, ACorrectedClockNeverRunsBackwards) {
  // A clock that was set back by 2 s in the middle: no curve of a clock, and not to be followed.
  std::vector<CurvePoint> points = Points(2000, 60 * kSecondNs, 0, 0, 1000);
  for (size_t i = points.size() / 2; i < points.size(); ++i) points[i].correction_ns -= 2e9;
  const CurveFit fit = FitCurve(points);
  ASSERT_TRUE(fit.fitted);
  ClockConverter convert(&fit.curve);
  int64_t before_ns = 0;
  for (int64_t at_ns = points.front().at_ns; at_ns < points.back().at_ns; at_ns += 1'000'000) {
    const int64_t now_ns = convert(at_ns);
    ASSERT_GE(now_ns, before_ns);
    before_ns = now_ns;
  }
}

}  // namespace
}  // namespace rankscope::alignment
