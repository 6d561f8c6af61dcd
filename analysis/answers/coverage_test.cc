#include "analysis/answers/coverage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/answers/fake_recording.h"

namespace rankscope::answers {
namespace {

using ::testing::Contains;
using ::testing::Not;

std::vector<std::string> Ids(const std::vector<CoverageNote>& notes) {
  std::vector<std::string> ids;
  for (const auto& note : notes) ids.push_back(note.id);
  return ids;
}

Coverage For(int32_t nccl, int32_t api, uint32_t mask = 0xf0f) {
  FakeRecording recording(2);
  recording.AddComm(1, {0, 1});
  for (auto& rank : recording.mutable_ranks()) {
    rank.nccl_version = nccl;
    rank.nccl_api_version = api;
    rank.event_mask = mask;
  }
  return DescribeCoverage(recording.ranks(), Communicators(recording.ranks()), {});
}

TEST(CoverageTest, BroadcastIsACallAloneFromNccl229On) {
  EXPECT_THAT(Ids(For(22809, 5).not_reported), Not(Contains("broadcast_api_only")));
  EXPECT_THAT(Ids(For(22902, 6).not_reported), Contains("broadcast_api_only"));
  EXPECT_THAT(Ids(For(23007, 6).not_reported), Contains("broadcast_api_only"));
  EXPECT_THAT(Ids(For(23007, 4).not_reported), Contains("broadcast_unseen"));
}

TEST(CoverageTest, CallsAreUnknownBelowTableV5) {
  EXPECT_THAT(Ids(For(22707, 4).not_reported), Contains("no_api_events"));
  EXPECT_THAT(Ids(For(22809, 4).not_reported), Contains("no_api_events"));
  EXPECT_THAT(Ids(For(22809, 5).not_reported), Not(Contains("no_api_events")));
}

TEST(CoverageTest, CopyEngineAndSymmetricMemoryByRelease) {
  EXPECT_THAT(Ids(For(22707, 4).not_reported), Contains("symmetric_unseen"));
  EXPECT_THAT(Ids(For(22809, 5).not_reported), Contains("symmetric_api_only"));
  EXPECT_THAT(Ids(For(22809, 5).not_reported), Contains("copy_engine_unseen"));
  EXPECT_THAT(Ids(For(23007, 6).not_reported), Contains("copy_engine_no_end"));
  EXPECT_THAT(Ids(For(23102, 7).not_reported), Not(Contains("symmetric_api_only")));
}

TEST(CoverageTest, OldTablesGiveNeitherSizeNorIdentity) {
  EXPECT_THAT(Ids(For(22304, 1).not_trusted), Contains("size_inferred"));
  EXPECT_THAT(Ids(For(22304, 1).not_trusted), Not(Contains("identity_missing")));
  EXPECT_THAT(Ids(For(22809, 3).not_trusted), Contains("identity_missing"));
  EXPECT_THAT(Ids(For(22304, 1).not_trusted), Contains("sequence_while_profiling"));
  EXPECT_THAT(Ids(For(22707, 4).not_trusted), Not(Contains("size_inferred")));
}

TEST(CoverageTest, KernelTimesAreOnlySpokenOfWhereAskedFor) {
  EXPECT_THAT(Ids(For(23007, 6).not_trusted), Not(Contains("kernel_after_broadcast")));
  EXPECT_THAT(Ids(For(23007, 6, 0xf4f).not_trusted), Contains("kernel_after_broadcast"));
}

TEST(CoverageTest, AVersionThatCouldNotBeAskedIsTakenFromTheTableAndSaid) {
  const Coverage coverage = For(0, 6);
  EXPECT_THAT(Ids(coverage.not_reported), Contains("broadcast_api_only"));
  EXPECT_THAT(Ids(coverage.not_trusted), Contains("version_unknown"));
}

TEST(CoverageTest, LossesAreSummedByReason) {
  FakeRecording recording(3);
  recording.mutable_ranks()[0].losses = {{static_cast<uint32_t>(schema::LossReason::kNoLane), 5}, {40, 1}};
  recording.mutable_ranks()[2].losses = {{static_cast<uint32_t>(schema::LossReason::kNoLane), 7},
                                         {static_cast<uint32_t>(schema::LossReason::kEvicted), 0}};
  recording.mutable_ranks()[1].torn_records = 2;
  const Coverage coverage = DescribeCoverage(recording.ranks(), Communicators(recording.ranks()), {});
  ASSERT_EQ(coverage.losses.size(), 2u);
  EXPECT_EQ(coverage.losses[0].count, 12u);
  EXPECT_THAT(coverage.losses[0].rank_indices, ::testing::ElementsAre(0, 2));
  EXPECT_EQ(coverage.losses[1].reason, 40u);
  EXPECT_EQ(coverage.torn_records, 2u);
}

TEST(CoverageTest, OverwrittenRecordsAreSummedByKind) {
  FakeRecording recording(2);
  recording.mutable_ranks()[0].kinds = {{6, 100, 60, 40, 0}};
  recording.mutable_ranks()[1].kinds = {{6, 50, 50, 0, 3}, {17, 0, 0, 0, 0}};
  const Coverage coverage = DescribeCoverage(recording.ranks(), Communicators(recording.ranks()), {});
  ASSERT_EQ(coverage.kinds.size(), 1u);
  EXPECT_EQ(coverage.kinds[0].committed, 150u);
  EXPECT_EQ(coverage.kinds[0].overwritten, 40u);
  EXPECT_EQ(coverage.kinds[0].dropped, 3u);
  EXPECT_TRUE(coverage.records_overwritten);
}

}  // namespace
}  // namespace rankscope::answers
