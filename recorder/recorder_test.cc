// The recorder's parts that need no NCCL: settings, identity, the ring's plan, names, handles, clock.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "recorder/clock.h"
#include "recorder/config.h"
#include "recorder/identity.h"
#include "recorder/in_flight.h"
#include "recorder/ring_file.h"
#include "recorder/session.h"

namespace rankscope::recorder {
namespace {

TEST(ConfigTest, BytesTakeSuffixesAndRefuseTheRest) {
  uint64_t bytes = 0;
  EXPECT_TRUE(ParseBytes("4096", &bytes));
  EXPECT_EQ(bytes, 4096u);
  EXPECT_TRUE(ParseBytes("32M", &bytes));
  EXPECT_EQ(bytes, 32u << 20);
  EXPECT_TRUE(ParseBytes("2G", &bytes));
  EXPECT_EQ(bytes, 2ull << 30);
  for (const char* bad : {"", "M", "-1", "12Q", "1.5M", "99999999999999999999", "18446744073709551615G"}) {
    EXPECT_FALSE(ParseBytes(bad, &bytes)) << bad;
  }
}

TEST(ConfigTest, EventListsAddAndTakeAway) {
  uint32_t events = 0;
  char unknown[64];
  ASSERT_TRUE(ParseEventList("default,proxystep,-group", &events, unknown, sizeof(unknown)));
  EXPECT_EQ(events, (kEventsDefault | kEventsProxyStep | kEventsCompletion) & ~uint32_t{kEventsGroup});
  EXPECT_FALSE(ParseEventList("coll,nonsense", &events, unknown, sizeof(unknown)));
  EXPECT_STREQ(unknown, "nonsense");
}

TEST(ConfigTest, ThePlainNameWinsOverTheOneThatLaunchersForward) {
  setenv("NCCL_RANKSCOPE_JOB", "forwarded", 1);
  unsetenv("RANKSCOPE_JOB");
  EXPECT_STREQ(SettingValue("JOB"), "forwarded");
  setenv("RANKSCOPE_JOB", "plain", 1);
  EXPECT_STREQ(SettingValue("JOB"), "plain");
  unsetenv("RANKSCOPE_JOB");
  unsetenv("NCCL_RANKSCOPE_JOB");
}

TEST(ConfigTest, NamesBecomeSafeForAFileName) {
  char name[16];
  CopySafeName("../a b/c", name, sizeof(name));
  EXPECT_EQ(std::string(name).find('/'), std::string::npos);
  EXPECT_NE(name[0], '.');
  CopySafeName("a-name-that-is-far-too-long", name, sizeof(name));
  EXPECT_EQ(std::string(name), "a-name-that-is-");
}

class IdentityTest : public ::testing::Test {
 protected:
  IdentityTest() {
    for (const char* name :
         {"RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RUN_ID", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
          "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_NNODES", "SLURM_STEP_NUM_NODES",
          "CUDA_VISIBLE_DEVICES", "CROSS_RANK", "LOCAL_SIZE", "MV2_COMM_WORLD_RANK", "SLURM_NPROCS"}) {
      unsetenv(name);
    }
    DescribeProcess(&identity_);
  }
  void Read(std::initializer_list<std::pair<const char*, const char*>> environment) {
    for (const auto& [name, value] : environment) setenv(name, value, 1);
    ReadEnvironmentIdentity(&identity_);
  }
  schema::ProcessIdentity identity_{};
};

TEST_F(IdentityTest, TorchrunsVariablesAreTheRank) {
  Read({{"RANK", "5"}, {"WORLD_SIZE", "16"}, {"LOCAL_RANK", "1"}, {"TORCHELASTIC_RUN_ID", "x"}});
  EXPECT_EQ(identity_.rank, 5);
  EXPECT_EQ(identity_.world_size, 16);
  EXPECT_EQ(identity_.local_rank, 1);
  EXPECT_STREQ(identity_.launcher, "torchrun");
}

TEST_F(IdentityTest, ARankWithoutItsCompanionsIsNotBelieved) {
  Read({{"RANK", "5"}});
  EXPECT_EQ(identity_.rank, -1);
}

TEST_F(IdentityTest, SlurmsProcessIsTheRankOnlyWhereSlurmStartedTheWorkers) {
  // srun with one task a node, which then starts torchrun: SLURM_PROCID is the node's.
  Read({{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}, {"SLURM_NNODES", "4"}});
  EXPECT_EQ(identity_.rank, -1);
  Read({{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "32"}, {"SLURM_NNODES", "4"}});
  EXPECT_EQ(identity_.rank, 3);
  EXPECT_EQ(identity_.rank_source, static_cast<uint32_t>(schema::RankSource::kSlurm));
}

TEST_F(IdentityTest, TheLargestCommunicatorOverrulesTheEnvironment) {
  Read({{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "5"}});
  LearnRankFromCommunicator(&identity_, 0, 2);
  EXPECT_EQ(identity_.rank, 5) << "a part of the world says nothing";
  LearnRankFromCommunicator(&identity_, 3, 8);
  EXPECT_EQ(identity_.rank, 3);
  EXPECT_EQ(identity_.env_rank, 5) << "what the environment said is kept";
  LearnRankFromCommunicator(&identity_, 1, 4);
  EXPECT_EQ(identity_.rank, 3);
  LearnRankFromCommunicator(&identity_, 7, 16);
  EXPECT_EQ(identity_.world_size, 16);
  LearnRankFromCommunicator(&identity_, 99, 32);
  EXPECT_EQ(identity_.world_size, 16) << "a rank beyond its communicator is garbage";
}

TEST(RingFileTest, EveryPlanFitsItsSizeAndItsSectionsDoNotOverlap) {
  for (uint64_t bytes = 1ull << 20; bytes <= 1ull << 34; bytes += bytes / 3 + 4097) {
    const RingGeometry plan = PlanRing(bytes);
    ASSERT_LE(plan.file_bytes, bytes) << bytes;
    uint64_t end = schema::kHeaderRegionBytes, slots = 0, records = 0;
    for (uint32_t i = 0; i < plan.section_count; ++i) {
      const schema::SectionEntry& section = plan.sections[i];
      ASSERT_GE(section.offset, end);
      ASSERT_EQ(section.offset % 64, 0u);
      end = section.offset + section.count * section.entry_bytes;
      if (section.id == static_cast<uint32_t>(schema::Section::kSlots)) slots = section.count;
      if (section.id == static_cast<uint32_t>(schema::Section::kRecords)) records = section.count;
    }
    ASSERT_LE(end, plan.file_bytes);
    ASSERT_EQ(slots, uint64_t{plan.small_lanes} * plan.small_slots + uint64_t{plan.large_lanes} * plan.large_slots);
    ASSERT_EQ(records,
              uint64_t{plan.small_lanes} * plan.small_records + uint64_t{plan.large_lanes} * plan.large_records);
    for (const uint32_t n : {plan.small_records, plan.large_records, plan.small_slots, plan.large_slots})
      ASSERT_EQ(n & (n - 1), 0u);
    ASSERT_LT(slots, kSlotIndexLimit) << "a handle has 20 bits for it";
  }
}

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() {
    char path[] = "/tmp/rankscope-recorder-test-XXXXXX";
    dir_ = mkdtemp(path);
    setenv("RANKSCOPE_DIR", dir_.c_str(), 1);
    setenv("RANKSCOPE_RING_BYTES", "4M", 1);
  }
  ~SessionTest() override { std::filesystem::remove_all(dir_); }
  std::string dir_;
};

TEST_F(SessionTest, StartsOnceForManyThreadsAndNamesAreInternedOnce) {
  std::vector<std::thread> threads;
  std::vector<uint32_t> ids(16);
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      ASSERT_TRUE(Start());
      ids[static_cast<size_t>(t)] = InternName("a kernel's name", schema::NameKind::kKernel);
    });
  }
  for (std::thread& thread : threads) thread.join();
  size_t rings = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_))
    rings += entry.is_regular_file() ? 1 : 0;
  EXPECT_EQ(rings, 1u);
  for (const uint32_t id : ids) EXPECT_NE(id, 0u);
  EXPECT_EQ(InternName("a kernel's name", schema::NameKind::kKernel),
            InternName("a kernel's name", schema::NameKind::kKernel));
  EXPECT_EQ(InternName("", schema::NameKind::kOther), 0u);
  EXPECT_EQ(InternName(nullptr, schema::NameKind::kOther), 0u);
}

TEST_F(SessionTest, AFullNameTableIsCounted) {
  ASSERT_TRUE(Start());
  const uint64_t before = LoadRelaxed(g_session.losses[static_cast<int>(schema::LossReason::kNameTableFull)]);
  for (int i = 0; i < 20000; ++i) InternName(("name " + std::to_string(i)).c_str(), schema::NameKind::kOther);
  EXPECT_GT(LoadRelaxed(g_session.losses[static_cast<int>(schema::LossReason::kNameTableFull)]), before);
}

TEST_F(SessionTest, AHandleResolvesOnlyWhileItsSlotHoldsItsEvent) {
  ASSERT_TRUE(Start());
  Lane* lane = CurrentLane();
  ASSERT_NE(lane, nullptr);
  const NewSlot taken = TakeSlot(lane);
  StoreRelease(taken.slot->tag, MakeTag(taken.generation, lane->index, schema::EventKind::kColl, 0));
  const Handle handle = MakeHandle(taken.generation, taken.index, HandleRole::kEvent);
  EXPECT_EQ(Resolve(handle).slot, taken.slot);
  EXPECT_EQ(Resolve(handle ^ uint64_t{1} << 60).slot, nullptr) << "another process's salt";
  EXPECT_FALSE(Resolve(handle ^ uint64_t{1} << 60).stale);
  EXPECT_EQ(Resolve(handle | 0xffffful << 4).slot, nullptr) << "beyond the table";
  for (uint64_t i = 0; i <= lane->slot_mask; ++i) TakeSlot(lane);
  EXPECT_EQ(Resolve(handle).slot, nullptr);
  EXPECT_TRUE(Resolve(handle).stale);
}

TEST_F(SessionTest, AnEndedThreadsLaneIsTheLastToBeGivenAway) {
  ASSERT_TRUE(Start());
  // The main thread may hold one of them.
  const size_t others = g_session.header->small_lane_count - 1;
  std::vector<uint16_t> lanes;
  for (size_t i = 0; i < 4 * others; ++i) {
    std::thread([&] {
      Lane* lane = CurrentLane();
      ASSERT_NE(lane, nullptr) << i;
      EXPECT_FALSE(lane->large) << i;
      lanes.push_back(lane->index);
    }).join();
  }
  ASSERT_EQ(lanes.size(), 4 * others);
  for (size_t i = 0; i + others <= lanes.size(); ++i) {
    const std::set<uint16_t> window(lanes.begin() + i, lanes.begin() + i + others);
    EXPECT_EQ(window.size(), others) << "a lane came again before all others, from " << i;
  }
}

// Found by kill -9 on a busy machine: a thread that had just moved to a large lane lost all of its records to the
// next thread that started.
TEST_F(SessionTest, WhatAThreadLeftForALargerLaneIsNotGivenToTheNextThread) {
  ASSERT_TRUE(Start());
  uint16_t left = 0;
  std::thread([&] {
    Lane* lane = CurrentLane();
    ASSERT_NE(lane, nullptr);
    left = lane->index;
    const uint64_t records = lane->record_mask + 1;
    for (uint64_t i = 0; i < records; ++i) Commit(lane, RecordWords{});
    ASSERT_NE(t_lane, lane) << "it has moved";
    EXPECT_TRUE(t_lane->large);
  }).join();
  std::thread([&] {
    Lane* lane = CurrentLane();
    ASSERT_NE(lane, nullptr);
    EXPECT_NE(lane->index, left);
  }).join();
}

TEST(ClockTest, TicksGrowAndAPairsWindowIsSmall) {
  DescribeClock(false);
  const uint64_t first = ReadTicks();
  EXPECT_GE(ReadTicks(), first);
  const schema::ClockPair pair = TakeClockPair();
  EXPECT_NE(pair.monotonic_ns, 0u);
  EXPECT_LT(pair.uncertainty_ns, 1'000'000'000u);
}

TEST(ClockTest, MonotonicCanBeForced) {
  const ClockDescription clock = DescribeClock(true);
  EXPECT_EQ(clock.source, schema::TickSource::kMonotonicNs);
  EXPECT_EQ(clock.ticks_per_second, 1'000'000'000u);
  const uint64_t before = MonotonicNs();
  const uint64_t ticks = ReadTicks();
  EXPECT_GE(ticks, before);
  EXPECT_LE(ticks, MonotonicNs());
}

}  // namespace
}  // namespace rankscope::recorder
