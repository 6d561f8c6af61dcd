// The GPU source linked into the test, so that the sanitizers see its insides, against the stand-ins for libcupti of
// three releases. What they hold is planted here; what the ring must say follows by arithmetic. Each test runs in a
// process of its own (ctest): a process arms CUPTI once.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "cupti/buffer_pool.h"
#include "cupti/callbacks.h"
#include "cupti/flush_thread.h"
#include "cupti/gpu_clock.h"
#include "cupti/name_table.h"
#include "cupti/subscriber.h"
#include "recorder/session.h"
#include "tests/fakes/cupti/fake_cupti.h"

namespace rankscope::cupti {
namespace {

using recorder::g_session;
using recorder::LoadAcquire;
using recorder::LoadRelaxed;
using schema::CuptiState;
using schema::EventKind;
using schema::EventRecord;
using schema::LossReason;

constexpr uint64_t kMs = 1'000'000;

// All records of a kind that the ring holds, in no order.
std::vector<EventRecord> Records(EventKind kind) {
  std::vector<EventRecord> found;
  for (uint32_t l = 0; l < g_session.lane_count; ++l) {
    const schema::LaneHeader& lane = g_session.lane_headers[l];
    const uint64_t head = LoadAcquire(lane.head);
    for (uint64_t i = head > lane.record_count ? head - lane.record_count : 0; i < head; ++i) {
      const EventRecord& record = g_session.records[lane.first_record + i % lane.record_count];
      if (LoadAcquire(record.commit) == i + 1 && record.kind == static_cast<uint16_t>(kind)) found.push_back(record);
    }
  }
  return found;
}
std::string NameOf(uint32_t id) {
  const schema::NameEntry& entry = g_session.names[id - 1];
  return {g_session.name_bytes + entry.offset, entry.bytes};
}
uint64_t Lost(LossReason reason) { return LoadRelaxed(g_session.losses[static_cast<int>(reason)]); }

template <typename Condition>
bool WaitFor(Condition condition, int most_ms = 15000) {
  for (int i = 0; i < most_ms / 5; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

// Parameter: the release of the stand-in.
class CuptiTest : public ::testing::TestWithParam<int> {
 protected:
  CuptiTest() {
    char path[] = "/tmp/rankscope-cupti-test-XXXXXX";
    dir_ = mkdtemp(path);
    setenv("RANKSCOPE_DIR", dir_.c_str(), 1);
    setenv("RANKSCOPE_RING_BYTES", "32M", 1);
    for (const char* name : {"RANKSCOPE_CUPTI", "RANKSCOPE_GPU_EVENTS", "RANKSCOPE_CUPTI_LIB", "RANKSCOPE_DISABLE"})
      unsetenv(name);
  }
  ~CuptiTest() override { std::filesystem::remove_all(dir_); }

  void LoadFake() {
    const char* file = GetParam() == 1108   ? "libcupti.so.11.8"
                       : GetParam() == 1204 ? "libcupti.so.12"
                                            : "libcupti.so.13";
    fake_ = FakeCupti::Load((std::string(RANKSCOPE_FAKES) + "/" + file).c_str());
  }
  void ArmFake() {
    LoadFake();
    Arm(Entrance::kCuda);
    ASSERT_EQ(State(), CuptiState::kArmed);
  }
  static FakeActivity Kernel(const char* name, uint32_t correlation) {
    FakeActivity a{};
    a.kind = kKindConcurrentKernel;
    a.device = 0, a.context = 1, a.stream = 7;
    a.correlation = correlation;
    a.name = name;
    a.grid[0] = 10, a.grid[1] = 4, a.grid[2] = 2;
    a.block[0] = 128, a.block[1] = 2, a.block[2] = 1;
    return a;
  }
  // Launches and ends at `start_ns` and `end_ns` of CUPTI's clock.
  void Run(const FakeActivity& activity, uint64_t start_ns, uint64_t end_ns) {
    const uint64_t id = fake_.launch(&activity);
    ASSERT_NE(id, 0u);
    fake_.complete(id, start_ns, end_ns);
  }
  // Everything that is complete comes back, as by our own flush.
  static void Flush() { ASSERT_EQ(g_source.calls.flush_all(0), kSuccess); }

  std::string dir_;
  FakeCuptiApi fake_{};
};

TEST_P(CuptiTest, CudaCallsAreRecordedOnRequestWithTheirThread) {
  setenv("RANKSCOPE_GPU_EVENTS", "default,api", 1);
  ArmFake();
  recorder::Start();
  ASSERT_NE(recorder::CurrentLane(), nullptr);
  FakeActivity call{};
  call.kind = kKindRuntime;
  call.type = 211;
  call.correlation = 9;
  const uint64_t now = fake_.now_ns();
  Run(call, now, now + 5000);
  call.kind = kKindDriver;
  call.type = 307;
  Run(call, now + 1000, now + 4000);
  Run(Kernel("gemm", 9), now + 6000, now + 9000);
  Flush();
  const auto calls = Records(EventKind::kCudaApi);
  ASSERT_EQ(calls.size(), 2u);
  for (const EventRecord& record : calls) {
    EXPECT_EQ(record.aux, record.payload.kernel.block_threads == kKindRuntime ? 211 : 307);
    EXPECT_EQ(record.payload.kernel.correlation, 9u);
    EXPECT_EQ(record.payload.kernel.stream, static_cast<uint32_t>(pthread_self()));
  }
  const schema::LaneHeader* lane = recorder::CurrentLane()->header;
  EXPECT_EQ(lane->pthread_low[0], static_cast<uint32_t>(pthread_self())) << "by which the thread is found";
}

TEST_P(CuptiTest, CudaCallsAreNotAskedForByDefault) {
  ArmFake();
  EXPECT_EQ(g_source.info.enabled_kinds & (1u << kKindRuntime | 1u << kKindDriver), 0u);
}

TEST_P(CuptiTest, StridesAreTheLoadedLibrarys) {
  ArmFake();
  const uint16_t kernel = GetParam() == 1108 ? 200 : GetParam() == 1204 ? 208 : 216;
  EXPECT_EQ(g_source.info.stride[kKindConcurrentKernel], kernel);
  EXPECT_EQ(g_source.info.stride[kKindSynchronization], GetParam() == 1300 ? 56 : 40);
  EXPECT_EQ(g_source.info.stride[63], 0) << "no release knows it";
  const uint64_t expected = 1ull << 1 | 1ull << 2 | 1ull << 10 | 1ull << 17 | 1ull << 22 | 1ull << 38 | 1ull << 49 |
                            1ull << 50 | 1ull << 51;
  EXPECT_EQ(g_source.info.enabled_kinds, expected);
  EXPECT_EQ(fake_.enabled_kinds(), expected);
  EXPECT_EQ(g_source.info.clock, static_cast<uint32_t>(schema::CuptiClock::kOurs));
  EXPECT_EQ(g_source.info.device_buffer_bytes, 3200000u);
  EXPECT_EQ(g_source.info.per_thread_buffers, GetParam() == 1108 ? 0u : 2u);
  EXPECT_EQ(fake_.calls("cuptiUnsubscribe"), 1u) << "the slot was a test, not a claim";
}

TEST_P(CuptiTest, EveryKindOfRecordComesOutAsItWentIn) {
  ArmFake();
  const uint64_t t0 = fake_.now_ns();
  const uint64_t before_ticks = recorder::ReadTicks();
  FakeActivity a = Kernel("_Z4gemmPfS_i", 41);
  if (GetParam() != 0) a.graph_node = 0x500000003, a.graph = 5;
  Run(a, t0 + 1000, t0 + 51000);
  a = {};
  a.kind = kKindMemcpy, a.device = 0, a.context = 1, a.stream = 9, a.correlation = 42, a.bytes = 123456789;
  a.copy_kind = 1, a.source_kind = 2, a.destination_kind = 3, a.copy_count = 6;
  Run(a, t0 + 2000, t0 + 3000);
  a = {};
  a.kind = kKindMemcpy2, a.device = 2, a.peer_device = 5, a.context = 1, a.stream = 9, a.correlation = 43,
  a.bytes = 777;
  a.copy_kind = 10;
  Run(a, t0 + 4000, t0 + 5000);
  a = {};
  a.kind = kKindMemset, a.device = 3, a.context = 1, a.stream = 7, a.correlation = 44, a.bytes = 4096,
  a.destination_kind = 3;
  Run(a, t0 + 5000, t0 + 6000);
  a = {};
  a.kind = kKindSynchronization, a.context = 1, a.stream = 0xffffffff, a.correlation = 45, a.type = 4;
  Run(a, t0 + 100, t0 + 60000);
  a = {};
  a.kind = kKindOverhead, a.correlation = 46, a.type = 2 << 16;
  Run(a, t0 + 10, t0 + 20);
  a = {};
  a.kind = kKindMemory2, a.device = 0, a.bytes = 2 << 20, a.type = 1, a.correlation = 47, a.address = 0x7f0000000000;
  a.destination_kind = 3;
  Run(a, t0 + 70, t0 + 70);
  a = {};
  a.kind = kKindMemoryPool, a.device = 0, a.bytes = 32 << 20, a.type = 1;
  Run(a, t0 + 80, t0 + 80);
  a = {};
  a.kind = kKindGraphTrace, a.device = 0, a.context = 1, a.stream = 7, a.graph = 11, a.correlation = 48;
  Run(a, t0 + 90, t0 + 95);
  Flush();

  const auto kernels = Records(EventKind::kGpuKernel);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(NameOf(kernels[0].payload.kernel.name), "_Z4gemmPfS_i");
  EXPECT_EQ(kernels[0].payload.kernel.correlation, 41u);
  EXPECT_EQ(kernels[0].payload.kernel.stream, 7u);
  EXPECT_EQ(kernels[0].payload.kernel.context, 1u);
  EXPECT_EQ(kernels[0].payload.kernel.grid_blocks, 80u);
  EXPECT_EQ(kernels[0].payload.kernel.block_threads, 256u);
  EXPECT_EQ(kernels[0].op_id, 0x500000003u) << "the graph's node";
  EXPECT_EQ(kernels[0].flags, schema::kFlagGraphReplay);
  // 50 us, as ticks of our clock, and no earlier than the launch.
  const double ticks_per_us = static_cast<double>(recorder::ProcessClock().ticks_per_second) / 1e6;
  EXPECT_NEAR(static_cast<double>(kernels[0].end_ticks - kernels[0].begin_ticks), 50 * ticks_per_us,
              0.05 * ticks_per_us);
  EXPECT_LE(std::abs(static_cast<double>(static_cast<int64_t>(kernels[0].begin_ticks - before_ticks))),
            1000 * ticks_per_us);

  auto copies = Records(EventKind::kGpuMemcpy);
  ASSERT_EQ(copies.size(), 2u);
  if (copies[0].payload.copy.correlation != 42) std::swap(copies[0], copies[1]);
  EXPECT_EQ(copies[0].payload.copy.bytes, 123456789u);
  EXPECT_EQ(copies[0].payload.copy.copy_kind, 1);
  EXPECT_EQ(copies[0].payload.copy.source_kind, 2);
  EXPECT_EQ(copies[0].payload.copy.destination_kind, 3);
  EXPECT_EQ(copies[0].aux, GetParam() == 1300 ? 1 | 6 << 1 : 1)
      << "asynchronous, and six copies where the release says";
  EXPECT_EQ(copies[1].payload.copy.bytes, 777u);
  EXPECT_EQ(copies[1].payload.copy.device, 2);
  EXPECT_EQ(copies[1].payload.copy.peer_device, 5);
  EXPECT_EQ(copies[1].payload.copy.correlation, 43u);

  const auto sets = Records(EventKind::kGpuMemset);
  ASSERT_EQ(sets.size(), 1u);
  EXPECT_EQ(sets[0].payload.copy.bytes, 4096u);
  EXPECT_EQ(sets[0].payload.copy.device, 3);
  const auto waits = Records(EventKind::kGpuSync);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].aux, 4);
  EXPECT_EQ(waits[0].payload.kernel.correlation, 45u);
  const auto overheads = Records(EventKind::kGpuOverhead);
  ASSERT_EQ(overheads.size(), 1u);
  EXPECT_EQ(overheads[0].aux, 0x8002);
  const auto memory = Records(EventKind::kGpuMemory);
  ASSERT_EQ(memory.size(), 1u);
  EXPECT_EQ(memory[0].payload.copy.bytes, 2u << 20);
  EXPECT_EQ(memory[0].op_id, 0x7f0000000000u) << "the address";
  EXPECT_EQ(Records(EventKind::kGpuMemoryPool).size(), 1u);
  const auto graphs = Records(EventKind::kGpuGraph);
  ASSERT_EQ(graphs.size(), 1u);
  EXPECT_EQ(graphs[0].payload.kernel.grid_blocks, 11u) << "the graph's number";
  for (int reason = static_cast<int>(LossReason::kCuptiDropped);
       reason <= static_cast<int>(LossReason::kCuptiNoBuffer); ++reason)
    EXPECT_EQ(Lost(static_cast<LossReason>(reason)), 0u) << reason;
}

TEST_P(CuptiTest, TimesThatCantBeRightAreCountedByReasonAndNotKept) {
  ArmFake();
  const uint64_t t = fake_.now_ns();
  Run(Kernel("good", 1), t, t + 10);
  Run(Kernel("no time", 2), 0, 0);
  Run(Kernel("reversed", 3), t + 100, t + 50);
  Run(Kernel("two hours", 4), t, t + 7200ull * 1'000'000'000);
  Run(Kernel("another clock", 5), 123456, 123999);
  Run(Kernel("the future", 6), t + 3600ull * 1'000'000'000, t + 3601ull * 1'000'000'000);
  Run(Kernel("half finished", 7), t, 0);
  Flush();
  const auto kernels = Records(EventKind::kGpuKernel);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(NameOf(kernels[0].payload.kernel.name), "good");
  EXPECT_EQ(Lost(LossReason::kCuptiNoTimestamp), 1u);
  EXPECT_EQ(Lost(LossReason::kCuptiBadTimestamp), 2u);
  EXPECT_EQ(Lost(LossReason::kCuptiForeignClock), 2u);
  EXPECT_EQ(Lost(LossReason::kCuptiIncomplete), 1u);
}

TEST_P(CuptiTest, ARunningKernelHoldsBackItsBufferAndNothingElse) {
  ArmFake();
  const FakeActivity spinning = Kernel("spinning", 1);
  const uint64_t running = fake_.launch(&spinning);
  const uint64_t t = fake_.now_ns();
  std::thread([&] { Run(Kernel("of another thread", 2), t, t + 5); }).join();
  Flush();
  const bool own_buffers = GetParam() != 1108;
  EXPECT_EQ(Records(EventKind::kGpuKernel).size(), own_buffers ? 1u : 0u);
  fake_.complete(running, t, t + 9);
  Flush();
  EXPECT_EQ(Records(EventKind::kGpuKernel).size(), 2u);
}

TEST_P(CuptiTest, AStringBehindAKnownAddressMayChange) {
  ArmFake();
  char name[64] = "first_module_kernel";
  const uint64_t t = fake_.now_ns();
  Run(Kernel(name, 1), t, t + 1);
  Flush();
  std::strcpy(name, "first");  // shorter, and a beginning of the other
  Run(Kernel(name, 2), t, t + 1);
  Flush();
  std::strcpy(name, "second_module_kernel");
  Run(Kernel(name, 3), t, t + 1);
  Run(Kernel(nullptr, 4), t, t + 1);
  Flush();
  std::vector<std::string> names(5);
  for (const EventRecord& record : Records(EventKind::kGpuKernel)) {
    const auto& kernel = record.payload.kernel;
    names[kernel.correlation] = kernel.name == 0 ? "(none)" : NameOf(kernel.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"", "first_module_kernel", "first", "second_module_kernel", "(none)"}));
}

TEST_P(CuptiTest, AnUnknownKindIsSteppedOverWhereTheLibraryCanAndCountedWhereItCant) {
  ArmFake();
  const uint64_t t = fake_.now_ns();
  Run(Kernel("before", 1), t, t + 1);
  uint64_t other[4] = {39, 0, 0, 0};  // external correlation: known to the library, not wanted by us, 24 bytes
  fake_.raw(other, 24);
  Run(Kernel("between", 2), t, t + 1);
  uint64_t unknown[8] = {99, 0, 0, 0, 0, 0, 0, 0};
  fake_.raw(unknown, 64);
  Run(Kernel("behind", 3), t, t + 1);
  Flush();
  EXPECT_EQ(Records(EventKind::kGpuKernel).size(), 2u);
  EXPECT_EQ(Lost(LossReason::kCuptiUnknownKind), 1u);
  EXPECT_EQ(Lost(LossReason::kCuptiUnparsedBytes), 64u + g_source.info.stride[kKindConcurrentKernel]);
}

TEST_P(CuptiTest, ManyThreadsLaunchIntoABoundedPoolAndEveryRecordIsInTheRingOrCounted) {
  ArmFake();
  constexpr int kThreads = 16, kLaunches = 3000;
  std::atomic<uint64_t> launched{0};
  std::atomic<bool> done{false};
  std::thread flusher([&] {
    while (!done) Flush();
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (uint32_t k = 0; k < kLaunches; ++k) {
        const FakeActivity a = Kernel(k % 2 == 0 ? "even" : "odd", static_cast<uint32_t>(i) * kLaunches + k);
        const uint64_t id = fake_.launch(&a);
        if (id == 0) continue;
        launched++;
        const uint64_t t = fake_.now_ns();
        fake_.complete(id, t, t + 100);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  flusher.join();
  Flush();
  // Before 12.9 some went into the memory that nobody reads: by the byte.
  const uint64_t unread = Lost(LossReason::kCuptiUnparsedBytes) / g_source.info.stride[kKindConcurrentKernel];
  EXPECT_EQ(LoadRelaxed(g_source.records) + unread, launched.load());
  if (GetParam() == 1300) {
    EXPECT_EQ(unread, 0u);
  }
  EXPECT_EQ(g_source.pool.out(), 0u) << "every buffer came back";
  uint64_t committed = 0;
  for (uint32_t l = 0; l < g_session.lane_count; ++l)
    committed += g_session.lane_headers[l].committed_by_kind[static_cast<int>(EventKind::kGpuKernel)];
  EXPECT_EQ(committed, LoadRelaxed(g_source.records));
}

TEST_P(CuptiTest, APoolThatRunsDryRefusesAsTheReleaseCanBear) {
  ArmFake();
  if (GetParam() == 1204) fake_.set_version(22);
  // Kernels that never end hold every buffer: 128 KiB each.
  const uint32_t per_buffer = static_cast<uint32_t>(kBufferBytes) / g_source.info.stride[kKindConcurrentKernel];
  uint64_t taken = 0;
  for (uint32_t i = 0; i < (kBufferLimit + 2) * per_buffer; ++i) {
    const FakeActivity a = Kernel("endless", i);
    if (fake_.launch(&a) != 0) taken++;
  }
  ASSERT_NE(LoadRelaxed(g_source.refused), 0u);
  // Where a refusal would crash, CUPTI got memory that nobody reads (the stand-in ends the process on NULL).
  EXPECT_GE(taken, uint64_t{kBufferLimit - kRingBuffers} * per_buffer);
  EXPECT_LE(taken, uint64_t{kBufferLimit + 1} * per_buffer);
}

TEST_P(CuptiTest, ABufferThatIsNotOursIsCountedAndLeftAlone) {
  ArmFake();
  const uint64_t t = fake_.now_ns();
  Run(Kernel("k", 1), t, t + 1);
  Flush();
  alignas(64) static uint8_t foreign[4096] = {10};
  uint8_t copy[sizeof(foreign)];
  std::memcpy(copy, foreign, sizeof(foreign));
  errno = 77;
  CompleteBuffer(nullptr, 0, foreign, sizeof(foreign), 216);
  CompleteBuffer(nullptr, 0, g_source.pool.Take() + 8, kBufferBytes, 216);  // inside one of ours, not its beginning
  EXPECT_EQ(errno, 77);
  EXPECT_EQ(Lost(LossReason::kCuptiUnknownBuffer), 2u);
  EXPECT_EQ(std::memcmp(copy, foreign, sizeof(foreign)), 0);
  EXPECT_EQ(Records(EventKind::kGpuKernel).size(), 1u);
}

TEST_P(CuptiTest, AForkedChildCallsNothingAndWritesNothing) {
  ArmFake();
  const uint64_t t = fake_.now_ns();
  Run(Kernel("parent's", 1), t, t + 1);
  Flush();
  const pid_t child = fork();
  if (child == 0) {
    // What the child inherited of CUPTI is asked for a buffer all the same.
    const uint64_t calls = fake_.calls("cuptiActivityFlushAll") + fake_.calls("cuptiSubscribe");
    const FakeActivity a = Kernel("child's", 2);
    fake_.set_version(130001);  // so that a refusal is allowed
    recorder::StoreRelaxed(g_source.info.api_version, 130001u);
    fake_.launch(&a);
    Arm(Entrance::kPlugin);
    const bool quiet = fake_.calls("cuptiActivityFlushAll") + fake_.calls("cuptiSubscribe") == calls;
    const bool no_ring = !recorder::Active();
    exit(quiet && no_ring ? 0 : 1);  // exit, not _exit: the handler must know that it isn't the parent
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_P(CuptiTest, TheAnchoredClockIsTheWallClockThatNeverStepsAndConvertsBack) {
  ArmFake();
  const uint64_t wall_before = recorder::RealtimeNs();
  const uint64_t ours = fake_.now_ns();
  const uint64_t wall_after = recorder::RealtimeNs();
  EXPECT_GT(ours + 50 * kMs, wall_before);
  EXPECT_LT(ours, wall_after + 50 * kMs);
  uint64_t last = 0;
  for (int i = 0; i < 10000; ++i) {
    const uint64_t now = TimestampNow();
    ASSERT_GE(now, last);
    last = now;
  }
  // A stamp between two readings of the ticks converts to between them, to the rounding of a nanosecond.
  for (int i = 0; i < 1000; ++i) {
    const uint64_t before = recorder::ReadTicks(), stamp = TimestampNow(), after = recorder::ReadTicks();
    const uint64_t ns = recorder::ProcessClock().ticks_per_second / 1'000'000'000 + 2;
    ASSERT_GE(ToTicks(stamp) + ns, before);
    ASSERT_LE(ToTicks(stamp), after + ns);
  }
}

INSTANTIATE_TEST_SUITE_P(Release, CuptiTest, ::testing::Values(1108, 1204, 1300));

class RefusedTest : public CuptiTest {};

TEST_P(RefusedTest, WhoeverHoldsTheSlotKeepsIt) {
  LoadFake();
  fake_.hold_slot("CUPTI for somebody");
  ::testing::internal::CaptureStderr();
  Arm(Entrance::kCuda);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(State(), CuptiState::kRefused);
  EXPECT_NE(said.find("another tool"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << "one line";
  if (GetParam() == 1300) {
    EXPECT_NE(said.find("CUPTI for somebody"), std::string::npos) << said;
  }
  EXPECT_EQ(fake_.calls("cuptiActivityRegisterCallbacks"), 0u);
  EXPECT_EQ(fake_.calls("cuptiActivityEnable"), 0u);
  ASSERT_TRUE(recorder::Start());
  Arm(Entrance::kPlugin);
  EXPECT_EQ(g_session.cupti->state, static_cast<uint32_t>(CuptiState::kRefused)) << "the ring says so";
  EXPECT_EQ(fake_.calls("cuptiSubscribe"), 1u) << "and nobody tries again";
}

TEST_P(RefusedTest, AnErrorAtAnyEntryPointIsOneSentenceAndTheEndOfIt) {
  const std::pair<const char*, int> failures[] = {{"cuptiGetVersion", 999},
                                                  {"cuptiSubscribe", 15},
                                                  {"cuptiSubscribe", 999},
                                                  {"cuptiActivityRegisterCallbacks", 14},
                                                  {"cuptiActivityEnable", 15}};
  for (const auto& [function, code] : failures) {
    const pid_t child = fork();
    if (child == 0) {
      LoadFake();
      fake_.fail(function, code, 1000);
      ::testing::internal::CaptureStderr();
      Arm(Entrance::kCuda);
      const std::string said = ::testing::internal::GetCapturedStderr();
      const bool good = State() == CuptiState::kFailed && std::count(said.begin(), said.end(), '\n') == 1 &&
                        said.find(std::to_string(code)) != std::string::npos &&
                        said.find(function) != std::string::npos && !FlushThreadRuns();
      if (!good)
        std::fprintf(stderr, "%s %d: state %d, said: %s\n", function, code, static_cast<int>(State()), said.c_str());
      _exit(good ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << function << " " << code;
  }
}

TEST_P(RefusedTest, OffMeansThatNothingIsCalled) {
  LoadFake();
  setenv("RANKSCOPE_CUPTI", "0", 1);
  Arm(Entrance::kCuda);
  EXPECT_EQ(State(), CuptiState::kOff);
  for (const char* call : {"cuptiGetVersion", "cuptiSubscribe", "cuptiActivityGetNextRecord"})
    EXPECT_EQ(fake_.calls(call), 0u) << call;
}

TEST_P(RefusedTest, AnOptionalCallThatFailsCostsItsFeatureOnly) {
  LoadFake();
  fake_.fail("cuptiActivityRegisterTimestampCallback", 14, 1000);
  fake_.fail("cuptiActivityGetAttribute", 14, 1000);
  fake_.fail("cuptiGetTimestamp", 14, 1000);
  Arm(Entrance::kCuda);
  ASSERT_EQ(State(), CuptiState::kArmed);
  EXPECT_EQ(g_source.info.clock, static_cast<uint32_t>(schema::CuptiClock::kRealtime));
  const uint64_t before = recorder::ReadTicks();
  const uint64_t t = fake_.now_ns();
  const uint64_t after = recorder::ReadTicks();
  const FakeActivity a = Kernel("k", 1);
  const uint64_t id = fake_.launch(&a);
  fake_.complete(id, t, t + 10);
  Flush();
  const auto kernels = Records(EventKind::kGpuKernel);
  ASSERT_EQ(kernels.size(), 1u);
  // The wall clock, converted: within the reading's window and what the clocks drift in a second (500 ppm is NTP's
  // most).
  const auto slack = static_cast<uint64_t>(static_cast<double>(recorder::ProcessClock().ticks_per_second) * 1e-3);
  EXPECT_GE(kernels[0].begin_ticks + slack, before);
  EXPECT_LE(kernels[0].begin_ticks, after + slack);
}

TEST_P(RefusedTest, AnotherClientsSessionIsNotDisturbedAndWeComeBackAfterIt) {
  setenv("RANKSCOPE_CUPTI_RESUME_S", "1", 1);
  LoadFake();
  Arm(Entrance::kCuda);
  ASSERT_TRUE(recorder::Start());
  Arm(Entrance::kPlugin);  // a communicator: from now on we flush
  ASSERT_EQ(State(), CuptiState::kArmed);
  const uint64_t t = fake_.now_ns();
  Run(Kernel("before", 1), t, t + 1);
  ASSERT_TRUE(WaitFor([] { return LoadRelaxed(g_source.records) == 1; }));
  fake_.take_over();
  fake_.others_clock([] { return recorder::ReadTicks(); });  // as torch.profiler does, and never undoes
  const uint64_t enabled = fake_.enabled_kinds();
  // NCCL goes on launching, and every kernel goes to the other client.
  schema::CommEntry& comm = g_session.comms[0];
  recorder::StoreRelease(comm.commit, uint64_t{1});
  const bool yielded = WaitFor(
      [&] {
        recorder::AddShared(comm.launched_by_func[2], 1u);
        const FakeActivity a = Kernel("theirs", 2);
        const uint64_t id = fake_.launch(&a);
        fake_.complete(id, fake_.now_ns(), fake_.now_ns());
        return State() == CuptiState::kYielded;
      },
      30000);
  ASSERT_TRUE(yielded);
  EXPECT_EQ(fake_.enabled_kinds(), enabled) << "their kinds stay on";
  fake_.leave();
  ASSERT_TRUE(WaitFor([] { return State() == CuptiState::kArmed; }, 30000));
  EXPECT_EQ(fake_.calls("cuptiActivityRegisterTimestampCallback"), 1u);
  uint64_t after_ticks = 0;
  std::thread([&] {
    after_ticks = fake_.now_ns();
    Run(Kernel("after", 3), after_ticks, after_ticks + 1);
  }).join();
  EXPECT_TRUE(WaitFor([] { return LoadRelaxed(g_source.records) >= 2; }));
  const auto kernels = Records(EventKind::kGpuKernel);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(
      std::count_if(kernels.begin(), kernels.end(), [&](const auto& k) { return k.begin_ticks == after_ticks; }), 1);
  const auto blind = Records(EventKind::kGpuBlind);
  ASSERT_EQ(blind.size(), 1u);
  EXPECT_GT(blind[0].end_ticks, blind[0].begin_ticks);
  EXPECT_EQ(g_source.info.resumes, 1u);
}

TEST_P(RefusedTest, ABrokenClockEndsInDisarmingWithASentence) {
  LoadFake();
  Arm(Entrance::kCuda);
  ASSERT_EQ(State(), CuptiState::kArmed);
  ::testing::internal::CaptureStderr();
  for (uint32_t i = 0; i < 400; ++i) Run(Kernel("k", i), 0, 0);
  Flush();
  const bool disarmed = WaitFor([] { return State() == CuptiState::kDisarmed; }, 30000);
  const std::string said = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(disarmed);
  EXPECT_NE(said.find("impossible times"), std::string::npos) << said;
  EXPECT_EQ(fake_.enabled_kinds(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Release, RefusedTest, ::testing::Values(1108, 1300));

TEST(KernelNamesTest, NcclsKernelsOfAllReleasesAndNoOthers) {
  for (const char* nccl :
       {"ncclAllReduceRingLLKernel_sum_f32", "_Z39ncclKernel_AllReduce_RING_LL_Sum_float19ncclWorkElem",
        "_Z40ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE", "ncclDevKernel_SendRecv",
        "ncclSymDevKernel_AllGather_LL", "ncclSymkDevKernel_ReduceScatter_LD"})
    EXPECT_EQ(ClassifyKernel(nccl), schema::GpuKernelClass::kNccl) << nccl;
  for (const char* other : {"_Z4gemmPf", "ncclFoo", "my_nccl_like_thing", "nccl", "", "volta_sgemm_128x64_nn"})
    EXPECT_EQ(ClassifyKernel(other), schema::GpuKernelClass::kOther) << other;
}

TEST(GpuEventsTest, TheListIsASetOfKinds) {
  uint64_t kinds = 0;
  char unknown[64] = {};
  ASSERT_TRUE(ParseGpuEvents("kernel,memcpy", &kinds, unknown, sizeof(unknown)));
  EXPECT_EQ(kinds, 1ull << 10 | 1ull << 1 | 1ull << 22);
  ASSERT_TRUE(ParseGpuEvents("graphnodes", &kinds, unknown, sizeof(unknown)));
  EXPECT_EQ(kinds >> 51 & 1, 0u);
  EXPECT_EQ(kinds >> 10 & 1, 1u);
  ASSERT_TRUE(ParseGpuEvents("default,graphnodes,-sync", &kinds, unknown, sizeof(unknown)));
  EXPECT_EQ(kinds & (1ull << 51 | 1ull << 38), 0u);
  EXPECT_NE(kinds & 1ull << 1, 0u);
  ASSERT_TRUE(ParseGpuEvents("none", &kinds, unknown, sizeof(unknown)));
  EXPECT_EQ(kinds, 0u);
  EXPECT_FALSE(ParseGpuEvents("kernel,kernl", &kinds, unknown, sizeof(unknown)));
  EXPECT_STREQ(unknown, "kernl");
}

}  // namespace
}  // namespace rankscope::cupti
