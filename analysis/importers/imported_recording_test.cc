// Imported ranks together: in order, matched where their lists are one, left alone where not.
#include "analysis/importers/imported_recording.h"

#include <gmock/gmock.h>

#include "analysis/answers/report.h"
#include "analysis/importers/rank_builder.h"

namespace rankscope::analysis {
namespace {

using schema::EventKind;
using schema::Function;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMs = 1'000'000;

// A rank of two that does `counts.size()` AllReduces, 10 ms apart; its kernels begin `late_ns` after the first rank's
// and all end together.
ImportedRank MakeRank(int32_t rank, const std::vector<uint64_t>& counts, int64_t late_ns, bool numbered) {
  RankBuilder build;
  build.info().rank = rank;
  build.info().world_size = 2;
  build.info().host = "one host";
  build.info().doors = schema::kDoorTrace;
  const uint16_t comm = build.Communicator("0", {0, 1}, 2);
  for (uint32_t i = 0; i < counts.size(); ++i) {
    const int64_t begin_ns = (i + 1) * 10 * kMs;
    Event& coll = build.Add(EventKind::kColl, build.Lane(1), begin_ns, begin_ns + 1000);
    coll.comm = comm;
    coll.op_id = i + 1;
    coll.payload.coll = {counts[i], i + 40, i, static_cast<uint8_t>(Function::kAllReduce), 8, 0, 0, -1};
    build.CountOperation(comm, Function::kAllReduce, counts[i] * 4, 8 * kMs - late_ns);
    if (!numbered) build.MarkCounted(comm);
    Event& end = build.Add(EventKind::kOpComplete, build.Lane(-1), begin_ns + late_ns, begin_ns + 8 * kMs);
    end.comm = comm;
    end.op_id = i + 1;
    end.payload.completion = {0,
                              0,
                              static_cast<uint8_t>(schema::CompletionSource::kGpuKernel),
                              static_cast<uint8_t>(Function::kAllReduce),
                              {},
                              counts[i] * 4};
  }
  return build.Finish(1'700'000'000'000'000'000);
}

TEST(ImportedRecordingTest, TheLateRankIsNamedByWhatItsKernelsSay) {
  ImportedRecording recording("/tmp");
  // Out of order, and rank 0's kernels begin 3 ms late.
  ASSERT_TRUE(recording.Add(MakeRank(1, std::vector<uint64_t>(60, 1000), 0, true)).ok());
  ASSERT_TRUE(recording.Add(MakeRank(0, std::vector<uint64_t>(60, 1000), 3 * kMs, true)).ok());
  recording.Finish("job");
  EXPECT_EQ(recording.ranks()[0].rank, 0);
  EXPECT_EQ(recording.ranks()[1].rank, 1);
  EXPECT_THAT(recording.warnings(), IsEmpty());
  const answers::Report report = answers::BuildReport(recording, {});
  ASSERT_EQ(report.totals.size(), 1u);
  EXPECT_EQ(report.totals[0].matched, 60u);
  EXPECT_EQ(report.totals[0].launched, 120u);
  EXPECT_NEAR(static_cast<double>(report.totals[0].skew_ns.Quantile(0.5)), 3e6, 0.05 * 3e6);
  EXPECT_NEAR(static_cast<double>(report.totals[0].transfer_ns.Quantile(0.5)), 5e6, 0.05 * 5e6);
}

TEST(ImportedRecordingTest, ListsThatDifferAreNotMatchedUnlessTheyAreNumbered) {
  for (const bool numbered : {false, true}) {
    std::vector<uint64_t> shifted(60, 1000);
    shifted[0] = 7;  // one trace began an operation earlier
    ImportedRecording recording("/tmp");
    ASSERT_TRUE(recording.Add(MakeRank(0, std::vector<uint64_t>(60, 1000), 0, numbered)).ok());
    ASSERT_TRUE(recording.Add(MakeRank(1, shifted, 0, numbered)).ok());
    recording.Finish("job");
    const answers::Report report = answers::BuildReport(recording, {});
    uint64_t matched = 0;
    for (const answers::TotalsRow& row : report.totals) matched += row.matched;
    if (numbered) {
      EXPECT_EQ(matched, 60u);
      EXPECT_THAT(recording.warnings(), IsEmpty());
      continue;
    }
    EXPECT_EQ(matched, 0u);
    ASSERT_EQ(recording.warnings().size(), 1u);
    EXPECT_THAT(recording.warnings()[0], HasSubstr("differ"));
    for (const RankInfo& rank : recording.ranks()) {
      ASSERT_EQ(rank.losses.size(), 1u);
      EXPECT_EQ(rank.losses[0].reason, static_cast<uint32_t>(schema::LossReason::kImportUnmatched));
      EXPECT_EQ(rank.losses[0].count, 60u);
    }
  }
}

TEST(ImportedRecordingTest, AFolderThatCantBeWrittenToGetsASentence) {
  ImportedRecording recording("/proc/nowhere");
  const absl::Status status = recording.Add(MakeRank(0, {1}, 0, true));
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("/proc/nowhere"));
}

}  // namespace
}  // namespace rankscope::analysis
