// The estimate against clocks that are known: how near it comes, and whether what it says of its own error holds.
#include "analysis/alignment/host_clocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "analysis/alignment/planted_clocks.h"

namespace rankscope::alignment {
namespace {

struct Errors {
  std::vector<double> ns;  // by host and time
  size_t within_error = 0, within_bound = 0;

  double Percentile(double share) {
    std::sort(ns.begin(), ns.end());
    return ns[static_cast<size_t>(share * static_cast<double>(ns.size() - 1))];
  }
};

// Of the hosts [first, last), with the host `reference`, all over the span of the operations.
Errors ErrorsOf(const PlantedClocks& planted, const std::vector<HostClock>& found, uint32_t first, uint32_t last,
                uint32_t reference, double span_ns = 60e9) {
  Errors errors;
  for (uint32_t h = first; h < last; ++h) {
    for (int i = 0; i <= 60; ++i) {
      const int64_t shown_ns = planted.Shows(h, span_ns * i / 60);
      const double error_ns = std::abs(found[h].curve.At(shown_ns) - planted.Correction(h, reference, shown_ns));
      errors.ns.push_back(error_ns);
      errors.within_error += error_ns <= static_cast<double>(found[h].error_ns);
      errors.within_bound += error_ns <= static_cast<double>(found[h].bound_ns);
    }
  }
  return errors;
}

// The bar of docs/design.md: 64 hosts within 50 ms and 50 ppm of each other, to 5 us at the 99th percentile.
TEST(HostClocksTest, SixtyFourHostsComeToWithinFiveMicroseconds) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    PlantedClocks planted(64, seed);
    planted.Add({});
    const std::vector<HostClock> found = EstimateHostClocks(planted.Samples(), 64);
    Errors errors = ErrorsOf(planted, found, 0, 64, 0);
    EXPECT_LE(errors.Percentile(0.99), 5000) << "seed " << seed;
    EXPECT_GE(errors.within_error, errors.ns.size() * 99 / 100) << "seed " << seed;
    EXPECT_EQ(errors.within_bound, errors.ns.size()) << "seed " << seed << ": proved";
    for (const HostClock& clock : found) {
      EXPECT_EQ(clock.group, 0);
      EXPECT_EQ(clock.operations, 1000u);
      EXPECT_EQ(clock.contradictions, 0u);
      EXPECT_LE(clock.error_ns, 20'000) << "of use";
      // With 1,000 operations whose arrivals lie 0.2 ms apart, somebody ends 0.1 ms (a transfer) after somebody came.
      EXPECT_LE(clock.bound_ns, 500'000);
    }
  }
}

TEST(HostClocksTest, TheReferenceKeepsItsOwnClock) {
  PlantedClocks planted(4, 3);
  planted.Add({});
  const std::vector<HostClock> found = EstimateHostClocks(planted.Samples(), 4);
  EXPECT_EQ(found[0].curve.At(kPlantedStartNs), 0);
  EXPECT_EQ(found[0].curve.At(kPlantedStartNs + 60'000'000'000), 0);
  EXPECT_EQ(found[0].error_ns, 0);
  EXPECT_EQ(found[0].bound_ns, 0);
  EXPECT_EQ(found[0].group, 0);
}

TEST(HostClocksTest, DriftIsSaidOfEachHost) {
  PlantedClocks planted(3, 5);
  planted[0].drift = 10e-6;
  planted[1].drift = 40e-6;
  planted[2].drift = -25e-6;
  planted.Add({});
  const std::vector<HostClock> found = EstimateHostClocks(planted.Samples(), 3);
  // A clock that gains 40 ppm has to lose 30 of them to run as one that gains 10.
  EXPECT_NEAR(found[1].curve.slope(), -30e-6, 0.3e-6);
  EXPECT_NEAR(found[2].curve.slope(), 35e-6, 0.3e-6);
}

TEST(HostClocksTest, AClockWhoseRateChangesIsFollowed) {
  PlantedClocks planted(8, 6);
  planted[5].bend = 3e-6;  // a degree or two of temperature
  planted[5].bend_after_ns = 25e9;
  planted.Add({.operations = 4000});
  const std::vector<HostClock> found = EstimateHostClocks(planted.Samples(), 8);
  EXPECT_LE(ErrorsOf(planted, found, 5, 6, 0).Percentile(0.99), 5000);
  EXPECT_LE(ErrorsOf(planted, found, 1, 8, 0).Percentile(0.99), 5000) << "nobody else is drawn along";
}

// If the reference is the one that bends, everybody else has to.
TEST(HostClocksTest, AReferenceWhoseRateChangesIsFollowedByAll) {
  PlantedClocks planted(8, 7);
  planted[0].bend = -3e-6;
  planted[0].bend_after_ns = 40e9;
  planted.Add({.operations = 4000});
  const std::vector<HostClock> found = EstimateHostClocks(planted.Samples(), 8);
  EXPECT_LE(ErrorsOf(planted, found, 1, 8, 0).Percentile(0.99), 5000);
}

TEST(HostClocksTest, HostsThatNeverMeetAreAlignedThroughThoseBetween) {
  PlantedClocks planted(6, 8);
  for (uint32_t h = 0; h + 1 < 6; ++h) planted.Add({.comm = h, .operations = 500, .hosts = {h, h + 1}});
  const std::vector<HostClock> found = EstimateHostClocks(planted.Samples(), 6);
  for (const HostClock& clock : found) EXPECT_EQ(clock.group, 0);
  Errors errors = ErrorsOf(planted, found, 1, 6, 0);
  EXPECT_LE(errors.Percentile(0.99), 5000);
  EXPECT_EQ(errors.within_bound, errors.ns.size());
  EXPECT_LT(found[1].bound_ns, found[5].bound_ns) << "limits add up along the way";
}

TEST(HostClocksTest, GroupsWithNothingInCommonAreKeptApart) {
  PlantedClocks planted(7, 9);
  planted.Add({.comm = 0, .operations = 300, .hosts = {0, 1, 2}});
  planted.Add({.comm = 1, .operations = 300, .hosts = {3, 4}});
  planted.Add({.comm = 2, .operations = 3, .hosts = {0, 6}});  // too few for a curve
  const std::vector<HostClock> found = EstimateHostClocks(planted.Samples(), 7);
  const int32_t expected[] = {0, 0, 0, 1, 1, -1, -1};
  for (uint32_t h = 0; h < 7; ++h) EXPECT_EQ(found[h].group, expected[h]) << h;
  EXPECT_LE(ErrorsOf(planted, found, 1, 3, 0).Percentile(0.99), 5000);
  EXPECT_LE(ErrorsOf(planted, found, 4, 5, 3).Percentile(0.99), 5000);
  for (const uint32_t h : {5u, 6u}) {
    EXPECT_EQ(found[h].curve.At(kPlantedStartNs), 0);
    EXPECT_EQ(found[h].error_ns, -1);
    EXPECT_EQ(found[h].bound_ns, -1);
    EXPECT_EQ(found[h].operations, 0u);
  }
}

TEST(HostClocksTest, NoOperationsAtAllSayNothing) {
  const std::vector<HostClock> found = EstimateHostClocks({}, 3);
  ASSERT_EQ(found.size(), 3u);
  for (const HostClock& clock : found) EXPECT_EQ(clock.group, -1);
  EXPECT_TRUE(EstimateHostClocks({}, 0).empty());
}

// A host's part in a few operations is really that of others, 5 ms later.
TEST(HostClocksTest, OperationsThatWerePutTogetherWronglyAreLeftOutAndCounted) {
  PlantedClocks planted(8, 10);
  planted.Add({});
  ClockSamples& samples = planted.Samples();
  size_t wrong = 0;
  for (size_t op = 0; op < samples.operations.size(); op += 50) {
    HostPart& part = samples.parts[samples.operations[op].first + 3];
    ASSERT_EQ(part.host, 3u);
    for (int64_t* ns : {&part.arrival_ns, &part.first_end_ns, &part.middle_end_ns}) *ns += 5'000'000;
    ++wrong;
  }
  const std::vector<HostClock> found = EstimateHostClocks(samples, 8);
  Errors errors = ErrorsOf(planted, found, 0, 8, 0);
  EXPECT_LE(errors.Percentile(0.99), 5000);
  EXPECT_EQ(errors.within_bound, errors.ns.size());
  for (const HostClock& clock : found) EXPECT_EQ(clock.contradictions, wrong);
}

TEST(HostClocksTest, LongOperationsWithWideEndsAreNotUsedWhereThereAreEnoughShortOnes) {
  PlantedClocks planted(8, 11);
  planted.Add({.operations = 300, .transfer_ns = 50e3});
  planted.Add({.operations = 1000, .transfer_ns = 50e6, .lateness_ns = 1e6, .end_noise_ns = 300e3});
  const std::vector<HostClock> found = EstimateHostClocks(planted.Samples(), 8);
  EXPECT_LE(ErrorsOf(planted, found, 1, 8, 0).Percentile(0.99), 5000);
  for (const HostClock& clock : found) {
    EXPECT_GE(clock.operations, 256u);
    EXPECT_LE(clock.operations, 400u);
    EXPECT_LE(clock.error_ns, 20'000);
  }
}

TEST(HostClocksTest, WideEndsAreSaidToBeWide) {
  PlantedClocks planted(8, 12);
  planted.Add({.operations = 100, .transfer_ns = 50e6, .end_noise_ns = 300e3});
  const std::vector<HostClock> found = EstimateHostClocks(planted.Samples(), 8);
  Errors errors = ErrorsOf(planted, found, 1, 8, 0);
  EXPECT_GE(errors.within_error, errors.ns.size() * 99 / 100);
  EXPECT_EQ(errors.within_bound, errors.ns.size());
  for (uint32_t h = 1; h < 8; ++h) EXPECT_GE(found[h].error_ns, 100'000);
}

// Four operations are the least: whatever is claimed must hold.
TEST(HostClocksTest, AFewOperationsAreAlignedWithTheErrorThatTheyLeave) {
  size_t within_bound = 0, of = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    PlantedClocks planted(2, seed, 50e6, 20e-6);
    planted.Add({.operations = 4, .span_ns = 1e9});
    const std::vector<HostClock> found = EstimateHostClocks(planted.Samples(), 2);
    ASSERT_EQ(found[1].group, 0);
    for (size_t op = 0; op < 4; ++op) {  // a bound holds where operations were
      const int64_t shown_ns = planted.Samples().parts[2 * op + 1].middle_end_ns;
      const double error_ns = std::abs(found[1].curve.At(shown_ns) - planted.Correction(1, 0, shown_ns));
      within_bound += error_ns <= static_cast<double>(found[1].bound_ns);
      ++of;
    }
  }
  EXPECT_EQ(within_bound, of);
}

}  // namespace
}  // namespace rankscope::alignment
