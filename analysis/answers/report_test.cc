#include "analysis/answers/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/answers/fake_recording.h"
#include "analysis/answers/report_json.h"
#include "analysis/answers/report_text.h"

namespace rankscope::answers {
namespace {

using nlohmann::json;
using schema::Function;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kMs = 1'000'000;

std::vector<uint32_t> All(uint32_t n) {
  std::vector<uint32_t> all(n);
  for (uint32_t i = 0; i < n; ++i) all[i] = i;
  return all;
}

// Rank `slow` is 4 ms late in each of `operations`.
FakeRecording SlowRank(uint32_t ranks, uint32_t slow, int64_t operations) {
  FakeRecording recording(ranks);
  const auto comm = recording.AddComm(1, All(ranks));
  for (int64_t i = 0; i < operations; ++i) {
    std::vector<int64_t> arrivals(ranks, kStartNs + i * 20 * kMs);
    arrivals[slow] += 4 * kMs;
    recording.Collective(comm, {.count = 250'000, .transfer_ns = kMs, .first = i == 0}, arrivals);
  }
  return recording;
}

TEST(ReportTest, BeginsWithWhoOthersWaitFor) {
  const Report report = BuildReport(SlowRank(4, 2, 41));
  const std::string text = RenderText(report, {.width = 0});
  // 40 operations count, 4 ms each; the window from the second operation to the last arrival is 39 x 20 + 4 ms.
  EXPECT_THAT(
      text, StartsWith("The others wait for rank 2: each lost 160 ms to it on average, 20.4 % of the 784 ms that are "
                       "seen (last in 40 of 40 collectives; 100 % of all waiting)."));
  EXPECT_THAT(text, HasSubstr("rankscope skew TIMELINE"));
  EXPECT_THAT(text, HasSubstr("NCCL 2.28.9, profiler table v5"));
  EXPECT_THAT(text, HasSubstr("4 processes on 1 host: node0 (ranks 0-3)"));
  EXPECT_THAT(text, HasSubstr("one host, one clock"));
}

// Two hosts of two ranks each, with these clocks.
std::string ClockTextOf(const std::vector<analysis::HostClockInfo>& clocks) {
  FakeRecording recording = SlowRank(4, 2, 41);
  for (uint32_t r = 2; r < 4; ++r) recording.mutable_ranks()[r].host = "node1";
  for (analysis::RankInfo& rank : recording.mutable_ranks()) rank.boot_id = "boot-" + rank.host;
  recording.mutable_clocks() = clocks;
  for (analysis::HostClockInfo& clock : recording.mutable_clocks()) clock.boot_id = "boot-" + clock.host;
  return RenderText(BuildReport(recording), {.width = 0});
}

TEST(ReportTest, SaysHowWellTimesOfTwoHostsCompare) {
  analysis::HostClockInfo reference, other;
  reference.host = "node0";
  other.host = "node1";
  EXPECT_THAT(ClockTextOf({reference, other}),
              HasSubstr("between hosts the hosts' own wall clocks are taken, whose error "
                        "is not known: waits between hosts below 1.00 ms"));
  reference.group = other.group = 0;
  reference.error_ns = reference.bound_ns = 0;
  reference.operations = 500;
  other.operations = 480;
  other.error_ns = 6000;
  other.bound_ns = 90'000;
  other.offset_ns = -40'000'000;
  other.drift_ppb = -30'000;
  const std::string aligned = ClockTextOf({reference, other});
  EXPECT_THAT(aligned,
              HasSubstr("the clocks of 2 hosts were aligned by the operations that they share (480 or more each): "
                        "a host's times are within 6.00 us by the estimate's spread, and provably within 90.0 us"));
  EXPECT_THAT(aligned, HasSubstr("Corrected: up to 40.0 ms (node1), drift up to 30.0 ppm (node1)."));
  EXPECT_THAT(aligned, Not(HasSubstr("wall clock")));
  EXPECT_THAT(aligned, HasSubstr("Waits between hosts below 6.00 us are charged to nobody"));

  other.contradictions = reference.contradictions = 3;
  EXPECT_THAT(ClockTextOf({reference, other}), HasSubstr("3 operations ended before somebody had come"));
  analysis::HostClockInfo alone;
  alone.host = "node2";
  EXPECT_THAT(ClockTextOf({reference, other, alone}), HasSubstr("1 host (node2) took part in too few operations"));
}

TEST(ReportTest, SaysWhenNobodyStandsOut) {
  FakeRecording recording(2);
  const auto comm = recording.AddComm(1, All(2));
  for (int64_t i = 0; i < 40; ++i) {
    recording.Collective(comm, {},
                         {kStartNs + i * 10 * kMs + i % 2 * 1000, kStartNs + i * 10 * kMs + (i + 1) % 2 * 1000});
  }
  const std::string text = RenderText(BuildReport(recording));
  EXPECT_THAT(text, StartsWith("No rank stands out:"));
  EXPECT_THAT(text, Not(HasSubstr("Not finished")));
}

TEST(ReportTest, AHangComesFirst) {
  FakeRecording recording = SlowRank(3, 1, 10);
  const FakeRecording::Comm comm{1, {0, 1, 2}, {0, 0, 0}};
  recording.LeaveInFlight(comm, 0, {.count = 100}, kStartNs + 1000 * kMs, 2, 1);
  const std::string text = RenderText(BuildReport(recording), {.width = 0});
  EXPECT_THAT(text,
              StartsWith("The job ended with operations that ranks were still in:\n"
                         "  ranks 1, 2 have not called AllReduce #10 (400 B, float32, RING SIMPLE) on communicator 0 "
                         "(3 ranks); rank 0 was in it to the end"));
  EXPECT_THAT(text, HasSubstr("Not finished when the rings were read\n  AllReduce #10 (400 B)"));
  EXPECT_THAT(text, HasSubstr("rankscope hang TIMELINE"));
}

TEST(ReportTest, AThousandRanksFitOnAPage) {
  const Report report = BuildReport(SlowRank(1024, 1000, 20));
  const std::string text = RenderText(report);
  EXPECT_THAT(text, StartsWith("The others wait for rank 1000"));
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 80);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    EXPECT_LE(end - begin, 160u) << text.substr(begin, end - begin);
    begin = end + 1;
  }
}

TEST(ReportTest, AnEmptyRecordingIsAnAnswerToo) {
  const FakeRecording recording(0);
  const Report report = BuildReport(recording);
  EXPECT_THAT(RenderText(report), HasSubstr("No NCCL communicator was seen"));
  EXPECT_EQ(ToJson(report)["ranks"].size(), 0u);
}

TEST(ReportTest, SaysWhichRanksHaveNoRecording) {
  FakeRecording recording(2);
  for (auto& rank : recording.mutable_ranks()) rank.world_size = 5;
  const Report report = BuildReport(recording);
  EXPECT_THAT(report.missing_ranks, ::testing::ElementsAre(2, 3, 4));
  EXPECT_THAT(RenderText(report), HasSubstr("no recording of rank 2-4 of 5"));
}

TEST(ReportTest, ARestartedRankIsTwoProcesses) {
  FakeRecording recording(2);
  recording.mutable_ranks()[1].rank = 0;
  const auto comm = recording.AddComm(1, All(2));
  recording.Collective(comm, {}, {kStartNs, kStartNs + kMs});
  const Report report = BuildReport(recording);
  EXPECT_EQ(report.rank_names.One(0), "rank 0 (pid 1000)");
  EXPECT_EQ(report.rank_names.One(1), "rank 0 (pid 1001)");
}

TEST(ReportTest, WhyOperationsAreIncompleteIsKnownFromTheCounters) {
  FakeRecording recording(2);
  const auto comm = recording.AddComm(1, All(2));
  for (int64_t i = 0; i < 10; ++i) {
    recording.Collective(comm, {.api = false, .completes = false}, {kStartNs + i * kMs, kStartNs + i * kMs + 10});
  }
  recording.Overwrite(1, 4);
  recording.Collective(comm, {.api = false, .completes = false}, {kStartNs + 100 * kMs, kAbsent});
  const Report report = BuildReport(recording);
  EXPECT_EQ(report.incomplete.operations, 5u);
  EXPECT_EQ(report.incomplete.not_recorded, 4u);
  EXPECT_EQ(report.incomplete.not_reached, 1u);
}

TEST(ReportTest, MismatchesAreKeptWithEachRanksView) {
  FakeRecording recording(2);
  const auto comm = recording.AddComm(1, All(2));
  recording.Collective(comm, {.count = 10}, {kStartNs, kAbsent});
  recording.Collective(comm, {.count = 20}, {kAbsent, kStartNs});
  const Report report = BuildReport(recording);
  ASSERT_EQ(report.mismatches.size(), 1u);
  EXPECT_THAT(
      RenderText(report, {.width = 0}),
      HasSubstr(
          "ranks disagree in AllReduce #0 on communicator 0 (2 ranks): 40 B (10 x float32) on rank 0, 80 B (20 x "
          "float32) on rank 1"));
}

TEST(ReportJsonTest, NamesItsShapeAndVersion) {
  const Report report = BuildReport(SlowRank(2, 1, 5));
  EXPECT_EQ(ToJson(report)["schema"], json({{"name", "rankscope.report"}, {"version", 1}}));
  EXPECT_EQ(SkewToJson(report)["schema"]["name"], "rankscope.skew");
  EXPECT_EQ(ToJson(report.hang)["schema"]["name"], "rankscope.hang");
  EXPECT_EQ(RanksToJson(FakeRecording(1))["schema"]["name"], "rankscope.ranks");
}

TEST(ReportJsonTest, HasTheExactCountsOfEachRankCommunicatorAndFunction) {
  FakeRecording recording(2);
  const auto a = recording.AddComm(0xabc, All(2));
  const auto b = recording.AddComm(0xdef, {1, 0});
  for (int64_t i = 0; i < 7; ++i) recording.Collective(a, {}, {kStartNs + i * kMs, kStartNs + i * kMs});
  for (int64_t i = 0; i < 3; ++i) {
    recording.Collective(b, {.func = Function::kAllGather, .api = false, .completes = false},
                         {kStartNs + i * kMs, kStartNs + i * kMs});
  }
  recording.PointToPoint(a, 0, 1, 5, kStartNs + 50 * kMs, kStartNs + 50 * kMs, 10);
  recording.LeaveInFlight(b, 1, {.func = Function::kAllGather, .api = false}, kStartNs + 60 * kMs, 3, 1);
  const json out = ToJson(BuildReport(recording));

  const json& rank0 = out["per_rank"][0];
  EXPECT_EQ(rank0["rank"], 0);
  ASSERT_EQ(rank0["communicators"].size(), 2u);
  const json& on_a = rank0["communicators"][0];
  EXPECT_EQ(on_a["communicator_rank"], 0);
  ASSERT_EQ(on_a["functions"].size(), 2u);
  EXPECT_EQ(on_a["functions"][0]["function"], "AllReduce");
  EXPECT_EQ(on_a["functions"][0]["launched"], 7);
  EXPECT_EQ(on_a["functions"][0]["api_calls"], 7);
  EXPECT_EQ(on_a["functions"][0]["last_seq"], 6);
  EXPECT_EQ(on_a["functions"][0]["seen"]["completed"], 7);
  EXPECT_EQ(on_a["functions"][1]["function"], "Send");
  EXPECT_EQ(on_a["functions"][1]["launched"], 1);
  const json& on_b = rank0["communicators"][1];
  EXPECT_EQ(on_b["communicator_rank"], 1);
  EXPECT_EQ(on_b["functions"][0]["launched"], 4);
  EXPECT_EQ(on_b["functions"][0]["api_calls"], 0);
  EXPECT_EQ(on_b["functions"][0]["seen"]["completed"], 0);
  EXPECT_EQ(on_b["functions"][0]["unfinished"], 1);

  ASSERT_EQ(out["unfinished"].size(), 1u);
  EXPECT_EQ(out["unfinished"][0]["rank"], 0);
  EXPECT_EQ(out["unfinished"][0]["function"], "AllGather");
  EXPECT_EQ(out["unfinished"][0]["seq"], 3);
  EXPECT_EQ(out["unfinished"][0]["state"], "network_open");
  EXPECT_EQ(out["unfinished"][0]["network_operations_started"], 3);

  EXPECT_EQ(out["communicators"][0]["hash"], "0000000000000abc");
  EXPECT_EQ(out["communicators"][0]["functions"][0]["operations"], 7);
  EXPECT_EQ(out["communicators"][0]["functions"][0]["launched"], 14);
  EXPECT_EQ(out["communicators"][1]["members"][0]["rank"], 1);
  EXPECT_EQ(out["ranks"][0]["nccl_version"], 22809);
  EXPECT_EQ(out["ranks"][0]["nccl_api_version"], 5);
}

TEST(ReportJsonTest, SkewNamesTheRankWithNumbers) {
  const json out = SkewToJson(BuildReport(SlowRank(4, 2, 41)));
  EXPECT_EQ(out["verdict"], "stragglers");
  ASSERT_EQ(out["stragglers"].size(), 1u);
  EXPECT_EQ(out["stragglers"][0]["rank"], 2);
  EXPECT_EQ(out["ranks"][2]["caused_wait_ns"], 40 * 3 * 4 * kMs);
  EXPECT_EQ(out["ranks"][2]["times_last"], 40);
  EXPECT_EQ(out["largest"][0]["skew_ns"], 4 * kMs);
  EXPECT_EQ(out["skew_ns"]["p50"], 4 * kMs);
}

TEST(ReportJsonTest, TextThatIsNotUtf8IsReplacedAndDoesNotThrow) {
  FakeRecording recording(1);
  recording.mutable_ranks()[0].command = "train\xff\xfe.py";
  EXPECT_THAT(DumpJson(RanksToJson(recording)), HasSubstr("train\xEF\xBF\xBD"));
}

}  // namespace
}  // namespace rankscope::answers
