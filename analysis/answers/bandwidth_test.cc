#include "analysis/answers/bandwidth.h"

#include <gtest/gtest.h>

#include "schema/event_abi.h"

namespace rankscope::answers {
namespace {

using schema::Function;
uint8_t F(Function f) { return static_cast<uint8_t>(f); }

// nccl-tests, doc/PERFORMANCE.md: AllReduce of S bytes in t on n ranks: S/t and S/t x 2(n-1)/n.
TEST(BandwidthTest, AllReduceHasTheFactorOfNcclTests) {
  const Bandwidth b = BandwidthOf(F(Function::kAllReduce), 8'000'000, 4, 1'000'000);
  EXPECT_DOUBLE_EQ(b.algorithm, 8e9);
  EXPECT_DOUBLE_EQ(b.bus, 12e9);
}

TEST(BandwidthTest, GatheringFunctionsCountTheWholeArray) {
  for (const Function f :
       {Function::kAllGather, Function::kReduceScatter, Function::kAlltoAll, Function::kGather, Function::kScatter}) {
    const Bandwidth b = BandwidthOf(F(f), 1'000'000, 8, 1'000'000);
    EXPECT_DOUBLE_EQ(b.algorithm, 8e9);  // 1 MB a rank x 8 in 1 ms
    EXPECT_DOUBLE_EQ(b.bus, 7e9);
  }
}

TEST(BandwidthTest, RootedAndPairwiseFunctionsHaveFactorOne) {
  for (const Function f : {Function::kBroadcast, Function::kReduce, Function::kSend, Function::kSendRecv}) {
    const Bandwidth b = BandwidthOf(F(f), 1'000'000, 8, 1'000'000);
    EXPECT_DOUBLE_EQ(b.algorithm, 1e9);
    EXPECT_DOUBLE_EQ(b.bus, 1e9);
  }
}

TEST(BandwidthTest, GivesNothingWithoutATimeOrAFormula) {
  EXPECT_EQ(BandwidthOf(F(Function::kAllReduce), 1000, 4, 0).algorithm, 0);
  EXPECT_EQ(BandwidthOf(F(Function::kAllReduce), 1000, 4, -5).algorithm, 0);
  EXPECT_EQ(BandwidthOf(F(Function::kAllGatherV), 1000, 4, 100).algorithm, 0);
  EXPECT_EQ(BandwidthOf(200, 1000, 4, 100).algorithm, 0);
}

}  // namespace
}  // namespace rankscope::answers
