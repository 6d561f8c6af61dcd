// Rings of hosts whose clocks are known, opened and aligned: every time of every event and rank.
#include "analysis/alignment/aligned_recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "analysis/alignment/planted_clocks.h"
#include "analysis/recording/open.h"
#include "analysis/recording/timeline_writer.h"
#include "tests/fakes/ring_builder.h"

namespace rankscope::alignment {
namespace {

using analysis::Event;
using analysis::Recording;
using ::rankscope::testing::CollRecord;
using ::rankscope::testing::RingBuilder;
using schema::EventKind;

constexpr int kRanksPerHost = 2;
constexpr uint64_t kOperations = 400;
// Readings of a host's monotonic clock begin here, so that none is negative.
constexpr double kMonotonicStartNs = 1e9;
// The ends' noise is 3 us; the middle of 400 is far better known than this.
constexpr double kNearNs = 2000;

class AlignedRecordingTest : public ::testing::Test {
 protected:
  AlignedRecordingTest() : dir_(::testing::TempDir() + "aligned_recording_test." + std::to_string(getpid())) {
    std::filesystem::create_directories(dir_);
  }
  ~AlignedRecordingTest() override { std::filesystem::remove_all(dir_); }

  // A job of these hosts; each rank's arrival at operation i is planted. Without `shared`, hosts have communicators
  // of their own.
  std::unique_ptr<Recording> Rings(std::vector<PlantedClock> clocks, bool shared = true) {
    clocks_ = std::move(clocks);
    const int hosts = static_cast<int>(clocks_.size()), ranks = hosts * kRanksPerHost;
    std::mt19937_64 random(1);
    std::exponential_distribution<double> one(1);
    std::vector<RingBuilder> rings;
    for (int r = 0; r < ranks; ++r) {
      rings.emplace_back(1, 1024).SetRank(r, ranks, "node" + std::to_string(r / kRanksPerHost));
      schema::CommEntry comm{};
      comm.hash = shared ? 77 : 77 + static_cast<uint64_t>(r / kRanksPerHost);
      comm.rank = shared ? r : r % kRanksPerHost;
      comm.ranks = shared ? ranks : kRanksPerHost;
      comm.flags = schema::kCommIdentityKnown | schema::kCommSizeKnown;
      comm.init_ticks = Ticks(r, 0);
      rings.back().AddComm(comm);
    }
    arrivals_.assign(static_cast<size_t>(ranks), {});
    for (uint64_t i = 0; i < kOperations; ++i) {
      double all_there_ns = 0;
      for (int r = 0; r < ranks; ++r) {
        const double ns = 1e9 + 50e6 * static_cast<double>(i) + 100e3 * one(random);
        arrivals_[static_cast<size_t>(r)].push_back(ns);
        all_there_ns = std::max(all_there_ns, ns);
      }
      for (int r = 0; r < ranks; ++r) {
        const uint64_t begin = Ticks(r, arrivals_[static_cast<size_t>(r)][i]), op_id = (i + 1) << 8;
        schema::EventRecord record = CollRecord(begin, begin + 5000, 0, schema::Function::kAllReduce,
                                                static_cast<uint32_t>(i), 1024, schema::DataType::kFloat32, op_id);
        if (i == 0) record.flags = schema::kFlagFirstOfComm;
        rings[static_cast<size_t>(r)].Append(0, record);
        schema::EventRecord complete{};
        complete.kind = static_cast<uint16_t>(EventKind::kOpComplete);
        complete.comm = 0;
        complete.op_id = op_id;
        complete.begin_ticks = begin;
        complete.end_ticks = Ticks(r, all_there_ns + 80e3 + 3e3 * one(random));
        complete.payload.completion = {begin,
                                       1,
                                       static_cast<uint8_t>(schema::CompletionSource::kProxy),
                                       static_cast<uint8_t>(schema::Function::kAllReduce),
                                       {},
                                       4096};
        rings[static_cast<size_t>(r)].Append(0, complete);
      }
    }
    for (int r = 0; r < ranks; ++r) {
      EXPECT_TRUE(rings[static_cast<size_t>(r)].Write(dir_ + "/" + std::to_string(r) + ".ring"));
    }
    return Open(dir_);
  }
  static std::unique_ptr<Recording> Open(const std::string& path) {
    absl::StatusOr<std::unique_ptr<Recording>> recording = analysis::OpenRecording({path});
    EXPECT_TRUE(recording.ok()) << recording.status();
    return recording.ok() ? *std::move(recording) : nullptr;
  }
  static std::vector<Event> ReadAll(const Recording& recording) {
    std::vector<Event> all, part(333);
    const auto stream = recording.Events(analysis::kAllKinds);
    while (const size_t count = stream->Read(absl::MakeSpan(part))) {
      all.insert(all.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count));
    }
    EXPECT_TRUE(stream->status().ok());
    return all;
  }

  uint64_t Ticks(int rank, double true_ns) const {
    const PlantedClock& clock = clocks_[static_cast<size_t>(rank / kRanksPerHost)];
    return static_cast<uint64_t>(std::llround(kMonotonicStartNs + clock.Reading(true_ns)));
  }
  // What a rank's clock showed then; rank 0's is the reference's.
  int64_t Shown(int rank, double true_ns) const {
    return static_cast<int64_t>(RingBuilder::kEpochNs + Ticks(rank, true_ns));
  }

  // How far the arrivals are from those that rank 0's clock would have shown, at most.
  double WorstArrival(const Recording& recording) const {
    double worst_ns = 0;
    std::map<uint32_t, size_t> next;
    for (const Event& event : ReadAll(recording)) {
      if (event.kind != static_cast<uint16_t>(EventKind::kColl)) continue;
      const double true_ns = arrivals_[event.rank_index][next[event.rank_index]++];
      worst_ns = std::max(worst_ns, std::abs(static_cast<double>(event.begin_ns - Shown(0, true_ns))));
    }
    for (uint32_t r = 0; r < arrivals_.size(); ++r) EXPECT_EQ(next[r], kOperations) << r;
    return worst_ns;
  }

  const std::string dir_;
  std::vector<PlantedClock> clocks_;           // by host
  std::vector<std::vector<double>> arrivals_;  // true times, by rank and operation
};

TEST_F(AlignedRecordingTest, EveryTimeIsTheReferences) {
  const std::unique_ptr<Recording> rings = Rings({{0, 0}, {40e6, 30e-6}, {-25e6, -10e-6}, {900e3, 0}});
  ASSERT_NE(rings, nullptr);
  EXPECT_GT(WorstArrival(*rings), 40e6) << "as recorded";
  ASSERT_TRUE(NeedsAlignment(*rings));
  const std::unique_ptr<Recording> aligned = AlignHosts(*rings);
  ASSERT_NE(aligned, nullptr);
  EXPECT_LT(WorstArrival(*aligned), kNearNs);

  const std::vector<Event> events = ReadAll(*aligned);
  ASSERT_EQ(events.size(), 8 * 2 * kOperations);
  EXPECT_TRUE(std::is_sorted(events.begin(), events.end(),
                             [](const Event& a, const Event& b) { return a.end_ns < b.end_ns; }));
  for (const Event& event : events) {
    if (event.kind != static_cast<uint16_t>(EventKind::kOpComplete)) continue;
    EXPECT_EQ(static_cast<int64_t>(event.payload.completion.issue_ticks), event.begin_ns) << "both were one moment";
  }
  for (const analysis::RankInfo& rank : aligned->ranks()) {
    EXPECT_NEAR(static_cast<double>(rank.comms[0].init_ns - Shown(0, 0)), 0, kNearNs) << rank.rank;
  }
  ASSERT_EQ(aligned->clocks().size(), 4u);
  for (const analysis::HostClockInfo& clock : aligned->clocks()) {
    EXPECT_EQ(clock.group, 0) << clock.host;
    EXPECT_EQ(clock.operations, kOperations - 1) << "not the communicator's first";
    EXPECT_EQ(clock.boot_id, "boot-" + clock.host);
    EXPECT_GE(clock.bound_ns, 0);
  }
  EXPECT_EQ(aligned->clocks()[0].error_ns, 0);
  EXPECT_EQ(aligned->clocks()[1].host, "node1");
  EXPECT_NEAR(static_cast<double>(aligned->clocks()[1].drift_ppb), -30'000, 200);
  // In the middle, after 11 s: 40 ms and what 30 ppm gained.
  EXPECT_NEAR(static_cast<double>(aligned->clocks()[1].offset_ns), -40e6 - 330e3, 20e3);
  EXPECT_NEAR(static_cast<double>(aligned->clocks()[3].offset_ns), -900e3, kNearNs);
}

TEST_F(AlignedRecordingTest, AWallClockThatIsAnHourOffIsNoObstacle) {
  const std::unique_ptr<Recording> rings = Rings({{0, 0}, {3.6e12, 5e-6}});
  ASSERT_NE(rings, nullptr);
  const std::unique_ptr<Recording> aligned = AlignHosts(*rings);
  ASSERT_NE(aligned, nullptr);
  EXPECT_LT(WorstArrival(*aligned), kNearNs);
  EXPECT_NEAR(static_cast<double>(aligned->clocks()[1].offset_ns), -3.6e12, 1e6);
}

TEST_F(AlignedRecordingTest, ATimelineKeepsTheResultAndIsNotAlignedAgain) {
  std::unique_ptr<Recording> aligned = AlignHosts(Rings({{0, 0}, {7e6, -20e-6}, {-3e6, 0}}));
  ASSERT_NE(aligned, nullptr);
  ASSERT_TRUE(analysis::WriteTimeline(*aligned, dir_ + "/t.rsc").ok());
  std::unique_ptr<Recording> timeline = Open(dir_ + "/t.rsc");
  ASSERT_NE(timeline, nullptr);
  EXPECT_LT(WorstArrival(*timeline), kNearNs);
  EXPECT_FALSE(NeedsAlignment(*timeline));
  const Recording* const before = timeline.get();
  timeline = AlignHosts(std::move(timeline));
  EXPECT_EQ(timeline.get(), before);
  ASSERT_EQ(timeline->clocks().size(), 3u);
  for (size_t h = 0; h < 3; ++h) {
    const analysis::HostClockInfo &was = aligned->clocks()[h], &is = timeline->clocks()[h];
    EXPECT_EQ(is.host, was.host);
    EXPECT_EQ(is.boot_id, was.boot_id);
    EXPECT_EQ(is.offset_ns, was.offset_ns);
    EXPECT_EQ(is.bound_ns, was.bound_ns);
    EXPECT_EQ(is.error_ns, was.error_ns);
    EXPECT_EQ(is.drift_ppb, was.drift_ppb);
    EXPECT_EQ(is.operations, was.operations);
    EXPECT_EQ(is.group, was.group);
    EXPECT_EQ(is.contradictions, was.contradictions);
  }
}

TEST_F(AlignedRecordingTest, HostsThatShareNoOperationKeepTheirClocks) {
  const std::unique_ptr<Recording> rings = Rings({{0, 0}, {40e6, 0}}, false);
  ASSERT_NE(rings, nullptr);
  const std::unique_ptr<Recording> aligned = AlignHosts(*rings);
  ASSERT_NE(aligned, nullptr);
  const std::vector<Event> before = ReadAll(*rings), after = ReadAll(*aligned);
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i].begin_ns, before[i].begin_ns);
    EXPECT_EQ(after[i].end_ns, before[i].end_ns);
  }
  for (const analysis::HostClockInfo& clock : aligned->clocks()) {
    EXPECT_EQ(clock.group, -1);
    EXPECT_EQ(clock.bound_ns, -1);
    EXPECT_EQ(clock.error_ns, -1);
    EXPECT_EQ(clock.offset_ns, 0);
  }
}

TEST_F(AlignedRecordingTest, OneHostIsLeftAsItIs) {
  std::unique_ptr<Recording> rings = Rings({{40e6, 0}});
  ASSERT_NE(rings, nullptr);
  EXPECT_FALSE(NeedsAlignment(*rings));
  EXPECT_EQ(AlignHosts(*rings), nullptr);
  const Recording* const before = rings.get();
  rings = AlignHosts(std::move(rings));
  EXPECT_EQ(rings.get(), before);
}

}  // namespace
}  // namespace rankscope::alignment
