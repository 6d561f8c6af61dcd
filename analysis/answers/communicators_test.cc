#include "analysis/answers/communicators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/answers/fake_recording.h"

namespace rankscope::answers {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CommunicatorsTest, SameHashOnAllRanksIsOneCommunicator) {
  FakeRecording recording(4);
  recording.AddComm(0xaa, {0, 1, 2, 3});
  recording.AddComm(0xbb, {2, 0});
  const Communicators comms(recording.ranks());
  ASSERT_EQ(comms.all().size(), 2u);
  EXPECT_EQ(comms[0].hash, 0xaau);
  EXPECT_EQ(comms[0].size, 4u);
  EXPECT_TRUE(comms[0].size_known);
  EXPECT_THAT(comms[0].missing_comm_ranks, IsEmpty());
  // By communicator rank: process 2 is rank 0 of the second one.
  ASSERT_EQ(comms[1].members.size(), 2u);
  EXPECT_EQ(comms[1].members[0].rank_index, 2u);
  EXPECT_EQ(comms[1].members[1].rank_index, 0u);
  EXPECT_EQ(comms.Find(0, 1), 1u);
  EXPECT_EQ(comms.Find(1, 1), kNoCommunicator);
  EXPECT_EQ(comms.Find(9, 0), kNoCommunicator);
  EXPECT_EQ(comms.MemberOf(0, 1), 1u);
}

TEST(CommunicatorsTest, ARepeatedHashIsToldApartByOrderOfCreation) {
  FakeRecording recording(2);
  recording.AddComm(0xaa, {0, 1});
  recording.AddComm(0xaa, {0, 1});
  const Communicators comms(recording.ranks());
  ASSERT_EQ(comms.all().size(), 2u);
  EXPECT_EQ(comms[0].members.size(), 2u);
  EXPECT_EQ(comms[1].members.size(), 2u);
  EXPECT_NE(comms.Find(0, 0), comms.Find(0, 1));
  EXPECT_EQ(comms.Find(0, 1), comms.Find(1, 1));
}

TEST(CommunicatorsTest, TwoRanksOfOneProcessAreTwoMembers) {
  FakeRecording recording(1);
  recording.AddComm(0xaa, {0, 0});
  const Communicators comms(recording.ranks());
  ASSERT_EQ(comms.all().size(), 1u);
  EXPECT_EQ(comms[0].members.size(), 2u);
  EXPECT_EQ(comms[0].members[1].comm_rank, 1);
}

TEST(CommunicatorsTest, NamesMembersWithoutARecording) {
  FakeRecording recording(3);
  recording.AddComm(0xaa, {0, 1, 2});
  recording.mutable_ranks()[1].comms.clear();
  const Communicators comms(recording.ranks());
  ASSERT_EQ(comms.all().size(), 1u);
  EXPECT_EQ(comms[0].size, 3u);
  EXPECT_THAT(comms[0].missing_comm_ranks, ElementsAre(1));
}

// Tables v1 to v3 don't tell the size.
TEST(CommunicatorsTest, InfersASizeThatNcclDidNotTell) {
  FakeRecording recording(3);
  recording.AddComm(0xaa, {0, 1, 2});
  for (auto& rank : recording.mutable_ranks()) {
    rank.comms[0].ranks = 0;
    rank.comms[0].flags = schema::kCommIdentityKnown;
  }
  const Communicators comms(recording.ranks());
  EXPECT_FALSE(comms[0].size_known);
  EXPECT_EQ(comms[0].size, 3u);
}

TEST(CommunicatorsTest, WithoutAHashTheOrderOfCreationIsAssumedAndSaid) {
  FakeRecording recording(2);
  const auto a = recording.AddComm(0, {0, 1});
  const auto b = recording.AddComm(0, {0, 1});
  for (const auto& comm : {a, b}) recording.Collective(comm, {}, {kStartNs, kStartNs});
  for (auto& rank : recording.mutable_ranks()) {
    for (auto& comm : rank.comms) comm.flags = schema::kCommIdentityMissing;
  }
  const Communicators comms(recording.ranks());
  ASSERT_EQ(comms.all().size(), 2u);
  EXPECT_TRUE(comms[0].identity_assumed);
  EXPECT_EQ(comms[0].members.size(), 2u);
  ASSERT_EQ(comms.notes().size(), 1u);
  EXPECT_THAT(comms.notes()[0], HasSubstr("identity assumed"));
}

// Split by parity with no hash: four processes each made one communicator, of two ranks 0 and two ranks 1.
TEST(CommunicatorsTest, ContradictedOrderOfCreationMatchesNobody) {
  FakeRecording recording(4);
  recording.AddComm(0, {0, 2});
  recording.AddComm(0, {1, 3});
  for (auto& rank : recording.mutable_ranks()) rank.comms[0].flags = schema::kCommIdentityMissing;
  const Communicators comms(recording.ranks());
  EXPECT_EQ(comms.all().size(), 4u);
  ASSERT_EQ(comms.notes().size(), 1u);
  EXPECT_THAT(comms.notes()[0], HasSubstr("contradict"));
}

// Up to API v3 a process that never ran an operation does not know the hash: a rank that never joins, for one.
TEST(CommunicatorsTest, AProcessWithoutEventsIsPutToTheCommunicatorOfAllOthers) {
  FakeRecording recording(3);
  const auto comm = recording.AddComm(0xaa, {0, 1, 2});
  recording.Collective(comm, {}, {kStartNs, kStartNs, kAbsent});
  for (auto& rank : recording.mutable_ranks()) rank.comms[0].flags = schema::kCommIdentityKnown;
  auto& silent = recording.mutable_ranks()[2].comms[0];
  silent.flags = 0;
  silent.hash = 0;
  silent.rank = -1;
  silent.ranks = 0;
  const Communicators comms(recording.ranks());
  ASSERT_EQ(comms.all().size(), 1u);
  EXPECT_EQ(comms[0].members.size(), 3u);
  EXPECT_TRUE(comms[0].identity_assumed);
  EXPECT_TRUE(comms[0].identity_known);
}

TEST(CommunicatorsTest, KeepsACommunicatorOfOneRank) {
  FakeRecording recording(1);
  recording.AddComm(0xaa, {0});
  const Communicators comms(recording.ranks());
  ASSERT_EQ(comms.all().size(), 1u);
  EXPECT_EQ(CommunicatorLabel(comms[0]), "communicator 0 (1 rank)");
}

TEST(CommunicatorsTest, AHugeSizeFromAFileMakesNoHugeList) {
  FakeRecording recording(1);
  recording.AddComm(0xaa, {0});
  recording.mutable_ranks()[0].comms[0].ranks = INT32_MAX;
  recording.mutable_ranks()[0].comms[0].rank = INT32_MAX;
  const Communicators comms(recording.ranks());
  EXPECT_LE(comms[0].missing_comm_ranks.size(), 1u << 20);
}

}  // namespace
}  // namespace rankscope::answers
