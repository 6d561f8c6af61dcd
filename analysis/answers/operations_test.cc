#include "analysis/answers/operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "analysis/answers/fake_recording.h"

namespace rankscope::answers {
namespace {

using schema::Function;
using ::testing::ElementsAre;

struct Kept : OperationSink {
  void OnOperation(const MatchedOperation& operation) override { all.push_back(operation); }
  std::vector<MatchedOperation> all;
};

struct Outcome {
  std::vector<MatchedOperation> all;
  MatcherStats stats;
};

Outcome Match(const FakeRecording& recording, const MatcherOptions& options = {}) {
  const Communicators comms(recording.ranks());
  Kept kept;
  OperationMatcher matcher(recording.ranks(), comms, options, &kept);
  const auto stream = recording.Events(MatcherKinds());
  std::vector<analysis::Event> batch(7);
  while (const size_t count = stream->Read(absl::MakeSpan(batch))) {
    for (size_t i = 0; i < count; ++i) matcher.Add(batch[i]);
  }
  matcher.Finish();
  return {kept.all, matcher.stats()};
}

TEST(OperationMatcherTest, MeasuresPlantedArrivalsByArithmetic) {
  FakeRecording recording(4);
  const auto comm = recording.AddComm(1, {0, 1, 2, 3});
  const int64_t t = kStartNs;
  // 1,000,000 floats = 4 MB; last arrival at +3 ms, transfer 2 ms.
  recording.Collective(comm, {.count = 1'000'000, .transfer_ns = 2'000'000},
                       {t, t + 1'000'000, t + 3'000'000, t + 2'500'000});
  const Outcome outcome = Match(recording);
  ASSERT_EQ(outcome.all.size(), 1u);
  const MatchedOperation& op = outcome.all[0];
  EXPECT_TRUE(op.complete);
  EXPECT_EQ(op.key.number, 0u);
  EXPECT_EQ(op.bytes, 4'000'000u);
  EXPECT_EQ(op.skew_ns, 3'000'000);
  EXPECT_EQ(op.participants[op.last].member, 2u);
  EXPECT_EQ(op.second_last_arrival_ns, t + 2'500'000);
  EXPECT_EQ(op.transfer_ns, 2'000'000);
  EXPECT_DOUBLE_EQ(op.bandwidth.algorithm, 4e6 / 2e-3);
  EXPECT_DOUBLE_EQ(op.bandwidth.bus, 4e6 / 2e-3 * 1.5);
  // The call lies 300 ns before each launch.
  for (const Participant& part : op.participants) EXPECT_EQ(part.arrival_ns - part.issue_ns, 300);
}

TEST(OperationMatcherTest, KeepsFunctionsAndCommunicatorsApart) {
  FakeRecording recording(2);
  const auto a = recording.AddComm(1, {0, 1});
  const auto b = recording.AddComm(2, {1, 0});
  for (int64_t i = 0; i < 5; ++i) {
    const int64_t t = kStartNs + i * 1'000'000;
    recording.Collective(a, {}, {t, t + 100});
    recording.Collective(a, {.func = Function::kAllGather}, {t + 200, t + 300});
    recording.Collective(b, {}, {t + 400, t + 500});
  }
  const Outcome outcome = Match(recording);
  ASSERT_EQ(outcome.all.size(), 15u);
  for (const MatchedOperation& op : outcome.all) {
    EXPECT_TRUE(op.complete);
    EXPECT_EQ(op.skew_ns, 100);
  }
}

TEST(OperationMatcherTest, GraphReplaysThatRepeatTheirSequenceNumberAreToldApart) {
  FakeRecording recording(2);
  const auto comm = recording.AddComm(1, {0, 1});
  const int64_t ms = 1'000'000;
  recording.Collective(comm, {}, {kStartNs, kStartNs + 5});
  for (int64_t i = 1; i <= 6; ++i) {
    const int64_t t = kStartNs + i * ms;
    recording.Collective(comm, {.replay = true, .repeat_seq = i > 1}, {t, t + 10 * i});
  }
  const Outcome outcome = Match(recording);
  ASSERT_EQ(outcome.all.size(), 7u);
  for (size_t i = 1; i < outcome.all.size(); ++i) {
    EXPECT_EQ(outcome.all[i].skew_ns, 10 * static_cast<int64_t>(i));
    EXPECT_EQ(outcome.all[i].key.repeat, i - 1);
    EXPECT_TRUE(outcome.all[i].replayed);
    EXPECT_FALSE(outcome.all[i].uncertain);
  }
}

// Both windows begin among replays of one number, at different places: what they share matches, and the two first
// ones, whose place nobody knows, are marked.
TEST(OperationMatcherTest, ReplaysInOverwrittenWindowsMatchByTheRanksOwnCount) {
  FakeRecording recording(2);
  const auto comm = recording.AddComm(1, {0, 1});
  for (int64_t i = 0; i < 20; ++i) {
    const int64_t t = kStartNs + i * 1'000'000;
    recording.Collective(comm, {.completes = false, .replay = true, .repeat_seq = i > 0}, {t, t + 100});
  }
  recording.Overwrite(0, 5);
  recording.Overwrite(1, 8);
  const Outcome outcome = Match(recording);
  int whole = 0, uncertain = 0;
  for (const MatchedOperation& op : outcome.all) {
    if (op.complete && !op.uncertain) {
      ++whole;
      EXPECT_EQ(op.skew_ns, 100);
    }
    uncertain += op.uncertain ? 1 : 0;
  }
  EXPECT_EQ(whole, 11);  // replays 9..19
  EXPECT_EQ(uncertain, 1);
}

TEST(OperationMatcherTest, WindowsThatBeginAtDifferentOperationsMatchWhatTheyShare) {
  FakeRecording recording(2);
  const auto comm = recording.AddComm(1, {0, 1});
  for (int64_t i = 0; i < 20; ++i) {
    const int64_t t = kStartNs + i * 1'000'000;
    recording.Collective(comm, {.api = false, .completes = false}, {t, t + 100});
  }
  recording.Overwrite(0, 5);
  recording.Overwrite(1, 8);
  const Outcome outcome = Match(recording);
  ASSERT_EQ(outcome.all.size(), 15u);
  int whole = 0;
  for (const MatchedOperation& op : outcome.all) {
    whole += op.complete ? 1 : 0;
    EXPECT_FALSE(op.uncertain);
    EXPECT_EQ(op.complete, op.key.number >= 8);
    if (!op.complete) {
      EXPECT_THAT(op.missing, ElementsAre(1));
    }
  }
  EXPECT_EQ(whole, 12);
}

TEST(OperationMatcherTest, PointToPointMatchesByPairAndOrdinal) {
  FakeRecording recording(4);
  const auto comm = recording.AddComm(1, {0, 1, 2, 3});
  const int64_t t = kStartNs;
  for (int64_t round = 0; round < 3; ++round) {
    for (uint32_t r = 0; r < 4; ++r) {  // a ring
      recording.PointToPoint(comm, r, (r + 1) % 4, 250, t + round * 1000 + r, t + round * 1000 + 10 * r, 100);
    }
  }
  const Outcome outcome = Match(recording);
  ASSERT_EQ(outcome.all.size(), 12u);
  for (const MatchedOperation& op : outcome.all) {
    EXPECT_TRUE(op.complete);
    EXPECT_EQ(op.key.receiver, (op.key.sender + 1) % 4);
    EXPECT_EQ(op.skew_ns, 9 * op.key.sender);
    EXPECT_EQ(op.bytes, 1000u);
    EXPECT_EQ(op.first_of_comm, op.key.number == 0);
  }
}

TEST(OperationMatcherTest, ASendToOneselfHasBothSides) {
  FakeRecording recording(2);
  const auto comm = recording.AddComm(1, {0, 1});
  recording.PointToPoint(comm, 0, 0, 10, kStartNs, kStartNs + 7, 5);
  const Outcome outcome = Match(recording);
  ASSERT_EQ(outcome.all.size(), 1u);
  EXPECT_TRUE(outcome.all[0].complete);
  EXPECT_EQ(outcome.all[0].skew_ns, 7);
}

TEST(OperationMatcherTest, ACallWithoutLaunchIsAnOperationOfItsOwnClass) {
  FakeRecording recording(2);
  const auto comm = recording.AddComm(1, {0, 1});
  const int64_t t = kStartNs;
  recording.Collective(comm, {.func = Function::kBroadcast, .root = 0, .launch = false}, {t, t + 40});
  recording.Collective(comm, {.func = Function::kBroadcast, .root = 0, .launch = false}, {t + 1000, t + 1060});
  const Outcome outcome = Match(recording);
  ASSERT_EQ(outcome.all.size(), 2u);
  EXPECT_EQ(outcome.all[0].key.operation_class, OperationClass::kApiOnly);
  EXPECT_EQ(outcome.all[0].skew_ns, 40);
  EXPECT_EQ(outcome.all[1].skew_ns, 60);
  EXPECT_EQ(outcome.all[1].transfer_ns, 0);
  EXPECT_EQ(outcome.all[1].bandwidth.bus, 0);
}

TEST(OperationMatcherTest, CapturedCallsAreNoOperations) {
  FakeRecording recording(2);
  const auto comm = recording.AddComm(1, {0, 1});
  recording.Collective(comm, {.launch = false, .extra_flags = schema::kFlagGraphCaptured}, {kStartNs, kStartNs});
  const Outcome outcome = Match(recording);
  EXPECT_TRUE(outcome.all.empty());
  EXPECT_EQ(outcome.stats.captured_calls, 2u);
}

TEST(OperationMatcherTest, NoTransferWhereNoEndWasObserved) {
  FakeRecording recording(2);
  const auto comm = recording.AddComm(1, {0, 1});
  recording.Collective(comm, {.completes = false}, {kStartNs, kStartNs + 40});
  const Outcome outcome = Match(recording);
  ASSERT_EQ(outcome.all.size(), 1u);
  EXPECT_EQ(outcome.all[0].end_ns, 0);
  EXPECT_EQ(outcome.all[0].transfer_ns, 0);
  EXPECT_EQ(outcome.all[0].bandwidth.algorithm, 0);
}

TEST(OperationMatcherTest, ALaterCompletionReplacesTheEarlierOne) {
  FakeRecording recording(2);
  const auto comm = recording.AddComm(1, {0, 1});
  recording.Collective(comm, {.transfer_ns = 1000}, {kStartNs, kStartNs});
  auto& events = recording.mutable_events();
  analysis::Event again = events.back();
  ASSERT_EQ(again.kind, static_cast<uint16_t>(schema::EventKind::kOpComplete));
  again.end_ns = kStartNs + 5000;
  events.push_back(again);
  const Outcome outcome = Match(recording);
  ASSERT_EQ(outcome.all.size(), 1u);
  EXPECT_EQ(outcome.all[0].transfer_ns, 5000);
  EXPECT_EQ(outcome.all[0].completions, 2u);
}

// A launch is recorded when its host call returns; a short operation may be over by then.
TEST(OperationMatcherTest, ACompletionMayComeBeforeItsLaunchIsRecorded) {
  FakeRecording recording(2);
  const auto comm = recording.AddComm(1, {0, 1});
  recording.Collective(comm, {.transfer_ns = 100}, {kStartNs, kStartNs});  // the enqueue takes 500 ns
  const Outcome outcome = Match(recording);
  ASSERT_EQ(outcome.all.size(), 1u);
  EXPECT_EQ(outcome.all[0].completions, 2u);
  EXPECT_EQ(outcome.all[0].transfer_ns, 100);
  EXPECT_EQ(outcome.stats.late_completions, 0u);
}

TEST(OperationMatcherTest, CompletionsOfOverwrittenLaunchesAreCounted) {
  FakeRecording recording(1);
  const auto comm = recording.AddComm(1, {0});
  recording.Collective(comm, {.api = false, .transfer_ns = 5000}, {kStartNs});
  recording.Overwrite(0, 1);
  EXPECT_EQ(Match(recording).stats.late_completions, 1u);
}

TEST(OperationMatcherTest, AnOperationUnderWayHasNoEndThoughAnotherRankSawIt) {
  FakeRecording recording(2);
  const auto comm = recording.AddComm(1, {0, 1});
  recording.Collective(comm, {.transfer_ns = 1000}, {kStartNs, kStartNs});
  analysis::InFlightInfo slot;
  slot.state = schema::kSlotIsOperation | schema::kSlotIssued;
  slot.children_started = 4;
  slot.children_stopped = 3;
  slot.op_id = recording.mutable_events().front().op_id;
  recording.mutable_ranks()[0].in_flight.push_back(slot);
  const Outcome outcome = Match(recording);
  ASSERT_EQ(outcome.all.size(), 1u);
  EXPECT_EQ(outcome.all[0].end_ns, 0);
}

TEST(OperationMatcherTest, FindsWhatRanksDisagreeOn) {
  FakeRecording recording(3);
  const auto comm = recording.AddComm(1, {0, 1, 2});
  const int64_t t = kStartNs;
  // Rank by rank, so that each may say something else.
  for (uint32_t r = 0; r < 3; ++r) {
    std::vector<int64_t> only(3, kAbsent);
    only[r] = t + r;
    recording.Collective(comm, {.count = r == 2 ? 2048u : 1024u}, only);
    recording.Collective(comm,
                         {.func = Function::kReduce,
                          .dtype = r == 1 ? schema::DataType::kInt32 : schema::DataType::kFloat32,
                          .root = r == 0 ? 0 : 2},
                         only);
    recording.Collective(comm, {.func = Function::kReduceScatter, .root = r == 0 ? 0 : 2}, only);
  }
  const Outcome outcome = Match(recording);
  ASSERT_EQ(outcome.all.size(), 3u);
  for (const MatchedOperation& op : outcome.all) {
    switch (static_cast<Function>(op.key.func)) {
      case Function::kAllReduce:
        EXPECT_EQ(op.mismatches, kMismatchBytes);
        break;
      case Function::kReduce:
        EXPECT_EQ(op.mismatches, kMismatchType | kMismatchRoot);
        break;
      default:
        EXPECT_EQ(op.mismatches, 0);  // no function of a root
    }
  }
}

TEST(OperationMatcherTest, MemoryIsBoundedThoughARankNeverComes) {
  FakeRecording recording(3);
  const auto comm = recording.AddComm(1, {0, 1, 2});
  constexpr int64_t kOperations = 1000;
  for (int64_t i = 0; i < kOperations; ++i) {
    const int64_t t = kStartNs + i * 1'000'000;
    recording.Collective(comm, {}, {t, t + 10, kAbsent});
  }
  const Outcome outcome = Match(recording, {.open_participants = 50});
  EXPECT_EQ(outcome.all.size(), 1000u);
  EXPECT_LE(outcome.stats.open_participants_peak, 51u);
  EXPECT_GE(outcome.stats.closed_early, 970u);
}

TEST(OperationMatcherTest, PartsAfterTheirOperationWasGivenUpAreCountedAndMakeNoNewOne) {
  FakeRecording recording(2);
  const auto comm = recording.AddComm(1, {0, 1});
  for (int64_t i = 0; i < 100; ++i) {
    // Rank 1 is a hundred operations behind.
    recording.Collective(comm, {.api = false, .completes = false},
                         {kStartNs + i * 1000, kStartNs + (i + 100) * 1000});
  }
  const Outcome outcome = Match(recording, {.open_participants = 10});
  EXPECT_EQ(outcome.all.size(), 100u);
  EXPECT_GE(outcome.stats.late_parts, 80u);
}

// The same truth through windows of any size, in random order of commit, is the same answer.
TEST(OperationMatcherTest, PlantedSkewComesBackWhateverTheInterleaving) {
  std::mt19937_64 random(7);
  FakeRecording recording(8);
  const auto comm = recording.AddComm(1, {0, 1, 2, 3, 4, 5, 6, 7});
  std::vector<int64_t> truth;
  for (int64_t i = 0; i < 500; ++i) {
    std::vector<int64_t> arrivals(8);
    for (auto& arrival : arrivals) arrival = kStartNs + i * 100'000 + static_cast<int64_t>(random() % 90'000);
    truth.push_back(*std::max_element(arrivals.begin(), arrivals.end()) -
                    *std::min_element(arrivals.begin(), arrivals.end()));
    recording.Collective(comm, {.transfer_ns = 50'000}, arrivals);
  }
  const Outcome outcome = Match(recording);
  ASSERT_EQ(outcome.all.size(), truth.size());
  for (const MatchedOperation& op : outcome.all) EXPECT_EQ(op.skew_ns, truth[op.key.number]);
}

TEST(OperationMatcherTest, GarbageFromAFileIsCountedAndHarmless) {
  FakeRecording recording(2);
  recording.AddComm(1, {0, 1});
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    analysis::Event event;
    event.rank_index = static_cast<uint32_t>(random() % 4);
    event.kind = static_cast<uint16_t>(random() % 64);
    event.comm = static_cast<uint16_t>(random() % 3 == 0 ? random() : 0);
    event.flags = static_cast<uint16_t>(random());
    event.op_id = random() % 50;
    event.begin_ns = static_cast<int64_t>(random() >> 2);
    event.end_ns = static_cast<int64_t>(random() >> 2);
    for (auto& word : event.payload.words) word = random() % 3 == 0 ? random() : random() % 16;
    recording.mutable_events().push_back(event);
  }
  const Outcome outcome = Match(recording, {.open_participants = 100});
  EXPECT_GT(outcome.stats.unknown_communicator, 0u);
  EXPECT_LE(outcome.stats.open_participants_peak, 101u);
}

}  // namespace
}  // namespace rankscope::answers
