#include "analysis/answers/totals.h"

#include <gtest/gtest.h>

#include "analysis/answers/fake_recording.h"
#include "analysis/answers/report.h"

namespace rankscope::answers {
namespace {

using schema::Function;
constexpr int64_t kMs = 1'000'000;

const TotalsRow* Row(const Report& report, Function func, uint64_t bytes) {
  for (const TotalsRow& row : report.totals) {
    if (row.func == static_cast<uint8_t>(func) && row.size_class == schema::SizeClass(bytes)) return &row;
  }
  return nullptr;
}

TEST(TotalsTest, CountsAreOfTheWholeJobThoughRecordsWereOverwritten) {
  FakeRecording recording(2);
  const auto comm = recording.AddComm(1, {0, 1});
  for (int64_t i = 0; i < 100; ++i) {
    recording.Collective(comm, {.count = 256, .transfer_ns = 3 * kMs},
                         {kStartNs + i * 10 * kMs, kStartNs + i * 10 * kMs + kMs});
  }
  // Three events an operation: of the first 90 nothing is left.
  recording.Overwrite(0, 270);
  recording.Overwrite(1, 270);
  const Report report = BuildReport(recording);
  const TotalsRow* row = Row(report, Function::kAllReduce, 1024);
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->launched, 200u);
  EXPECT_EQ(row->api_calls, 200u);
  EXPECT_EQ(row->bytes, 200u * 1024);
  EXPECT_EQ(row->completed, 200u);
  EXPECT_EQ(row->matched, 10u);
  EXPECT_EQ(row->skew_ns.min(), kMs);
  EXPECT_EQ(row->skew_ns.max(), kMs);
  EXPECT_EQ(row->transfer_ns.Quantile(0.5), 3 * kMs);
  EXPECT_TRUE(report.coverage.records_overwritten);
  // 1 KiB in 3 ms on two ranks: the bus factor of AllReduce is 1.
  EXPECT_NEAR(static_cast<double>(row->bus_bytes_per_second.Quantile(0.5)), 1024 / 3e-3, 1);
}

TEST(TotalsTest, KindsAndSizesAreRowsOfTheirOwn) {
  FakeRecording recording(2);
  const auto comm = recording.AddComm(1, {0, 1});
  recording.Collective(comm, {.count = 256}, {kStartNs, kStartNs});
  recording.Collective(comm, {.count = 512}, {kStartNs + 1000, kStartNs + 1000});
  recording.Collective(comm, {.func = Function::kAllGather, .count = 256}, {kStartNs + 2000, kStartNs + 2000});
  recording.PointToPoint(comm, 0, 1, 256, kStartNs + 3000, kStartNs + 3000, 10);
  const Report report = BuildReport(recording);
  EXPECT_EQ(report.totals.size(), 5u);  // Send and Recv are two
  ASSERT_NE(Row(report, Function::kAllReduce, 2048), nullptr);
  EXPECT_EQ(Row(report, Function::kAllReduce, 2048)->launched, 2u);
  EXPECT_EQ(Row(report, Function::kSend, 1024)->matched, 1u);
  EXPECT_EQ(Row(report, Function::kRecv, 1024)->matched, 0u);
  EXPECT_EQ(Row(report, Function::kRecv, 1024)->launched, 1u);
}

TEST(TotalsTest, FirstOperationsCountAndDoNotBlurTheTimes) {
  FakeRecording recording(2);
  const auto comm = recording.AddComm(1, {0, 1});
  recording.Collective(comm, {.transfer_ns = 500 * kMs, .first = true}, {kStartNs, kStartNs + 700 * kMs});
  recording.Collective(comm, {.transfer_ns = kMs}, {kStartNs + 2000 * kMs, kStartNs + 2000 * kMs});
  const Report report = BuildReport(recording);
  const TotalsRow* row = Row(report, Function::kAllReduce, 4096);
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->matched, 2u);
  EXPECT_EQ(row->first_of_comm, 1u);
  EXPECT_EQ(row->skew_ns.count(), 1u);
  EXPECT_EQ(row->transfer_ns.max(), kMs);
}

TEST(TotalsTest, DurationQuantilesOfTheWholeJobUseEachRanksTicks) {
  FakeRecording recording(1);
  auto& rank = recording.mutable_ranks()[0];
  rank.ticks_per_second = 2e9;  // a tick is half a nanosecond
  analysis::TotalInfo total;
  total.func = static_cast<uint8_t>(Function::kAllReduce);
  total.size_class = 11;
  total.launched = total.completed = 100;
  total.histogram[static_cast<size_t>(schema::DurationBucket(1 << 20))] = 100;
  rank.totals.push_back(total);
  const Report report = BuildReport(recording);
  ASSERT_EQ(report.totals.size(), 1u);
  EXPECT_EQ(report.totals[0].duration_p50_ns, (1 << 20) / 2);
}

TEST(TotalsTest, NoBandwidthWhereAMemberLeftNoRecording) {
  FakeRecording recording(3);
  const auto comm = recording.AddComm(1, {0, 1, 2});
  for (int i = 0; i < 2; ++i) {
    recording.Collective(comm, {.transfer_ns = kMs}, {kStartNs + i * 10 * kMs, kStartNs + i * 10 * kMs, kAbsent});
  }
  recording.mutable_ranks()[2].comms.clear();
  const Report report = BuildReport(recording);
  const TotalsRow* row = Row(report, Function::kAllReduce, 4096);
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->matched, 2u);
  EXPECT_EQ(row->bus_bytes_per_second.count(), 0u);
  EXPECT_EQ(row->transfer_ns.count(), 0u);
}

}  // namespace
}  // namespace rankscope::answers
