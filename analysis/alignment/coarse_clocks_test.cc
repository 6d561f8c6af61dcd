// Clocks that are seconds apart, by the creation of communicators.
#include "analysis/alignment/coarse_clocks.h"

#include <gtest/gtest.h>

#include "analysis/alignment/planted_clocks.h"

namespace rankscope::alignment {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

class CoarseClocksTest : public ::testing::Test {
 protected:
  CoarseClocksTest() : ranks_(6), host_of_{0, 1, 2, 3, 4, 5} {
    for (uint32_t r = 0; r < ranks_.size(); ++r) ranks_[r].rank_index = r;
  }
  // These ranks, one a host, left its creation when their clocks showed this, after kPlantedStartNs.
  void Created(uint64_t hash, const std::vector<std::pair<uint32_t, int64_t>>& shown_ns, bool identity_known = true) {
    int32_t comm_rank = 0;
    for (const auto& [rank, after_ns] : shown_ns) {
      analysis::CommInfo comm;
      comm.slot = static_cast<uint16_t>(ranks_[rank].comms.size());
      comm.hash = hash;
      comm.rank = comm_rank++;
      comm.ranks = static_cast<int32_t>(shown_ns.size());
      comm.flags = schema::kCommSizeKnown | (identity_known ? schema::kCommIdentityKnown : 0u);
      comm.init_ns = kPlantedStartNs + after_ns;
      ranks_[rank].comms.push_back(comm);
    }
  }
  std::vector<int64_t> Offsets() const { return CoarseOffsets(ranks_, host_of_, 6); }

  std::vector<analysis::RankInfo> ranks_;
  std::vector<uint32_t> host_of_;
};

TEST_F(CoarseClocksTest, AnHourIsTakenOffAndLessThanASecondIsNot) {
  Created(7, {{0, 0}, {1, 3600 * kSecondNs}, {2, kSecondNs - 1}, {3, -2 * kSecondNs}});
  EXPECT_EQ(Offsets(), (std::vector<int64_t>{0, -3600 * kSecondNs, 0, 2 * kSecondNs, 0, 0}));
}

TEST_F(CoarseClocksTest, AHostIsReachedThroughAnother) {
  Created(7, {{0, 0}, {1, 3600 * kSecondNs}});
  Created(8, {{1, 3660 * kSecondNs}, {4, 60 * kSecondNs}});   // 4 shows what 0 would
  Created(9, {{4, 100 * kSecondNs}, {5, -900 * kSecondNs}});  // 5 is 1,000 s behind
  EXPECT_EQ(Offsets(), (std::vector<int64_t>{0, -3600 * kSecondNs, 0, 0, 0, 1000 * kSecondNs}));
}

TEST_F(CoarseClocksTest, ACommunicatorOfUnknownIdentityTellsNothing) {
  Created(0, {{0, 0}, {1, 3600 * kSecondNs}}, false);
  EXPECT_EQ(Offsets(), std::vector<int64_t>(6, 0));
}

TEST_F(CoarseClocksTest, TimesThatAreNotKnownAreNotTaken) {
  Created(7, {{0, -kPlantedStartNs}, {1, 3600 * kSecondNs}});  // 0: not known
  EXPECT_EQ(Offsets(), std::vector<int64_t>(6, 0));
}

TEST_F(CoarseClocksTest, SeveralCommunicatorsOutvoteOneWithALateMember) {
  Created(7, {{0, 0}, {1, 90 * kSecondNs}});  // 1 came 60 s late to it
  Created(8, {{0, 200 * kSecondNs}, {1, 230 * kSecondNs}});
  Created(9, {{0, 300 * kSecondNs}, {1, 330 * kSecondNs}});
  EXPECT_EQ(Offsets()[1], -30 * kSecondNs);
}

TEST_F(CoarseClocksTest, ACurveForShiftedTimesIsTheSameForThoseThatWereNot) {
  const int64_t offset_ns = -3600 * kSecondNs;
  const ClockCurve near({{kPlantedStartNs, 100}, {kPlantedStartNs + kSecondNs, 400}}, 1e-6);
  const ClockCurve far = Shifted(near, offset_ns);
  for (const int64_t after_ns : {-kSecondNs, int64_t{0}, kSecondNs / 2, 7 * kSecondNs}) {
    const int64_t shown_ns = kPlantedStartNs + after_ns;
    EXPECT_NEAR(far.At(shown_ns - offset_ns), near.At(shown_ns) + static_cast<double>(offset_ns), 1) << after_ns;
  }
}

}  // namespace
}  // namespace rankscope::alignment
