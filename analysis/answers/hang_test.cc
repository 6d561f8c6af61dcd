#include "analysis/answers/hang.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/answers/fake_recording.h"
#include "analysis/answers/report_text.h"

namespace rankscope::answers {
namespace {

using schema::Function;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int64_t kMs = 1'000'000;

struct Job {
  explicit Job(uint32_t ranks) : recording(ranks) {
    std::vector<uint32_t> all(ranks);
    for (uint32_t i = 0; i < ranks; ++i) all[i] = i;
    comm = recording.AddComm(1, all);
  }
  // `count` collectives that all ranks finished.
  void Healthy(int64_t count, Function func = Function::kAllReduce) {
    const std::vector<int64_t> arrivals(comm.processes.size(), kStartNs);
    for (int64_t i = 0; i < count; ++i) recording.Collective(comm, {.func = func, .transfer_ns = kMs}, arrivals);
  }
  FakeRecording recording;
  FakeRecording::Comm comm;
};

std::vector<uint32_t> MembersIn(const WaitingOperation& op) {
  std::vector<uint32_t> members;
  for (const WaitingPart& part : op.in_it) members.push_back(part.member);
  return members;
}

TEST(HangTest, AFinishedJobWaitsForNothing) {
  Job job(4);
  job.Healthy(20);
  const HangReport report = BuildHangReport(job.recording);
  EXPECT_EQ(report.verdict, HangVerdict::kNothingWaits);
  EXPECT_THAT(report.communicators, IsEmpty());
}

TEST(HangTest, NamesTheRankThatHasNotCalledWhatOthersAreIn) {
  Job job(4);
  job.Healthy(17);
  // Live: three are in AllReduce #17 of 64 MiB for 12.3 s.
  for (auto& rank : job.recording.mutable_ranks()) {
    rank.alive = true;
    rank.read_ns = kStartNs + 12'300 * kMs;
  }
  for (const uint32_t r : {0u, 1u, 3u}) {
    job.recording.LeaveInFlight(job.comm, r, {.count = 16'777'216}, kStartNs + 300, 4, r == 0 ? 3 : 0);
  }
  const HangReport report = BuildHangReport(job.recording);
  ASSERT_EQ(report.verdict, HangVerdict::kRanksMissing);
  ASSERT_THAT(report.communicators, SizeIs(1));
  ASSERT_THAT(report.communicators[0].operations, SizeIs(1));
  const WaitingOperation& op = report.communicators[0].operations[0];
  EXPECT_EQ(op.key.number, 17u);
  EXPECT_THAT(op.not_reached, ElementsAre(2));
  EXPECT_THAT(MembersIn(op), ElementsAre(0, 1, 3));
  EXPECT_EQ(op.longest_age_ns, 12'300 * kMs);
  EXPECT_EQ(WaitingSentence(report, op),
            "rank 2 has not called AllReduce #17 (67.1 MB, float32, RING SIMPLE) on communicator 0 (4 ranks); "
            "ranks 0, 1, 3 are in it, the longest for 12.3 s");
  EXPECT_THAT(RenderHangText(report), HasSubstr("py-spy dump --pid 1002    # on node0: rank 2"));
  ASSERT_THAT(report.communicators[0].progress, SizeIs(1));
  EXPECT_EQ(report.communicators[0].progress[0].most, 18u);
  EXPECT_EQ(report.communicators[0].progress[0].least, 17u);
  EXPECT_THAT(report.communicators[0].progress[0].behind, ElementsAre(2));
}

TEST(HangTest, AYoungWaitInALiveJobIsNoHang) {
  Job job(2);
  job.Healthy(3);
  for (auto& rank : job.recording.mutable_ranks()) {
    rank.alive = true;
    rank.read_ns = kStartNs + 50 * kMs;
  }
  job.recording.LeaveInFlight(job.comm, 0, {}, kStartNs + 40 * kMs, 2, 0);
  EXPECT_EQ(BuildHangReport(job.recording).verdict, HangVerdict::kNothingWaits);
}

// As in the recordings abort-n4: the last rank never joins, the others give up.
TEST(HangTest, AnAbortedJobSaysWhoNeverJoined) {
  Job job(4);
  for (const uint32_t r : {0u, 1u, 2u}) {
    job.recording.LeaveInFlight(job.comm, r, {.count = 32768}, kStartNs + r, 4, 0);
    job.recording.InfoOf(job.comm, r).flags |= schema::kCommFinalized;
  }
  const HangReport report = BuildHangReport(job.recording);
  ASSERT_EQ(report.verdict, HangVerdict::kRanksMissing);
  const WaitingOperation& op = report.communicators[0].operations.at(0);
  EXPECT_EQ(op.key.number, 0u);
  EXPECT_THAT(op.not_reached, ElementsAre(3));
  EXPECT_THAT(RenderHangText(report), HasSubstr("rank 3 has not called AllReduce #0 (131 kB, float32"));
}

TEST(HangTest, ARankWithoutRecordingIsNamedByItsCommunicatorRank) {
  Job job(3);
  job.recording.mutable_ranks()[2].comms.clear();
  job.recording.LeaveInFlight(job.comm, 0, {}, kStartNs, 2, 0);
  job.recording.LeaveInFlight(job.comm, 1, {}, kStartNs, 2, 0);
  const HangReport report = BuildHangReport(job.recording);
  ASSERT_EQ(report.verdict, HangVerdict::kRanksMissing);
  EXPECT_THAT(report.communicators[0].operations.at(0).without_ring, ElementsAre(2));
  EXPECT_THAT(RenderHangText(report, {.width = 0}),
              HasSubstr("communicator rank 2 (no recording here) is not known to"));
}

// A rank is finished, another unfinished, a third not observable: three things.
TEST(HangTest, FinishedUnfinishedAndNotObservableStayApart) {
  Job job(3);
  job.recording.LeaveInFlight(job.comm, 0, {}, kStartNs, 4, 4);
  job.recording.LeaveInFlight(job.comm, 1, {}, kStartNs, 4, 2);
  job.recording.LeaveInFlight(job.comm, 2, {}, kStartNs, 0, 0);
  const HangReport report = BuildHangReport(job.recording);
  ASSERT_EQ(report.verdict, HangVerdict::kStuckTogether);
  const WaitingOperation& op = report.communicators[0].operations.at(0);
  EXPECT_THAT(op.finished, ElementsAre(0));
  ASSERT_THAT(op.in_it, SizeIs(2));
  for (const WaitingPart& part : op.in_it) {
    EXPECT_EQ(part.progress, part.member == 1 ? OperationProgress::kUnfinished : OperationProgress::kNotObservable);
  }
}

TEST(HangTest, NotObservableEverywhereIsNoHang) {
  Job job(2);
  for (uint32_t r = 0; r < 2; ++r) job.recording.LeaveInFlight(job.comm, r, {}, kStartNs, 0, 0);
  EXPECT_EQ(BuildHangReport(job.recording).verdict, HangVerdict::kNothingWaits);
}

// On one node no proxy tells an end; that a rank has not come is known all the same.
TEST(HangTest, NotObservableAndNotReachedIsAHang) {
  Job job(3);
  for (const uint32_t r : {0u, 2u}) job.recording.LeaveInFlight(job.comm, r, {}, kStartNs, 0, 0);
  const HangReport report = BuildHangReport(job.recording);
  ASSERT_EQ(report.verdict, HangVerdict::kRanksMissing);
  EXPECT_THAT(report.communicators[0].operations.at(0).not_reached, ElementsAre(1));
}

TEST(HangTest, RanksThatDisagreeOnTheSizeAreNamed) {
  Job job(3);
  for (uint32_t r = 0; r < 3; ++r)
    job.recording.LeaveInFlight(job.comm, r, {.count = r == 1 ? 500u : 1000u}, kStartNs, 2, 0);
  const HangReport report = BuildHangReport(job.recording);
  ASSERT_EQ(report.verdict, HangVerdict::kDisagreement);
  EXPECT_EQ(report.communicators[0].operations.at(0).mismatches, kMismatchBytes);
  const std::string text = RenderHangText(report, {.width = 0});
  EXPECT_THAT(text, HasSubstr("disagree on its size: 2.00 kB (2000 B) on rank 1, 4.00 kB (4000 B) on ranks 0, 2"));
}

TEST(HangTest, RanksInDifferentFunctionsAtOnePositionDisagree) {
  Job job(3);
  job.Healthy(5);
  job.recording.LeaveInFlight(job.comm, 0, {}, kStartNs + kMs, 2, 0);
  job.recording.LeaveInFlight(job.comm, 1, {.func = Function::kAllGather}, kStartNs + kMs, 2, 0);
  job.recording.LeaveInFlight(job.comm, 2, {}, kStartNs + kMs, 2, 0);
  const HangReport report = BuildHangReport(job.recording);
  ASSERT_EQ(report.verdict, HangVerdict::kDisagreement);
  ASSERT_THAT(report.communicators[0].disagreements, SizeIs(1));
  const KindDisagreement& one = report.communicators[0].disagreements[0];
  EXPECT_EQ(one.position, 5);
  EXPECT_THAT(RenderHangText(report, {.width = 0}),
              HasSubstr("ranks disagree on the operation at position 5 of communicator 0 (3 ranks)"));
}

// The call is open, the launch has not come: the same operation as what others launched.
TEST(HangTest, ACallThatDoesNotReturnIsInTheOperationThatOthersLaunched) {
  Job job(2);
  job.Healthy(2);
  job.recording.LeaveInFlight(job.comm, 0, {}, kStartNs + kMs, 2, 0);
  job.recording.LeaveInFlight(job.comm, 1, {.launch = false}, kStartNs + kMs, 0, 0, true);
  const HangReport report = BuildHangReport(job.recording);
  ASSERT_THAT(report.communicators, SizeIs(1));
  ASSERT_THAT(report.communicators[0].operations, SizeIs(1));
  const WaitingOperation& op = report.communicators[0].operations[0];
  EXPECT_THAT(MembersIn(op), ElementsAre(0, 1));
  EXPECT_THAT(op.not_reached, IsEmpty());
  EXPECT_TRUE(op.in_it[1].call_open);
  EXPECT_EQ(op.mismatches, 0);
}

TEST(HangTest, AReceiverThatWaitsForASenderNamesTheSender) {
  Job job(3);
  for (int64_t i = 0; i < 4; ++i) job.recording.PointToPoint(job.comm, 0, 1, 100, kStartNs + i, kStartNs + i, 5);
  job.recording.PointToPoint(job.comm, 0, 1, 100, kAbsent, kStartNs + 100, 5);
  analysis::InFlightInfo slot;
  slot.kind = static_cast<uint16_t>(schema::EventKind::kP2p);
  slot.state = schema::kSlotIsOperation | schema::kSlotIssued;
  slot.comm = 0;
  slot.func = static_cast<uint8_t>(Function::kRecv);
  slot.dtype = static_cast<uint8_t>(schema::DataType::kFloat32);
  slot.root_or_peer = 0;
  slot.count = 100;
  slot.ordinal = 4;
  slot.begin_ns = slot.issue_ns = kStartNs + 100;
  slot.children_started = 2;
  job.recording.mutable_ranks()[1].in_flight.push_back(slot);
  const HangReport report = BuildHangReport(job.recording);
  ASSERT_EQ(report.verdict, HangVerdict::kRanksMissing);
  const WaitingOperation& op = report.communicators[0].operations.at(0);
  EXPECT_EQ(op.key.sender, 0);
  EXPECT_EQ(op.key.receiver, 1);
  EXPECT_EQ(op.key.number, 4u);
  EXPECT_THAT(op.not_reached, ElementsAre(0));
  EXPECT_THAT(RenderHangText(report), HasSubstr("rank 0 has not called Send/Recv 0->1 #4"));
}

TEST(HangTest, AnEvictedOperationIsStillKnownToHaveNotEnded) {
  Job job(2);
  job.Healthy(1);
  job.recording.LeaveInFlight(job.comm, 0, {}, kStartNs + 10, 2, 0);
  const analysis::InFlightInfo slot = job.recording.mutable_ranks()[0].in_flight.back();
  job.recording.mutable_ranks()[0].in_flight.clear();
  analysis::Event evicted;
  evicted.kind = static_cast<uint16_t>(schema::EventKind::kOpEvicted);
  evicted.comm = 0;
  evicted.aux = 2;
  evicted.op_id = slot.op_id;
  evicted.begin_ns = slot.begin_ns;
  evicted.end_ns = kStartNs + 100 * kMs;
  evicted.payload.coll = {slot.count, slot.seq, slot.ordinal, slot.func, slot.dtype, 2, 3, -1};
  job.recording.mutable_events().push_back(evicted);
  const HangReport report = BuildHangReport(job.recording);
  ASSERT_EQ(report.verdict, HangVerdict::kRanksMissing);
  const WaitingOperation& op = report.communicators[0].operations.at(0);
  EXPECT_TRUE(op.in_it.at(0).evicted);
  EXPECT_THAT(op.not_reached, ElementsAre(1));
}

TEST(HangTest, AThousandRanksReadAsOneSentence) {
  Job job(1024);
  for (uint32_t r = 0; r < 1024; ++r) {
    if (r != 511 && r != 600) job.recording.LeaveInFlight(job.comm, r, {}, kStartNs, 4, 0);
  }
  const HangReport report = BuildHangReport(job.recording);
  const std::string text = RenderHangText(report, {.width = 0});
  EXPECT_THAT(text, HasSubstr("ranks 511, 600 have not called AllReduce #0"));
  EXPECT_THAT(text, HasSubstr("ranks 0-510, 512-599, 601-1023 were in it"));
  EXPECT_LT(text.size(), 1500u);
}

// Nothing is left in the in-flight tables, but one rank came less far.
TEST(HangTest, CountersThatDifferAfterTheEndAreShown) {
  Job job(3);
  job.Healthy(5);
  job.recording.Collective(job.comm, {}, {kStartNs, kAbsent, kStartNs});
  const HangReport report = BuildHangReport(job.recording);
  EXPECT_EQ(report.verdict, HangVerdict::kNothingWaits);
  EXPECT_THAT(RenderHangText(report), HasSubstr("AllReduce count on communicator 0 (3 ranks): 6 on the furthest"));
}

TEST(HangTest, ADeadRankIsSaidToBeGone) {
  Job job(2);
  job.Healthy(2);
  job.recording.mutable_ranks()[0].alive = true;
  job.recording.LeaveInFlight(job.comm, 0, {}, kStartNs + 5000 * kMs, 2, 0);
  const HangReport report = BuildHangReport(job.recording);
  EXPECT_EQ(report.ranks[1].state, RankState::kGone);
  EXPECT_THAT(RenderHangText(report), HasSubstr("rank 1 is not there any more"));
}

TEST(HangTest, WarningsOfTheRecordingAreShown) {
  Job job(1);
  job.recording.mutable_warnings().push_back("ring x.ring was cut");
  EXPECT_THAT(RenderHangText(BuildHangReport(job.recording)), HasSubstr("ring x.ring was cut"));
}

}  // namespace
}  // namespace rankscope::answers
