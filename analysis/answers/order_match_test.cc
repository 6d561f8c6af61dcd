#include "analysis/answers/order_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schema/event_abi.h"

namespace rankscope::answers {
namespace {

using schema::Function;
using ::testing::ElementsAre;

constexpr uint8_t kA = 1, kB = 2;
constexpr int64_t kTolerance = 10;

TEST(OrderMatchTest, EqualListsAreOneToOneHoweverFarTheHostIsAhead) {
  const auto match = MatchInOrder({{0, kA}, {1, kA}, {2, kA}}, {{100, kA}, {200, kA}, {300, kA}}, true, kTolerance);
  EXPECT_EQ(match.step, OrderStep::kInStep);
  EXPECT_THAT(match.launch_of, ElementsAre(0, 1, 2));
}

TEST(OrderMatchTest, AKernelMayBeginBeforeItsLaunchByTheToleranceAndNoMore) {
  EXPECT_THAT(MatchInOrder({{110, kA}}, {{100, kA}}, true, kTolerance).launch_of, ElementsAre(0));
  EXPECT_THAT(MatchInOrder({{111, kA}}, {{100, kA}}, true, kTolerance).launch_of, ElementsAre(-1));
}

TEST(OrderMatchTest, EqualListsThatContradictEachOtherAreNotMatched) {
  EXPECT_THAT(MatchInOrder({{0, kA}, {1, kB}}, {{100, kB}, {200, kA}}, true, kTolerance).launch_of,
              ElementsAre(-1, -1));
}

// The host launches at 0, 100, 200, 300; the kernel of 100 is lost. That of 0 began before any other launch. The
// others may each be its own launch's or the one's before.
TEST(OrderMatchTest, AfterALostKernelOnlyWhatHasNoChoiceIsMatched) {
  const std::vector<OrderedLaunch> launches = {{0, kA}, {100, kA}, {200, kA}, {300, kA}};
  const auto match = MatchInOrder(launches, {{50, kA}, {250, kA}, {350, kA}}, true, kTolerance);
  EXPECT_EQ(match.step, OrderStep::kGaps);
  EXPECT_THAT(match.launch_of, ElementsAre(0, -1, -1));
}

TEST(OrderMatchTest, FunctionsTellWhichKernelWasLost) {
  const std::vector<OrderedLaunch> launches = {{0, kA}, {100, kB}, {200, kA}, {300, kB}};
  EXPECT_THAT(MatchInOrder(launches, {{50, kA}, {250, kA}, {350, kB}}, true, kTolerance).launch_of,
              ElementsAre(0, 2, 3));
}

TEST(OrderMatchTest, ALostLaunchLeavesItsKernelAlone) {
  // The launch at 100 is lost; its kernel began before the next launch, so only it can be left over.
  EXPECT_THAT(MatchInOrder({{0, kA}, {200, kB}}, {{50, kA}, {150, kB}, {250, kB}}, true, kTolerance).launch_of,
              ElementsAre(0, -1, 1));
}

TEST(OrderMatchTest, WhereTheFrontIsNotKnownTheLastIsTheLast) {
  const auto match = MatchInOrder({{100, kA}, {200, kA}}, {{10, kA}, {150, kA}, {250, kA}}, false, kTolerance);
  EXPECT_EQ(match.step, OrderStep::kFromBack);
  EXPECT_THAT(match.launch_of, ElementsAre(-1, 0, 1));
}

TEST(OrderMatchTest, TheNameOfAKernelTellsItsFunctionAndNothingElse) {
  const auto of = [](const char* name) {
    uint8_t func = 0;
    return NcclKernelFunction(name, &func) ? func : uint8_t{0xee};
  };
  // The names that cupti.md, 5.5 gives for each family of releases.
  EXPECT_EQ(of("ncclKernel_AllReduce_RING_LL_Sum_float"), static_cast<uint8_t>(Function::kAllReduce));
  EXPECT_EQ(of("_Z40ncclDevKernel_ReduceScatter_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE"),
            static_cast<uint8_t>(Function::kReduceScatter));
  EXPECT_EQ(of("ncclDevKernel_Reduce_Sum_f32_RING_LL"), static_cast<uint8_t>(Function::kReduce));
  EXPECT_EQ(of("ncclDevKernel_SendRecv"), static_cast<uint8_t>(Function::kSendRecv));
  EXPECT_EQ(of("ncclSymkDevKernel_AllGather_LL"), static_cast<uint8_t>(Function::kAllGather));
  EXPECT_EQ(of("ncclDevKernel_Generic"), kAnyFunction);
  EXPECT_EQ(of("ampere_sgemm_128x64_nn"), 0xee);
}

}  // namespace
}  // namespace rankscope::answers
