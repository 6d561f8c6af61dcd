// NCCL's kernels and operations, from rings with planted truth.
#include "analysis/answers/kernel_join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "analysis/answers/report.h"
#include "analysis/answers/report_text.h"
#include "analysis/recording/open.h"
#include "tests/fakes/gpu_records.h"
#include "tests/fakes/ring_builder.h"

namespace rankscope::answers {
namespace {

using ::rankscope::testing::CollRecord;
using ::rankscope::testing::KernelRecord;
using ::rankscope::testing::LaunchRecord;
using ::rankscope::testing::PlainRecord;
using ::rankscope::testing::RingBuilder;
using ::rankscope::testing::SyncRecord;
using schema::EventKind;
using schema::Function;
using ::testing::HasSubstr;

constexpr uint64_t kUs = 1000, kStart = 10'000'000;
constexpr uint16_t kSyncEvent = 1, kSyncStream = 3, kSyncContext = 4;
constexpr uint32_t kHostLane = 0, kGpuLane = 1;

// One rank: launches on the host, kernels on the GPU. Correlation ids are given in the order of the host's calls,
// three a launch as other calls lie between.
class Rank {
 public:
  Rank(int32_t rank, int32_t world, uint32_t records_per_lane = 1024) : ring_(2, records_per_lane) {
    ring_.SetRank(rank, world);
    ring_.identity().nccl_api_version = 5;
    for (uint64_t hash : {1, 2}) {
      schema::CommEntry comm{};
      comm.hash = hash;
      comm.rank = rank;
      comm.ranks = world;
      comm.flags = schema::kCommIdentityKnown | schema::kCommSizeKnown;
      ring_.AddComm(comm);
    }
    name_[static_cast<size_t>(Function::kAllReduce)] = ring_.AddName("ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    name_[static_cast<size_t>(Function::kAllGather)] = ring_.AddName("ncclDevKernel_AllGather_RING_LL");
    ring_.AddStream(0xa0, 20, 1).AddStream(0xb0, 21, 1);
    schema::CuptiInfo cupti{};
    cupti.state = static_cast<uint32_t>(schema::CuptiState::kArmed);
    cupti.records = 1;
    ring_.SetCupti(cupti);
  }
  RingBuilder& ring() { return ring_; }
  uint32_t NextCorrelation() { return correlation_ += 3; }

  // The launch alone; returns what its kernel's correlation id is.
  uint32_t Launch(uint64_t at, uint16_t comm, Function func) {
    const uint32_t correlation = NextCorrelation();
    ring_.Append(kHostLane, LaunchRecord(at, at + 5 * kUs, comm == 0 ? 0xa0 : 0xb0));
    Operation(at + 6 * kUs, comm, func);
    return correlation;
  }
  void Operation(uint64_t at, uint16_t comm, Function func) {
    ring_.Append(kHostLane, CollRecord(at, at + kUs, comm, func, seq_[comm][static_cast<size_t>(func)]++, 1000,
                                       schema::DataType::kFloat32, ++op_ << 8));
  }
  uint64_t last_op() const { return op_ << 8; }
  schema::EventRecord Kernel(uint64_t begin, uint64_t end, uint16_t comm, Function func, uint32_t correlation) {
    return KernelRecord(begin, end, name_[static_cast<size_t>(func)], correlation, comm == 0 ? 20 : 21, true);
  }
  void Gpu(const schema::EventRecord& record) { ring_.Append(kGpuLane, record); }
  void Sync(uint64_t at, uint16_t type = kSyncContext) { Gpu(SyncRecord(at, at + kUs, type, NextCorrelation(), 20)); }

 private:
  RingBuilder ring_;
  std::array<uint32_t, schema::kFunctionLimit> name_{};
  std::map<uint16_t, std::array<uint32_t, schema::kFunctionLimit>> seq_;
  uint64_t op_ = 0;
  uint32_t correlation_ = 0;
};

class KernelJoinRingsTest : public ::testing::Test {
 protected:
  KernelJoinRingsTest() : dir_(::testing::TempDir() + "kernel_join_test." + std::to_string(getpid())) {
    std::filesystem::create_directories(dir_);
  }
  ~KernelJoinRingsTest() override { std::filesystem::remove_all(dir_); }

  void Keep(Rank& rank, int number) { ASSERT_TRUE(rank.ring().Write(dir_ + "/" + std::to_string(number) + ".ring")); }
  // Joins what was kept: by rank and op_id.
  void Join(const JoinOptions& options = {}) {
    auto opened = analysis::OpenRecording({dir_});
    ASSERT_TRUE(opened.ok()) << opened.status();
    recording_ = *std::move(opened);
    KernelJoiner joiner(
        recording_->ranks(),
        [this](const JoinedKernel& kernel) {
          for (const auto& operation : kernel.operations) {
            joined_[{kernel.rank_index, operation.op_id}] = kernel;
          }
        },
        options);
    const auto stream = recording_->Events(KernelJoiner::Kinds());
    std::vector<analysis::Event> batch(100);
    while (const size_t count = stream->Read(absl::MakeSpan(batch))) {
      for (size_t i = 0; i < count; ++i) joiner.Add(batch[i]);
    }
    stats_ = joiner.Finish();
  }
  // Ticks are nanoseconds after the epoch's begin.
  static int64_t Ns(uint64_t ticks) { return static_cast<int64_t>(RingBuilder::kEpochNs + ticks); }

  const std::string dir_;
  std::unique_ptr<analysis::Recording> recording_;
  std::map<std::pair<uint32_t, uint64_t>, JoinedKernel> joined_;
  JoinStats stats_;
};

struct Planted {
  uint64_t op_id, begin, end;
};

TEST_F(KernelJoinRingsTest, TwoCommunicatorsOnTwoStreamsWithRecordsOutOfOrder) {
  Rank rank(0, 1);
  std::vector<Planted> planted;
  std::vector<schema::EventRecord> kernels;
  // The host is ahead: all is launched within 1 ms, kernels of one stream take 200 us, of the other 70 us.
  std::array<uint64_t, 2> free_at = {kStart + 40 * kUs, kStart + 40 * kUs};
  for (uint64_t i = 0; i < 60; ++i) {
    const auto comm = static_cast<uint16_t>(i % 3 == 0 ? 1 : 0);
    const auto correlation = rank.Launch(kStart + i * 15 * kUs, comm, Function::kAllReduce);
    const uint64_t begin = std::max(free_at[comm], kStart + (i * 15 + 8) * kUs);
    const uint64_t end = begin + (comm == 0 ? 200 : 70) * kUs;
    free_at[comm] = end + kUs;
    planted.push_back({rank.last_op(), begin, end});
    kernels.push_back(rank.Kernel(begin, end, comm, Function::kAllReduce, correlation));
  }
  // Buffers of two streams come one after the other, each backwards in fives.
  for (size_t i = 0; i < kernels.size(); i += 5) {
    for (size_t k = 5; k-- > 0;) rank.Gpu(kernels[i + k]);
  }
  Keep(rank, 0);
  Join();
  ASSERT_EQ(joined_.size(), 60u);
  for (const Planted& one : planted) {
    const JoinedKernel& kernel = joined_.at({0, one.op_id});
    EXPECT_EQ(kernel.gpu_begin_ns, Ns(one.begin));
    EXPECT_EQ(kernel.gpu_end_ns, Ns(one.end));
    EXPECT_EQ(kernel.confidence, JoinConfidence::kExactOrder);
  }
  EXPECT_EQ(stats_.launches, 60u);
  EXPECT_EQ(stats_.kernels, 60u);
  EXPECT_EQ(stats_.launches_without_kernel, 0u);
}

// Ten launches 100 us apart, each kernel over before the next; the fifth kernel's record is lost; the host waits (for
// an event) after every ten.
class LostKernelTest : public KernelJoinRingsTest {
 protected:
  void Plant(bool alternating, uint64_t rounds, uint64_t lost_in_round) {
    Rank rank(0, 1);
    for (uint64_t i = 0; i < rounds * 10; ++i) {
      const Function func = alternating && i % 2 == 1 ? Function::kAllGather : Function::kAllReduce;
      const uint64_t at = kStart + i * 100 * kUs;
      const uint32_t correlation = rank.Launch(at, 0, func);
      planted_.push_back({rank.last_op(), at + 10 * kUs, at + 50 * kUs});
      const bool lost = i == lost_in_round * 10 + 4;
      if (!lost) rank.Gpu(rank.Kernel(at + 10 * kUs, at + 50 * kUs, 0, func, correlation));
      if (i % 10 == 9) rank.Sync(at + 60 * kUs, kSyncEvent);
    }
    rank.ring().AddLoss(schema::LossReason::kCuptiDropped, 1);
    Keep(rank, 0);
    Join();
    for (size_t i = 0; i < planted_.size(); ++i) {
      const auto found = joined_.find({0, planted_[i].op_id});
      if (found == joined_.end()) {
        not_joined_.push_back(i);
        continue;
      }
      EXPECT_EQ(found->second.gpu_begin_ns, Ns(planted_[i].begin)) << "operation " << i;
      EXPECT_EQ(found->second.gpu_end_ns, Ns(planted_[i].end)) << "operation " << i;
      if (found->second.confidence == JoinConfidence::kReanchored) reanchored_.push_back(i);
    }
  }
  std::vector<Planted> planted_;
  std::vector<size_t> not_joined_, reanchored_;
};

TEST_F(LostKernelTest, DisturbsNothingBeyondTheNextAnchorAndIsNeverGuessed) {
  Plant(false, 4, 1);
  // Of round 1 the launches 4 to 9: any of them may be the one without a kernel.
  EXPECT_THAT(not_joined_, ::testing::ElementsAre(14, 15, 16, 17, 18, 19));
  EXPECT_EQ(stats_.by_confidence[static_cast<size_t>(JoinConfidence::kNone)], 5u);
  EXPECT_EQ(stats_.launches_without_kernel, 6u);
}

TEST_F(LostKernelTest, IsFoundByTheFunctionsOfItsNeighbours) {
  Plant(true, 4, 1);
  EXPECT_THAT(not_joined_, ::testing::ElementsAre(14));
  EXPECT_THAT(reanchored_, ::testing::ElementsAre(15, 16, 17, 18, 19));
}

TEST_F(KernelJoinRingsTest, ReplaysOfAGraphDoNotShiftTheOrder) {
  Rank rank(0, 1);
  std::vector<Planted> planted;
  for (uint64_t i = 0; i < 20; ++i) {
    const uint64_t at = kStart + i * 1000 * kUs;
    if (i == 5) {
      // A capture: the call, a "launch" that runs nothing, and the operation as NCCL reports it at capture.
      auto call = PlainRecord(EventKind::kCollApi, at - 20 * kUs, at - 19 * kUs);
      call.flags = schema::kFlagGraphCaptured;
      rank.ring().Append(kHostLane, call);
      rank.ring().Append(kHostLane, LaunchRecord(at - 18 * kUs, at - 17 * kUs, 0xa0));
      auto captured = CollRecord(at - 16 * kUs, at - 15 * kUs, 0, Function::kAllReduce, 1000, 1000);
      captured.flags = schema::kFlagGraphReplay;
      rank.ring().Append(kHostLane, captured);
      auto eager = PlainRecord(EventKind::kCollApi, at - 10 * kUs, at - 9 * kUs);
      rank.ring().Append(kHostLane, eager);
    }
    const uint32_t correlation = rank.Launch(at, 0, Function::kAllReduce);
    planted.push_back({rank.last_op(), at + 10 * kUs, at + 50 * kUs});
    rank.Gpu(rank.Kernel(at + 10 * kUs, at + 50 * kUs, 0, Function::kAllReduce, correlation));
    if (i < 5) continue;
    auto replayed = rank.Kernel(at + 500 * kUs, at + 600 * kUs, 0, Function::kAllReduce, rank.NextCorrelation());
    replayed.flags = schema::kFlagGraphReplay;
    replayed.op_id = 77;  // the graph's node
    rank.Gpu(replayed);
  }
  Keep(rank, 0);
  Join();
  ASSERT_EQ(joined_.size(), 20u);
  for (const Planted& one : planted) EXPECT_EQ(joined_.at({0, one.op_id}).gpu_begin_ns, Ns(one.begin));
  EXPECT_EQ(stats_.graph_kernels, 15u);
  EXPECT_EQ(stats_.captured, 1u);
  EXPECT_EQ(stats_.launches, 20u);
}

TEST_F(KernelJoinRingsTest, AKernelWithoutALaunchIsLeftAlone) {
  Rank rank(0, 1);
  std::vector<Planted> planted;
  for (uint64_t i = 0; i < 10; ++i) {
    const uint64_t at = kStart + i * 100 * kUs;
    uint32_t correlation = 0;
    if (i == 3) {
      correlation = rank.NextCorrelation();  // its launch was not recorded
    } else {
      correlation = rank.Launch(at, 0, Function::kAllReduce);
      planted.push_back({rank.last_op(), at + 10 * kUs, at + 50 * kUs});
    }
    rank.Gpu(rank.Kernel(at + 10 * kUs, at + 50 * kUs, 0, Function::kAllReduce, correlation));
  }
  Keep(rank, 0);
  Join();
  for (const Planted& one : planted) {
    const auto found = joined_.find({0, one.op_id});
    // The launch before may be of either kernel.
    if (found == joined_.end()) continue;
    EXPECT_EQ(found->second.gpu_begin_ns, Ns(one.begin));
  }
  EXPECT_GE(joined_.size(), planted.size() - 1);
  EXPECT_EQ(stats_.launches, 9u);
  EXPECT_EQ(stats_.kernels, 10u);
}

// The host's lane keeps its newest 64 records (32 launches), the GPU's all 100; the host waits every 20 launches.
TEST_F(KernelJoinRingsTest, WhereTheRingWasLappedTheOrderIsTakenFromTheFirstAnchorOn) {
  Rank rank(0, 1, 64);
  std::vector<Planted> planted;
  for (uint64_t i = 0; i < 50; ++i) {
    const uint64_t at = kStart + i * 100 * kUs;
    const uint32_t correlation = rank.Launch(at, 0, Function::kAllReduce);
    planted.push_back({rank.last_op(), at + 10 * kUs, at + 50 * kUs});
    rank.Gpu(rank.Kernel(at + 10 * kUs, at + 50 * kUs, 0, Function::kAllReduce, correlation));
    if (i == 39) rank.Sync(at + 60 * kUs, kSyncStream);
  }
  Keep(rank, 0);
  Join();
  // 64 records are the launches 18 to 49; the lane of the GPU (51 records) has not been lapped.
  for (size_t i = 0; i < planted.size(); ++i) {
    const auto found = joined_.find({0, planted[i].op_id});
    ASSERT_EQ(found != joined_.end(), i >= 18) << "operation " << i;
    if (found == joined_.end()) continue;
    EXPECT_EQ(found->second.gpu_begin_ns, Ns(planted[i].begin));
    EXPECT_EQ(found->second.confidence, i < 40 ? JoinConfidence::kReanchored : JoinConfidence::kExactOrder);
  }
}

// NCCL before 2.28: no launch events; the Group's record comes after the operations of its plan.
TEST_F(KernelJoinRingsTest, WithoutLaunchEventsPlansAreJoinedByTheirOrderWithLowConfidence) {
  Rank rank(0, 1);
  rank.ring().identity().nccl_api_version = 4;
  std::vector<Planted> planted;
  for (uint64_t i = 0; i < 30; ++i) {
    const uint64_t at = kStart + i * 100 * kUs;
    const auto comm = static_cast<uint16_t>(i % 2);
    rank.Operation(at + 6 * kUs, comm, Function::kAllReduce);
    // The Group event begins after the launch: the kernel may be earlier.
    rank.ring().Append(kHostLane, PlainRecord(EventKind::kGroup, at + 5 * kUs, at + 9 * kUs));
    planted.push_back({rank.last_op(), at + 3 * kUs, at + 40 * kUs});
    rank.Gpu(rank.Kernel(at + 3 * kUs, at + 40 * kUs, comm, Function::kAllReduce, rank.NextCorrelation()));
  }
  Keep(rank, 0);
  Join();
  ASSERT_EQ(joined_.size(), 30u);
  for (const Planted& one : planted) {
    EXPECT_EQ(joined_.at({0, one.op_id}).gpu_begin_ns, Ns(one.begin));
    EXPECT_EQ(joined_.at({0, one.op_id}).confidence, JoinConfidence::kByTime);
  }
}

TEST_F(KernelJoinRingsTest, ManyOperationsOfOnePlanShareItsKernel) {
  Rank rank(0, 1);
  const uint32_t correlation = rank.Launch(kStart, 0, Function::kAllReduce);
  const uint64_t first = rank.last_op();
  rank.Operation(kStart + 8 * kUs, 0, Function::kAllReduce);
  rank.Gpu(rank.Kernel(kStart + 10 * kUs, kStart + 90 * kUs, 0, Function::kAllReduce, correlation));
  Keep(rank, 0);
  Join();
  EXPECT_EQ(joined_.at({0, first}).gpu_end_ns, Ns(kStart + 90 * kUs));
  EXPECT_EQ(joined_.at({0, rank.last_op()}).gpu_end_ns, Ns(kStart + 90 * kUs));
}

// The smallest bounds: what is decided early is right all the same, and nothing is kept for good.
TEST_F(KernelJoinRingsTest, MemoryIsBoundedByOptions) {
  Rank rank(0, 1);
  std::vector<Planted> planted;
  uint64_t free_at = 0;
  for (uint64_t i = 0; i < 400; ++i) {  // the host is more and more ahead: no launch finds the stream empty
    const uint64_t at = kStart + i * 10 * kUs;
    const uint32_t correlation = rank.Launch(at, 0, Function::kAllReduce);
    const uint64_t begin = std::max(at + 8 * kUs, free_at);
    free_at = begin + 12 * kUs;
    planted.push_back({rank.last_op(), begin, begin + 11 * kUs});
    rank.Gpu(rank.Kernel(begin, begin + 11 * kUs, 0, Function::kAllReduce, correlation));
  }
  Keep(rank, 0);
  Join({.pending = 200, .hold_ns = 1'000'000'000, .reorder_ns = 0});
  for (const Planted& one : planted) {
    const auto found = joined_.find({0, one.op_id});
    if (found == joined_.end()) continue;
    EXPECT_EQ(found->second.gpu_begin_ns, Ns(one.begin));
  }
  EXPECT_GT(joined_.size(), 100u);
}

// The report: arrivals are those of the kernels, transfer is from the last kernel's begin to the latest end, and what
// the network says is not asked.
TEST_F(KernelJoinRingsTest, TheReportTakesTheTimesOfTheKernels) {
  constexpr uint64_t kOperations = 20;
  for (int32_t r = 0; r < 2; ++r) {
    Rank rank(r, 2);
    for (uint64_t i = 0; i < kOperations; ++i) {
      const uint64_t at = kStart + i * 1000 * kUs;
      const uint32_t correlation = rank.Launch(at, 0, Function::kAllReduce);
      // On the host both come together; rank 1's kernel begins 30 us later. Both end at 140 us.
      rank.Gpu(rank.Kernel(at + (r == 0 ? 10 : 40) * kUs, at + 140 * kUs, 0, Function::kAllReduce, correlation));
      auto done = PlainRecord(EventKind::kOpComplete, at, at + 100 * kUs);
      done.comm = 0;
      done.op_id = rank.last_op();
      done.payload.completion.source = static_cast<uint8_t>(schema::CompletionSource::kProxy);
      rank.ring().Append(kHostLane, done);
    }
    Keep(rank, r);
  }
  auto opened = analysis::OpenRecording({dir_});
  ASSERT_TRUE(opened.ok()) << opened.status();
  const Report report = BuildReport(**opened);
  EXPECT_EQ(report.operations_with_gpu_times, kOperations);
  ASSERT_EQ(report.totals.size(), 1u);
  EXPECT_EQ(report.totals[0].skew_ns.min(), static_cast<int64_t>(30 * kUs));
  EXPECT_EQ(report.totals[0].skew_ns.max(), static_cast<int64_t>(30 * kUs));
  EXPECT_EQ(report.totals[0].transfer_ns.min(), static_cast<int64_t>(100 * kUs));
  EXPECT_EQ(report.totals[0].transfer_ns.max(), static_cast<int64_t>(100 * kUs));
  // 4,000 bytes in 100 us; two ranks: factor 2 (n-1)/n = 1.
  EXPECT_EQ(report.totals[0].bus_bytes_per_second.min(), 40'000'000);
  EXPECT_THAT(RenderText(report, {.width = 0}),
              HasSubstr("arrivals and ends of 20 operations are those of their kernels on the GPUs"));
}

}  // namespace
}  // namespace rankscope::answers
