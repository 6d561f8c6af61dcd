// The library behind NVTX's real headers: two libraries that each carry a copy of them, in child processes, so that
// NVTX_INJECTION64_PATH is set before their first range. What is expected stands in nvtx_user.cc.
#include <dlfcn.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <thread>

#include "analysis/answers/report.h"
#include "shim/hook_entry.h"
#include "tests/contract/contract_fixture.h"

#ifndef RANKSCOPE_NVTX_USERS
#define RANKSCOPE_NVTX_USERS ""  // no headers: no such libraries
#endif

namespace rankscope::testing {
namespace {

using analysis::Event;
using schema::EventKind;
using schema::LossReason;

class NvtxTest : public ContractTest {
 protected:
  void SetUp() override {
    if (std::string(RANKSCOPE_NVTX_USERS).empty()) {
      GTEST_SKIP()
          << "NVTX's headers (nvtx3/nvToolsExtPayload.h) were not found when this was configured; install the "
             "CUDA toolkit's NVTX or set RANKSCOPE_NVTX_INCLUDE";
    }
    setenv("NVTX_INJECTION64_PATH", RANKSCOPE_LIBRARY_UNDER_TEST, 1);
  }

  using Run = int (*)(const char*);
  static Run User(int which) {
    const std::string path =
        std::string(RANKSCOPE_NVTX_USERS) + (which == 0 ? "/libnvtx_user_a.so" : "/libnvtx_user_b.so");
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    return library == nullptr ? nullptr : reinterpret_cast<Run>(dlsym(library, "nvtx_user_run"));
  }
  // Exit status of a child that runs `body`; it must say 0.
  static int InChild(const std::function<int()>& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  static int RunScenes(const std::vector<const char*>& scenes) {
    return InChild([&] {
      const Run run = User(0);
      if (run == nullptr) return 99;
      for (const char* scene : scenes) {
        if (run(scene) != 0) return 98;
      }
      return 0;
    });
  }
  static std::string Name(const analysis::Recording& recording, uint32_t id) {
    const std::vector<std::string>& names = recording.ranks()[0].names;
    return id == 0 ? "" : id <= names.size() ? names[id - 1] : "(beyond the table)";
  }
  static std::string NameOf(const analysis::Recording& recording, const Event& event) {
    return Name(recording, event.payload.range.name);
  }
  bool AnyRing() const { return std::filesystem::exists(dir_ + "/rings/job"); }
};

TEST_F(NvtxTest, RangesOfTwoLibrariesAndFourThreadsReachOneRing) {
  constexpr int kRounds = 50;
  ASSERT_EQ(InChild([] {
              std::vector<std::thread> threads;
              std::atomic<int> done{0};
              for (int t = 0; t < 4; ++t) {
                threads.emplace_back([&done, t] {
                  const Run run = User(t % 2);
                  for (int i = 0; i < kRounds; ++i) run("nested");
                  // None ends before the others: its lane would be another's, and its records overwritten.
                  done.fetch_add(1);
                  while (done.load() < 4) std::this_thread::yield();
                });
              }
              for (std::thread& thread : threads) thread.join();
              return 0;
            }),
            0);
  const auto recording = Read();
  ASSERT_NE(recording, nullptr);
  ASSERT_EQ(recording->ranks().size(), 1u);
  EXPECT_EQ(recording->ranks()[0].doors, schema::kDoorNvtx);
  const uint64_t both = analysis::MaskOf(EventKind::kRange) | analysis::MaskOf(EventKind::kMark);
  EXPECT_EQ(recording->ranks()[0].record_kinds & both, both);
  std::map<std::string, int> seen;
  for (const Event& range : Events(*recording, EventKind::kRange)) {
    const std::string name = NameOf(*recording, range);
    ++seen[name];
    EXPECT_EQ(range.payload.range.depth, name == "outer" ? 0 : 1);
    EXPECT_EQ(range.aux, static_cast<uint16_t>(schema::RangeForm::kPushPop));
    EXPECT_EQ(range.payload.range.phase, 0) << "decided offline";
    EXPECT_LE(range.begin_ns, range.end_ns);
  }
  EXPECT_EQ(seen, (std::map<std::string, int>{{"outer", 4 * kRounds}, {"inner \xe2\x82\xac", 4 * kRounds}}));
  const std::vector<Event> marks = Events(*recording, EventKind::kMark);
  EXPECT_EQ(marks.size(), 4u * kRounds);
  EXPECT_EQ(NameOf(*recording, marks[0]), "mark");
  EXPECT_EQ(marks[0].payload.range.depth, 2);
}

TEST_F(NvtxTest, StartedRangesOverlap) {
  ASSERT_EQ(RunScenes({"start_end"}), 0);
  const auto recording = Read();
  ASSERT_NE(recording, nullptr);
  const std::vector<Event> ranges = Events(*recording, EventKind::kRange);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(NameOf(*recording, ranges[0]), "started first");
  EXPECT_EQ(NameOf(*recording, ranges[1]), "started second");
  EXPECT_LE(ranges[0].begin_ns, ranges[1].begin_ns);
  EXPECT_LE(ranges[1].begin_ns, ranges[0].end_ns);
  EXPECT_EQ(ranges[0].aux, static_cast<uint16_t>(schema::RangeForm::kStartEnd));
}

TEST_F(NvtxTest, DomainsHaveTheirNameTheirStackAndTheirPayload) {
  ASSERT_EQ(RunScenes({"domains"}), 0);
  const auto recording = Read();
  ASSERT_NE(recording, nullptr);
  const std::vector<Event> ranges = Events(*recording, EventKind::kRange);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(NameOf(*recording, ranges[0]), "registered name");
  EXPECT_EQ(Name(*recording, ranges[0].payload.range.domain), "DeepSpeed");
  EXPECT_EQ(ranges[0].payload.range.value, 1234567890123u);
  EXPECT_EQ(NameOf(*recording, ranges[1]), "default inside");
  EXPECT_EQ(ranges[1].payload.range.domain, 0u);
  const std::vector<Event> marks = Events(*recording, EventKind::kMark);
  ASSERT_EQ(marks.size(), 1u);
  EXPECT_EQ(Name(*recording, marks[0].payload.range.domain), "DeepSpeed");
}

TEST_F(NvtxTest, WhatAnExceptionLeftOpenIsClosedAtTheNextForward) {
  ASSERT_EQ(RunScenes({"nested", "unbalanced"}), 0);
  const auto recording = Read();
  ASSERT_NE(recording, nullptr);
  std::vector<Event> forwards;
  for (const Event& range : Events(*recording, EventKind::kRange)) {
    if (NameOf(*recording, range) == "DeepSpeedEngine.forward") forwards.push_back(range);
  }
  ASSERT_EQ(forwards.size(), 2u);
  EXPECT_EQ(forwards[0].flags, schema::kFlagStopMissing);
  EXPECT_EQ(forwards[1].flags, 0);
  EXPECT_EQ(forwards[1].payload.range.depth, 0);
  EXPECT_EQ(Lost(*recording, LossReason::kRangeUnbalanced), 2u)
      << "the pop without a push, and the push without a pop";
}

TEST_F(NvtxTest, NcclsDomainGivesBytesAndCommunicator) {
  ASSERT_EQ(RunScenes({"nccl"}), 0);
  const auto recording = Read();
  ASSERT_NE(recording, nullptr);
  const std::vector<Event> ranges = Events(*recording, EventKind::kRange);
  ASSERT_EQ(ranges.size(), 2u) << "one popped by the core call, one by the payload extension's";
  for (const Event& range : ranges) {
    EXPECT_EQ(NameOf(*recording, range), "ncclBroadcast");
    EXPECT_EQ(Name(*recording, range.payload.range.domain), "NCCL");
    EXPECT_EQ(range.payload.range.value, 65536u);
    EXPECT_EQ(range.payload.range.detail, 0x55667788u);
    EXPECT_EQ(range.payload.range.depth, 0);
  }
}

// NCCL without a profiler plugin (before 2.23): its ranges are all that there is.
TEST_F(NvtxTest, NcclsRangesBecomeCallsWhereNoPluginCame) {
  setenv("NVTX_USER_RANK", "1", 1);
  ASSERT_EQ(RunScenes({"old_nccl"}), 0);
  const auto recording = Read();
  ASSERT_NE(recording, nullptr);
  const analysis::RankInfo& rank = recording->ranks()[0];
  EXPECT_EQ(rank.doors, schema::kDoorNvtx | schema::kDoorNcclRanges);
  EXPECT_EQ(rank.rank, 1);
  EXPECT_EQ(rank.world_size, 2);
  ASSERT_EQ(rank.comms.size(), 1u);
  EXPECT_EQ(rank.comms[0].rank, 1);
  EXPECT_EQ(rank.comms[0].ranks, 2);
  EXPECT_EQ(rank.comms[0].flags, schema::kCommIdentityMissing | schema::kCommSizeKnown | schema::kCommFinalized);
  const std::vector<Event> calls = Events(*recording, EventKind::kCollApi);
  ASSERT_EQ(calls.size(), 3u);
  const struct {
    schema::Function func;
    uint64_t bytes;
    uint32_t ordinal;
  } expected[] = {{schema::Function::kAllReduce, 4096, 0},
                  {schema::Function::kAllReduce, 8192, 1},
                  {schema::Function::kAllGather, 1024, 0}};
  const std::vector<Event> ranges = Events(*recording, EventKind::kRange);
  for (size_t i = 0; i < 3; ++i) {
    const schema::ApiPayload& call = calls[i].payload.api;
    EXPECT_EQ(call.func, static_cast<uint8_t>(expected[i].func));
    EXPECT_EQ(call.count * schema::DataTypeBytes(static_cast<schema::DataType>(call.dtype)), expected[i].bytes);
    EXPECT_EQ(call.ordinal, expected[i].ordinal);
    EXPECT_EQ(calls[i].comm, rank.comms[0].slot);
    const auto range = std::find_if(ranges.begin(), ranges.end(),
                                    [&](const Event& r) { return r.payload.range.value == expected[i].bytes; });
    ASSERT_NE(range, ranges.end());
    EXPECT_EQ(calls[i].begin_ns, range->begin_ns) << "the call begins with its range";
    EXPECT_GE(calls[i].end_ns, range->end_ns);
  }
  EXPECT_EQ(Events(*recording, EventKind::kP2pApi).size(), 1u);
  EXPECT_EQ(Events(*recording, EventKind::kCommInit).size(), 1u);
}

TEST_F(NvtxTest, CallsOfOneOfSeveralNamelessCommunicatorsAreOfNone) {
  ASSERT_EQ(RunScenes({"old_nccl_two"}), 0);
  const auto recording = Read();
  ASSERT_NE(recording, nullptr);
  const std::vector<Event> calls = Events(*recording, EventKind::kCollApi);
  ASSERT_EQ(calls.size(), 4u);
  EXPECT_EQ(calls[2].comm, recording->ranks()[0].comms[0].slot) << "before the second one was made";
  EXPECT_EQ(calls[3].comm, schema::kCommUnknown);
}

TEST_F(NvtxTest, CommunicatorsWithAHashAreToldApartAndMatchedAcrossRanks) {
  for (const char* rank : {"0", "1"}) {
    setenv("NVTX_USER_RANK", rank, 1);
    ASSERT_EQ(RunScenes({"new_nccl"}), 0);
  }
  const auto recording = Read();
  ASSERT_NE(recording, nullptr);
  const answers::Report report = answers::BuildReport(*recording, {});
  ASSERT_EQ(report.communicators.all().size(), 2u);
  for (const answers::Communicator& comm : report.communicators.all()) {
    EXPECT_EQ(comm.hash, comm.members[0].comm_slot == 0 ? 1u : 2u) << "the low 32 bits";
    EXPECT_TRUE(comm.identity_known);
    EXPECT_EQ(comm.size, 2u);
    ASSERT_EQ(comm.members.size(), 2u);
    EXPECT_EQ(comm.finalized, comm.hash == 2);
    const int32_t first = recording->ranks()[comm.members[0].rank_index].rank;
    EXPECT_EQ(first, comm.hash == 1 ? 0 : 1) << "the pair's ranks are the other way round";
  }
  ASSERT_EQ(report.totals.size(), 1u);
  EXPECT_EQ(report.totals[0].api_only, 3u);
  EXPECT_EQ(report.totals[0].matched, 3u);
  EXPECT_EQ(report.matcher.unknown_communicator, 0u);
}

TEST_F(NvtxTest, WhereThePluginCameItsEventsAreTheOnlyOnes) {
  ASSERT_EQ(InChild([] {
              ProfilerHost host;
              if (!host.Open(RANKSCOPE_LIBRARY_UNDER_TEST, 5)) return 1;
              CommIdentity id;
              id.hash = 0xabc;
              id.ranks = 4;
              id.rank = 1;
              void* context = nullptr;
              if (host.Init(&context, id) != 0) return 2;
              return User(0)("new_nccl");
            }),
            0);
  const auto recording = Read();
  ASSERT_NE(recording, nullptr);
  EXPECT_EQ(recording->ranks()[0].comms.size(), 1u);
  EXPECT_EQ(Events(*recording, EventKind::kCollApi).size(), 0u);
  EXPECT_EQ(Events(*recording, EventKind::kRange).size(), 6u);
}

TEST_F(NvtxTest, WithoutARangeThereIsNoRing) {
  ASSERT_EQ(RunScenes({"prepare"}), 0);
  EXPECT_FALSE(AnyRing());
  ASSERT_EQ(RunScenes({"prepare", "start_end"}), 0);
  EXPECT_TRUE(AnyRing());
}

TEST_F(NvtxTest, DisabledMeansNoRingAndNoHarm) {
  setenv("RANKSCOPE_DISABLE", "1", 1);
  EXPECT_EQ(RunScenes({"prepare", "nested", "start_end", "domains", "unbalanced", "nccl"}), 0);
  EXPECT_FALSE(AnyRing());
  unsetenv("RANKSCOPE_DISABLE");
  setenv("RANKSCOPE_DIR", "/proc/nowhere", 1);
  setenv("RANKSCOPE_LOG", "off", 1);
  EXPECT_EQ(RunScenes({"nested", "nccl"}), 0) << "no place for a ring";
}

TEST_F(NvtxTest, TheHookAndNvtxShareTheRing) {
  ASSERT_EQ(InChild([] {
              const Run run = User(0);
              using Hook = int (*)(int, const char*, unsigned long long);
              void* library = dlopen(RANKSCOPE_LIBRARY_UNDER_TEST, RTLD_NOW);
              const auto hook = reinterpret_cast<Hook>(dlsym(library, "rankscope_hook_v1"));
              if (hook(shim::kHookPush, "optimizer", 0) != 0) return 1;
              run("nested");
              if (hook(shim::kHookPop, nullptr, 0) != 0) return 2;
              return hook(shim::kHookGroup, "data_parallel", 8);
            }),
            0);
  const auto recording = Read();
  ASSERT_NE(recording, nullptr);
  EXPECT_EQ(recording->ranks()[0].doors, schema::kDoorNvtx | schema::kDoorHook);
  const std::vector<Event> ranges = Events(*recording, EventKind::kRange);
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(NameOf(*recording, ranges[2]), "optimizer");
  EXPECT_EQ(ranges[2].payload.range.phase, static_cast<uint8_t>(schema::Phase::kOptimizer));
  EXPECT_EQ(ranges[2].payload.range.depth, 0);
  EXPECT_EQ(ranges[0].payload.range.depth, 2) << "within the hook's range, too";
  const std::vector<Event> marks = Events(*recording, EventKind::kMark);
  ASSERT_EQ(marks.size(), 2u);
  EXPECT_EQ(Name(*recording, marks[1].payload.range.domain), "rankscope.group");
  EXPECT_EQ(NameOf(*recording, marks[1]), "data_parallel");
}

}  // namespace
}  // namespace rankscope::testing
