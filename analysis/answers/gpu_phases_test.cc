// GPU records, ranges and their joins against planted truth: which kernel is which operation's, how long which phase
// took. Expected values come from the times planted here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "analysis/answers/fake_recording.h"
#include "analysis/answers/gpu.h"
#include "analysis/answers/gpu_text.h"
#include "analysis/answers/kernel_join.h"
#include "analysis/answers/phases.h"
#include "analysis/answers/report.h"
#include "analysis/answers/report_json.h"
#include "analysis/answers/report_text.h"

namespace rankscope::answers {
namespace {

using analysis::Event;
using analysis::RankInfo;
using schema::EventKind;
using schema::Function;
using schema::Phase;
using ::testing::HasSubstr;

constexpr int64_t kUs = 1000, kMs = 1'000'000;
constexpr uint32_t kAllReduceName = 1, kAllGatherName = 2, kGenericName = 3;

RankInfo Rank(int32_t api_version = 5) {
  RankInfo rank;
  rank.rank = 0;
  rank.nccl_api_version = api_version;
  rank.names = {"_Z40ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
                "ncclDevKernel_AllGather_RING_LL", "ncclDevKernel_Generic"};
  rank.streams = {{0x7000, 13, 0}, {0x8000, 14, 0}};
  rank.comms.resize(1);
  return rank;
}
Event Launch(int64_t begin_ns, uint64_t stream = 0x7000, uint16_t lane = 0) {
  Event event;
  event.kind = static_cast<uint16_t>(EventKind::kKernelLaunch);
  event.begin_ns = begin_ns;
  event.end_ns = begin_ns + 2 * kUs;
  event.lane = lane;
  event.payload.launch.stream = stream;
  return event;
}
Event Operation(int64_t begin_ns, uint64_t op_id, Function func = Function::kAllReduce, uint16_t lane = 0) {
  Event event;
  event.kind = static_cast<uint16_t>(EventKind::kColl);
  event.begin_ns = begin_ns;
  event.end_ns = begin_ns + 1 * kUs;
  event.lane = lane;
  event.op_id = op_id;
  event.payload.coll.func = static_cast<uint8_t>(func);
  return event;
}
// The tests make events in the order of the host's calls, and CUPTI gives its ids in that order.
uint32_t NextCorrelation() {
  static uint32_t last = 0;
  return ++last;
}
Event Kernel(int64_t begin_ns, int64_t end_ns, uint32_t stream = 13, uint32_t name = kAllReduceName) {
  Event event;
  event.kind = static_cast<uint16_t>(EventKind::kGpuKernel);
  event.aux = static_cast<uint16_t>(schema::GpuKernelClass::kNccl);
  event.begin_ns = begin_ns;
  event.end_ns = end_ns;
  event.payload.kernel.name = name;
  event.payload.kernel.correlation = NextCorrelation();
  event.payload.kernel.stream = stream;
  return event;
}
Event Sync(int64_t begin_ns, int64_t end_ns, uint16_t type = 4) {
  Event event;
  event.kind = static_cast<uint16_t>(EventKind::kGpuSync);
  event.aux = type;
  event.begin_ns = begin_ns;
  event.end_ns = end_ns;
  event.payload.kernel.correlation = NextCorrelation();
  event.payload.kernel.stream = 13;
  return event;
}
Event Group(int64_t begin_ns, int64_t end_ns) {
  Event event;
  event.kind = static_cast<uint16_t>(EventKind::kGroup);
  event.begin_ns = begin_ns;
  event.end_ns = end_ns;
  return event;
}

// op_id -> begin and end of its kernel.
using Joined = std::map<uint64_t, std::pair<int64_t, int64_t>>;
Joined Join(const RankInfo& rank, std::vector<Event> events, JoinStats* stats) {
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.end_ns < b.end_ns; });
  Joined joined;
  const std::vector<RankInfo> ranks = {rank};
  KernelJoiner joiner(ranks, [&](const JoinedKernel& kernel) {
    for (const auto& operation : kernel.operations) {
      const Event event = CompletionOf(kernel, operation);
      EXPECT_EQ(event.payload.completion.source, static_cast<uint8_t>(schema::CompletionSource::kGpuKernel));
      joined[event.op_id] = {event.begin_ns, event.end_ns};
    }
  });
  for (const Event& event : events) joiner.Add(event);
  *stats = joiner.Finish();
  return joined;
}

TEST(KernelJoinTest, TheHostRunsFarAheadAndEveryKernelFindsItsLaunch) {
  std::vector<Event> events;
  Joined expected;
  for (uint64_t i = 0; i < 200; ++i) {
    const auto t = static_cast<int64_t>(i) * 10 * kUs;
    events.push_back(Launch(t));
    events.push_back(Operation(t + 3 * kUs, 100 + i));
    // On the GPU each takes a millisecond, one after the other: the host is done long before.
    const int64_t begin = 20 * kUs + static_cast<int64_t>(i) * kMs;
    events.push_back(Kernel(begin, begin + kMs));
    expected[100 + i] = {begin, begin + kMs};
  }
  JoinStats stats;
  EXPECT_EQ(Join(Rank(), events, &stats), expected);
  EXPECT_EQ(stats.joined(), 200u);
  EXPECT_EQ(stats.reanchored(), 0u);
  EXPECT_EQ(stats.launches_without_kernel, 0u);
}

TEST(KernelJoinTest, StreamsDoNotMixAndAPlanMayHoldSeveralOperations) {
  const std::vector<Event> events = {
      Launch(0, 0x7000, 0),
      Launch(1 * kUs, 0x8000, 1),  // another thread, another stream
      Operation(4 * kUs, 1, Function::kAllReduce, 0),
      Operation(5 * kUs, 2, Function::kAllGather, 1),
      Operation(7 * kUs, 3, Function::kReduceScatter, 0),  // grouped with the first
      Kernel(50 * kUs, 60 * kUs, 14, kAllGatherName),
      Kernel(50 * kUs, 90 * kUs, 13, kGenericName),
  };
  JoinStats stats;
  EXPECT_EQ(Join(Rank(), events, &stats),
            (Joined{{1, {50 * kUs, 90 * kUs}}, {2, {50 * kUs, 60 * kUs}}, {3, {50 * kUs, 90 * kUs}}}));
}

TEST(KernelJoinTest, AKernelThatEndsBeforeItsOperationIsRecordedIsJoinedAllTheSame) {
  const std::vector<Event> events = {Launch(0), Kernel(2 * kUs, 5 * kUs), Operation(6 * kUs, 7)};
  JoinStats stats;
  EXPECT_EQ(Join(Rank(), events, &stats), (Joined{{7, {2 * kUs, 5 * kUs}}}));
}

TEST(KernelJoinTest, ALostKernelDisturbsNothingBehindTheNextSynchronisation) {
  std::vector<Event> events;
  Joined expected;
  for (uint64_t step = 0; step < 3; ++step) {
    const auto t = static_cast<int64_t>(step) * 100 * kMs;
    for (uint64_t i = 0; i < 4; ++i) {
      const int64_t launch = t + static_cast<int64_t>(i) * 10 * kUs;
      events.push_back(Launch(launch));
      events.push_back(Operation(launch + 3 * kUs, step * 10 + i));
      const int64_t begin = t + kMs + static_cast<int64_t>(i) * kMs;
      if (step == 0 && i == 1) continue;  // this record was lost
      events.push_back(Kernel(begin, begin + kMs / 2));
      if (step > 0) expected[step * 10 + i] = {begin, begin + kMs / 2};
    }
    events.push_back(Sync(t + 50 * kUs, t + 10 * kMs));
  }
  JoinStats stats;
  const Joined joined = Join(Rank(), events, &stats);
  for (const auto& [op, times] : expected) EXPECT_EQ(joined.at(op), times) << op;
  // Of the first step, whose launches all came before the first kernel, each kernel may be of two: none is tied.
  for (const uint64_t op : {0, 1, 2, 3}) EXPECT_EQ(joined.count(op), 0u);
  EXPECT_EQ(stats.launches_without_kernel, 4u);
  EXPECT_EQ(stats.joined(), 8u);
}

TEST(KernelJoinTest, TheFunctionInTheNamePutsTheListsInStepAgain) {
  const std::vector<Event> events = {
      Launch(0),
      Operation(3 * kUs, 1, Function::kAllReduce),
      Launch(10 * kUs),
      Operation(13 * kUs, 2, Function::kAllGather),
      Kernel(kMs, 2 * kMs, 13, kAllGatherName),  // the all-reduce's record was lost
  };
  JoinStats stats;
  EXPECT_EQ(Join(Rank(), events, &stats), (Joined{{2, {kMs, 2 * kMs}}}));
  EXPECT_EQ(stats.reanchored(), 1u);
  EXPECT_EQ(stats.launches_without_kernel, 1u);
}

TEST(KernelJoinTest, AKernelBeforeAnyLaunchIsNobodys) {
  JoinStats stats;
  EXPECT_TRUE(Join(Rank(), {Kernel(0, kUs), Launch(5 * kUs), Operation(8 * kUs, 1)}, &stats).empty());
  EXPECT_EQ(stats.of(JoinConfidence::kNone), 1u);
  EXPECT_EQ(stats.launches_without_kernel, 1u);
}

TEST(KernelJoinTest, WithoutLaunchEventsTheOrderOfTheRanksPlansServes) {
  const std::vector<Event> events = {Operation(1 * kUs, 1),          Group(0, 3 * kUs),
                                     Operation(11 * kUs, 2),         Group(10 * kUs, 13 * kUs),
                                     Kernel(20 * kUs, 30 * kUs, 99), Kernel(30 * kUs, 40 * kUs, 99)};
  // Of several communicators as well: correlation ids are of the process.
  for (const size_t communicators : {1, 2}) {
    RankInfo rank = Rank(3);
    rank.comms.resize(communicators);
    JoinStats stats;
    EXPECT_EQ(Join(rank, events, &stats), (Joined{{1, {20 * kUs, 30 * kUs}}, {2, {30 * kUs, 40 * kUs}}}));
    EXPECT_EQ(stats.by_order(), 2u);
  }
}

TEST(BusyTimeTest, IsTheLengthOfTheUnion) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::pair<int64_t, int64_t>> intervals;
    std::vector<bool> covered(2000);
    for (int i = 0; i < 60; ++i) {
      const auto begin = static_cast<int64_t>(random() % 1900), end = begin + static_cast<int64_t>(random() % 90);
      intervals.emplace_back(end, begin);
      for (int64_t at = begin; at < end; ++at) covered[static_cast<size_t>(at)] = true;
    }
    std::sort(intervals.begin(), intervals.end());
    BusyTime busy;
    for (const auto& [end, begin] : intervals) busy.Add(begin, end);
    EXPECT_EQ(busy.total_ns(), std::count(covered.begin(), covered.end(), true));
  }
}

TEST(KernelNameTest, AnArgumentListIsNotPartOfAName) {
  EXPECT_EQ(ShortKernelName("_ZN2at6native29vectorized_elementwise_kernelILi4EfEEviT0_"),
            "at::native::vectorized_elementwise_kernel<>");
  EXPECT_EQ(ShortKernelName("ncclDevKernel_AllGather_RING_LL"), "ncclDevKernel_AllGather_RING_LL");
  EXPECT_EQ(ShortKernelName("_Z4gemmPfS_i"), "gemm");
  EXPECT_EQ(ShortKernelName("_ZN12_GLOBAL__N_13fooEv"), "(anonymous)::foo");
  EXPECT_EQ(ShortKernelName("not(mangled"), "not");
}

Event Range(RankInfo* rank, const char* name, int64_t begin_ns, int64_t end_ns, Phase hook = Phase::kUnknown) {
  auto found = std::find(rank->names.begin(), rank->names.end(), name);
  if (found == rank->names.end()) found = rank->names.insert(found, name);
  Event event;
  event.kind = static_cast<uint16_t>(EventKind::kRange);
  event.begin_ns = begin_ns;
  event.end_ns = end_ns;
  event.payload.range.name = static_cast<uint32_t>(found - rank->names.begin() + 1);
  event.payload.range.phase = static_cast<uint8_t>(hook);
  if (hook != Phase::kUnknown) event.aux = static_cast<uint16_t>(schema::RangeForm::kHook);
  return event;
}
PhaseReport Collect(const RankInfo& rank, std::vector<Event> events) {
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.end_ns < b.end_ns; });
  const std::vector<RankInfo> ranks = {rank};
  PhaseCollector collector(ranks, 100);
  for (const Event& event : events) collector.Add(event);
  return collector.Finish();
}
int64_t PhaseNs(const PhaseReport& report, Phase phase) {
  return report.ranks[0].phase_ns[static_cast<size_t>(phase)];
}

TEST(PhasesTest, AMomentBelongsToTheInnermostRangeThatHasAPhase) {
  RankInfo rank;
  std::vector<Event> events;
  for (int64_t step = 0; step < 10; ++step) {
    const int64_t t = 1'000'000'000 + step * 100 * kMs;
    events.push_back(Range(&rank, "train step", t, t + 100 * kMs));  // tells nothing
    events.push_back(Range(&rank, "data_loading", t, t + 10 * kMs, Phase::kDataLoading));
    events.push_back(Range(&rank, "DeepSpeedEngine.forward", t + 10 * kMs, t + 40 * kMs));
    events.push_back(Range(&rank, "DeepSpeedEngine.backward", t + 40 * kMs, t + 80 * kMs));
    events.push_back(
        Range(&rank, "DeepSpeedZeroOptimizer_Stage3.__reduce_and_partition_ipg_grads", t + 50 * kMs, t + 55 * kMs));
    events.push_back(Range(&rank, "DeepSpeedZeroOptimizer_Stage3.step", t + 85 * kMs, t + 95 * kMs));
  }
  const PhaseReport report = Collect(rank, events);
  EXPECT_EQ(PhaseNs(report, Phase::kDataLoading), 100 * kMs);
  EXPECT_EQ(PhaseNs(report, Phase::kForward), 300 * kMs);
  EXPECT_EQ(PhaseNs(report, Phase::kBackward), 350 * kMs);
  EXPECT_EQ(PhaseNs(report, Phase::kGradientReduction), 50 * kMs);
  EXPECT_EQ(PhaseNs(report, Phase::kOptimizer), 100 * kMs);
  // From the first range with a phase to the last one's end: 995 ms, of which 5 ms before each step() and 5 ms after
  // it (but the last).
  EXPECT_EQ(report.ranks[0].window_ns, 995 * kMs);
  EXPECT_EQ(report.ranks[0].other_ns, 995 * kMs - 900 * kMs);
  EXPECT_EQ(report.ranks[0].source_ns[static_cast<size_t>(schema::PhaseSource::kHook)], 100 * kMs);
  EXPECT_EQ(report.ranks[0].source_ns[static_cast<size_t>(schema::PhaseSource::kRange)], 800 * kMs);
  EXPECT_EQ(report.ranges[0].name, "train step");
  EXPECT_EQ(report.ranges[0].total_ns, 1000 * kMs);
}

TEST(PhasesTest, CheckpointAndDataLoadingGoBeforeWhatTheyHappenIn) {
  RankInfo rank;
  const PhaseReport report = Collect(
      rank,
      {Range(&rank, "forward", 0, 100 * kMs), Range(&rank, "data_loading", 20 * kMs, 90 * kMs, Phase::kDataLoading),
       Range(&rank, "save_checkpoint", 10 * kMs, 50 * kMs), Range(&rank, "backward", 60 * kMs, 80 * kMs)});
  EXPECT_EQ(PhaseNs(report, Phase::kCheckpoint), 40 * kMs);
  EXPECT_EQ(PhaseNs(report, Phase::kDataLoading), 40 * kMs);
  EXPECT_EQ(PhaseNs(report, Phase::kForward), 20 * kMs);
  EXPECT_EQ(PhaseNs(report, Phase::kBackward), 0);
  EXPECT_EQ(report.ranks[0].other_ns, 0);
}

TEST(PhasesTest, ARangeThatAnExceptionLeftOpenTellsNoTime) {
  RankInfo rank;
  Event open = Range(&rank, "DeepSpeedEngine.forward", 0, 500 * kMs);
  open.flags = schema::kFlagStopMissing;
  const PhaseReport report = Collect(rank, {open, Range(&rank, "DeepSpeedEngine.forward", 500 * kMs, 600 * kMs)});
  EXPECT_EQ(PhaseNs(report, Phase::kForward), 100 * kMs);
}

TEST(PhasesTest, CallsOfTheAutogradThreadAreBackward) {
  RankInfo rank;
  rank.threads = {{3, 77, "pt_autograd_0"}, {0, 70, "python"}};
  std::vector<Event> events;
  for (int64_t i = 0; i < 10; ++i) events.push_back(Operation(i * 10 * kMs, 1, Function::kAllReduce, 3));
  events.push_back(Operation(500 * kMs, 1, Function::kAllReduce, 0));  // the main thread's
  for (int64_t i = 0; i < 3; ++i) events.push_back(Operation(kMs * 1000 + i * 10 * kMs, 1, Function::kAllReduce, 3));
  const PhaseReport report = Collect(rank, events);
  EXPECT_EQ(PhaseNs(report, Phase::kBackward), 90 * kMs + kUs + 20 * kMs + kUs);
  EXPECT_EQ(report.ranks[0].source_ns[static_cast<size_t>(schema::PhaseSource::kThread)],
            PhaseNs(report, Phase::kBackward));
}

Event CudaCall(uint32_t correlation, int64_t begin_ns, uint32_t thread) {
  Event event;
  event.kind = static_cast<uint16_t>(EventKind::kCudaApi);
  event.begin_ns = begin_ns;
  event.end_ns = begin_ns + 5 * kUs;
  event.payload.kernel.correlation = correlation;
  event.payload.kernel.stream = thread;
  return event;
}
Event GpuWork(uint32_t correlation, int64_t begin_ns, int64_t length_ns) {
  Event event;
  event.kind = static_cast<uint16_t>(EventKind::kGpuKernel);
  event.begin_ns = begin_ns;
  event.end_ns = begin_ns + length_ns;
  event.payload.kernel.correlation = correlation;
  return event;
}
RankInfo RankWithCalls() {
  RankInfo rank;
  rank.threads = {{0, 70, "python", 0x1000}, {3, 77, "pt_autograd_0", 0x2000}, {5, 78, "loader", 0x3000}};
  rank.kinds = {{static_cast<uint16_t>(EventKind::kCudaApi), 1, 1, 0, 0}};
  return rank;
}
int64_t GpuNs(const PhaseReport& report, Phase phase) { return report.ranks[0].gpu_ns[static_cast<size_t>(phase)]; }

TEST(PhasesTest, GpuWorkHasThePhaseInWhichItsThreadLaunchedIt) {
  RankInfo rank = RankWithCalls();
  Event loading = Range(&rank, "data_loading", 0, 1000 * kMs, Phase::kDataLoading);
  loading.lane = 5;  // a thread of its own, all the time
  const PhaseReport report = Collect(
      rank, {loading, Range(&rank, "forward", 100 * kMs, 200 * kMs), Range(&rank, "optimizer", 500 * kMs, 600 * kMs),
             CudaCall(1, 150 * kMs, 0x1000), GpuWork(1, 700 * kMs, 11 * kMs),  // long after its launch
             CudaCall(2, 100 * kMs, 0x1000), GpuWork(2, 110 * kMs, 13 * kMs),  // at the very begin of the range
             CudaCall(3, 300 * kMs, 0x2000), GpuWork(3, 301 * kMs, 17 * kMs),  // autograd, in no range of its own
             CudaCall(4, 550 * kMs, 0x2000), GpuWork(4, 560 * kMs, 19 * kMs),  // and while another thread is in one
             CudaCall(5, 550 * kMs, 0x1000), GpuWork(5, 561 * kMs, 23 * kMs), CudaCall(6, 350 * kMs, 0x3000),
             GpuWork(6, 360 * kMs, 29 * kMs), CudaCall(7, 2000 * kMs, 0x1000),
             GpuWork(7, 2001 * kMs, 31 * kMs),   // after all ranges
             GpuWork(8, 400 * kMs, 37 * kMs)});  // its call was lost
  EXPECT_EQ(GpuNs(report, Phase::kForward), (11 + 13) * kMs);
  EXPECT_EQ(GpuNs(report, Phase::kBackward), (17 + 19) * kMs);
  EXPECT_EQ(GpuNs(report, Phase::kOptimizer), 23 * kMs);
  EXPECT_EQ(GpuNs(report, Phase::kDataLoading), 29 * kMs);
  EXPECT_EQ(GpuNs(report, Phase::kOther), 31 * kMs);
  EXPECT_EQ(report.ranks[0].gpu_unknown_ns, 37 * kMs);
  EXPECT_EQ(PhaseNs(report, Phase::kForward), 0) << "the host's time is as it was: data loading goes first";
}

TEST(PhasesTest, ACallThatEndsAfterItsKernelAndAGraphOfOneCallAreTold) {
  RankInfo rank = RankWithCalls();
  Event slow = CudaCall(1, 100 * kMs, 0x1000);
  slow.end_ns = 150 * kMs;
  const PhaseReport report =
      Collect(rank, {Range(&rank, "forward", 90 * kMs, 200 * kMs), slow, GpuWork(1, 110 * kMs, 3 * kMs),
                     GpuWork(1, 120 * kMs, 5 * kMs), GpuWork(1, 300 * kMs, 7 * kMs)});
  EXPECT_EQ(GpuNs(report, Phase::kForward), 15 * kMs);
  EXPECT_EQ(report.ranks[0].gpu_unknown_ns, 0);
}

TEST(PhasesTest, LongRunsWithLaunchesAreSweptInPiecesWithTheSameSums) {
  RankInfo rank = RankWithCalls();
  std::vector<Event> events;
  constexpr int64_t kSteps = 150'000;
  for (int64_t step = 0; step < kSteps; ++step) {
    const int64_t t = step * 10 * kMs;
    const auto id = static_cast<uint32_t>(step * 2 + 1);
    events.push_back(Range(&rank, "forward", t, t + 4 * kMs));
    events.push_back(CudaCall(id, t + kMs, 0x1000));
    events.push_back(GpuWork(id, t + 5 * kMs, 2 * kMs));
    events.push_back(CudaCall(id + 1, t + 5 * kMs, 0x1000));
    events.push_back(GpuWork(id + 1, t + 7 * kMs, kMs));
  }
  const PhaseReport report = Collect(rank, events);
  EXPECT_EQ(GpuNs(report, Phase::kForward), kSteps * 2 * kMs);
  EXPECT_EQ(GpuNs(report, Phase::kOther), kSteps * kMs);
  EXPECT_EQ(report.ranks[0].gpu_unknown_ns, 0);
}

TEST(PhasesTest, LongRunsAreSweptInPiecesWithTheSameSums) {
  RankInfo rank;
  std::vector<Event> events;
  constexpr int64_t kSteps = 150'000;
  for (int64_t step = 0; step < kSteps; ++step) {
    const int64_t t = step * 10 * kMs;
    events.push_back(Range(&rank, "forward", t, t + 4 * kMs));
    events.push_back(Range(&rank, "optimizer", t + 5 * kMs, t + 6 * kMs));
  }
  const PhaseReport report = Collect(rank, events);
  EXPECT_EQ(PhaseNs(report, Phase::kForward), kSteps * 4 * kMs);
  EXPECT_EQ(PhaseNs(report, Phase::kOptimizer), kSteps * kMs);
}

TEST(PhasesTest, NamesOfFrameworksTell) {
  EXPECT_EQ(PhaseOfRange("", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"), Phase::kDataLoading);
  EXPECT_EQ(PhaseOfRange("DeepSpeed", "DeepSpeedEngine.allreduce_gradients"), Phase::kGradientReduction);
  EXPECT_EQ(PhaseOfRange("", "Optimizer.step#AdamW.step"), Phase::kOptimizer);
  EXPECT_EQ(PhaseOfRange("", "FSDP::post_backward_reduce (layers.3)"), Phase::kGradientReduction);
  EXPECT_EQ(PhaseOfRange("", "Forward"), Phase::kForward);
  EXPECT_EQ(PhaseOfRange("", "my own work"), Phase::kUnknown);
  EXPECT_EQ(PhaseOfRange("NCCL", "ncclAllReduce"), Phase::kUnknown);
  EXPECT_EQ(PhaseOfRange("", "step 17 of the warm-up"), Phase::kUnknown) << "only the whole word";
}

// Two ranks: the host calls at once, but rank 1's GPU comes 3 ms late, since it computes longer.
TEST(ReportTest, GpuTimesTellWhoIsLateWhereTheHostsDoNot) {
  FakeRecording recording(2);
  const auto comm = recording.AddComm(1, {0, 1});
  for (RankInfo& rank : recording.mutable_ranks()) {
    rank.names = {"ncclDevKernel_AllReduce_Sum_f32_RING_LL", "_Z4gemmPfS_i"};
    rank.streams = {{0x7000, 13, 0}};
    rank.cupti.state = static_cast<uint32_t>(schema::CuptiState::kArmed);
    rank.cupti.clock = static_cast<uint32_t>(schema::CuptiClock::kOurs);
    for (const EventKind kind : {EventKind::kGpuKernel, EventKind::kKernelLaunch, EventKind::kRange})
      rank.kinds.push_back({static_cast<uint16_t>(kind), 1, 1, 0, 0});
  }
  for (int64_t i = 0; i < 20; ++i) {
    const int64_t t = kStartNs + i * 20 * kMs;
    for (uint32_t r = 0; r < 2; ++r) {
      Event launch = Launch(t - 3 * kUs);
      launch.rank_index = r;
      recording.mutable_events().push_back(launch);
      const int64_t begin = t + kMs + (r == 1 ? 3 * kMs : 0);
      Event compute = Kernel(t, begin, 7, 2);
      compute.aux = 0;
      compute.rank_index = r;
      recording.mutable_events().push_back(compute);
      Event kernel = Kernel(begin, t + 6 * kMs, 13, 1);  // both end together
      kernel.rank_index = r;
      recording.mutable_events().push_back(kernel);
    }
    recording.Collective(comm, {.count = 1'000'000, .api = false, .completes = false, .first = i == 0}, {t, t});
  }
  const Report report = BuildReport(recording);
  EXPECT_EQ(report.join.joined(), 40u);
  EXPECT_EQ(report.operations_with_gpu_times, 20u);
  ASSERT_EQ(report.skew.stragglers.size(), 1u);
  EXPECT_EQ(report.skew.stragglers[0].rank_index, 1u);
  EXPECT_EQ(report.skew.ranks[1].largest_caused_ns, 3 * kMs);
  ASSERT_EQ(report.totals.size(), 1u);
  EXPECT_EQ(report.totals[0].transfer_ns.max(), 2 * kMs) << "from the last kernel's begin to their end";
  // 20 steps of 20 ms, the last one 6 ms: compute 1 and 4 ms a step, NCCL 5 and 2.
  EXPECT_EQ(report.gpu.ranks[0].compute_ns, 20 * kMs);
  EXPECT_EQ(report.gpu.ranks[1].compute_ns, 80 * kMs);
  EXPECT_EQ(report.gpu.ranks[0].nccl_ns, 100 * kMs);
  EXPECT_EQ(report.gpu.ranks[1].nccl_ns, 40 * kMs);
  EXPECT_EQ(report.gpu.ranks[0].busy_ns, 120 * kMs);
  EXPECT_EQ(report.gpu.ranks[0].last_ns - report.gpu.ranks[0].first_ns, 386 * kMs);
  const std::string text = RenderText(report);
  EXPECT_THAT(text, HasSubstr("The others wait for rank 1"));
  EXPECT_THAT(text, HasSubstr("those of their kernels on the GPUs"));
  EXPECT_THAT(text, HasSubstr("40 of 40 NCCL kernels are tied"));
  EXPECT_THAT(text, HasSubstr("gemm"));
  const auto json = ToJson(report);
  EXPECT_EQ(json["gpu"]["join"]["joined"], 40);
  EXPECT_EQ(json["gpu"]["ranks"][1]["compute_ns"], 80 * kMs);
}

TEST(GpuTextTest, AnUnusedSourceSaysWhy) {
  analysis::CuptiSourceInfo cupti;
  cupti.state = static_cast<uint32_t>(schema::CuptiState::kRefused);
  cupti.holder = "CUPTI for nsys";
  cupti.result = 39;
  EXPECT_THAT(CuptiStateText(cupti), HasSubstr("CUPTI for nsys"));
  cupti.state = static_cast<uint32_t>(schema::CuptiState::kFailed);
  cupti.failing_call = "cuptiSubscribe";
  cupti.library = "/x/libcupti.so.12";
  cupti.result = 15;
  EXPECT_EQ(CuptiStateText(cupti), "no GPU records: cuptiSubscribe of /x/libcupti.so.12 failed with code 15");
  EXPECT_EQ(CuptiVersionText(130001), "13.0 (130001)");
  EXPECT_EQ(CuptiVersionText(22), "before 13.0 (API 22)");
}

}  // namespace
}  // namespace rankscope::answers
