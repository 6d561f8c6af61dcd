// The GPU source of the built library, entered by its doors: a stand-in for the CUDA driver calls
// InitializeInjection, or NCCL's plugin comes first; stand-ins for libcupti deliver. Each case runs in a child that
// ends as a training process does: by exit, by _exit, by SIGKILL.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <link.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>

#include "tests/contract/contract_fixture.h"
#include "tests/fakes/cupti/fake_cupti.h"

namespace rankscope::testing {
namespace {

using analysis::Event;
using analysis::Recording;
using schema::CuptiState;
using schema::EventKind;

constexpr uint32_t kKernelKind = 10;

bool IsMapped(const char* part) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(part) != std::string::npos) return true;
  }
  return false;
}

class GpuTest : public ContractTest, public ::testing::WithParamInterface<const char*> {
 protected:
  GpuTest() {
    setenv("CUDA_INJECTION64_PATH", RANKSCOPE_LIBRARY_UNDER_TEST, 1);
    setenv("RANKSCOPE_RING_BYTES", "32M", 1);
    for (const char* name : {"RANKSCOPE_CUPTI", "RANKSCOPE_GPU_EVENTS", "RANKSCOPE_CUPTI_LIB"}) unsetenv(name);
  }

  // Runs `body` in a child; its exit status, or 1000 + the signal.
  static int InChild(const std::function<void()>& body) {
    const pid_t child = fork();
    if (child == 0) {
      body();
      exit(::testing::Test::HasFailure() ? 99 : 0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  static FakeCuptiApi LoadCupti(const char* file) {
    return FakeCupti::Load((std::string(RANKSCOPE_FAKES) + "/" + file).c_str());
  }
  // What the first CUDA call of a program does.
  static void* StartCuda() {
    void* driver = dlopen(RANKSCOPE_FAKES "/libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    EXPECT_NE(driver, nullptr) << dlerror();
    EXPECT_EQ(reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"))(0), 0);
    return driver;
  }
  static void RunKernels(const FakeCuptiApi& cupti, uint32_t count, uint32_t stream = 7) {
    for (uint32_t i = 0; i < count; ++i) {
      FakeActivity a{};
      a.kind = kKernelKind;
      a.context = 1, a.stream = stream, a.correlation = i + 1;
      a.name = i % 2 == 0 ? "even_kernel" : "odd_kernel";
      const uint64_t id = cupti.launch(&a);
      EXPECT_NE(id, 0u);
      const uint64_t now = cupti.now_ns();
      cupti.complete(id, now, now + 1000);
    }
  }
};

TEST_P(GpuTest, WhatWasLaunchedBeforeANormalExitIsInTheRing) {
  ASSERT_EQ(InChild([] {
              const FakeCuptiApi cupti = LoadCupti(GetParam());
              StartCuda();
              RunKernels(cupti, 5000);
            }),
            0);
  const std::unique_ptr<Recording> recording = Read();
  ASSERT_NE(recording, nullptr);
  const analysis::RankInfo& rank = recording->ranks()[0];
  EXPECT_EQ(rank.doors, schema::kDoorCuda);
  EXPECT_EQ(rank.cupti.state, static_cast<uint32_t>(CuptiState::kArmed));
  EXPECT_EQ(rank.cupti.records, 5000u);
  EXPECT_THAT(rank.cupti.library, ::testing::HasSubstr(GetParam()));
  const std::vector<Event> kernels = Events(*recording, EventKind::kGpuKernel);
  ASSERT_EQ(kernels.size(), 5000u);
  std::vector<int> seen(5001);
  for (const Event& kernel : kernels) {
    seen[kernel.payload.kernel.correlation]++;
    EXPECT_EQ(rank.names[kernel.payload.kernel.name - 1],
              kernel.payload.kernel.correlation % 2 == 1 ? "even_kernel" : "odd_kernel");
    EXPECT_NEAR(static_cast<double>(kernel.end_ns - kernel.begin_ns), 1000, 3);
  }
  EXPECT_EQ(std::count(seen.begin() + 1, seen.end(), 1), 5000);
}

TEST_P(GpuTest, AfterSigkillEveryRecordThatCameBackIsThere) {
  ASSERT_EQ(InChild([] {
              const FakeCuptiApi cupti = LoadCupti(GetParam());
              StartCuda();
              RunKernels(cupti, 3000);
              cupti.worker_flush();  // full buffers only
              raise(SIGKILL);
            }),
            1000 + SIGKILL);
  const std::unique_ptr<Recording> recording = Read();
  ASSERT_NE(recording, nullptr);
  // 128 KiB hold 606 to 655 kernels: four buffers of 3,000 were full.
  const size_t found = Events(*recording, EventKind::kGpuKernel).size();
  EXPECT_GE(found, 4u * 606);
  EXPECT_LE(found, 4u * 655);
}

TEST_P(GpuTest, AProcessThatOnlyStartsCudaLeavesNoFile) {
  ASSERT_EQ(InChild([] {
              LoadCupti(GetParam());
              StartCuda();
              std::this_thread::sleep_for(std::chrono::milliseconds(500));
            }),
            0);
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/rings")) << "no context, no kernel: nothing to record";
}

TEST_P(GpuTest, ThePluginArmsItWhereCudaCameFirstAndLearnsItsStreams) {
  ASSERT_EQ(InChild([this] {
              unsetenv("CUDA_INJECTION64_PATH");
              const FakeCuptiApi cupti = LoadCupti(GetParam());
              StartCuda();
              ProfilerHost host;
              void* context = OpenAndInit(&host, 5);
              EventFields launch;
              launch.type = kNcclKernelLaunch;
              for (const uint64_t stream : {0x12340u, 0x56780u, 0x12340u}) {
                launch.stream = stream;
                const uint64_t handle = host.Start(context, launch);
                RunKernels(cupti, 1, static_cast<uint32_t>(stream >> 4));
                host.Stop(handle);
              }
              EXPECT_EQ(cupti.calls("cuptiGetStreamIdEx"), 2u) << "once a stream";
            }),
            0);
  const std::unique_ptr<Recording> recording = Read();
  ASSERT_NE(recording, nullptr);
  const analysis::RankInfo& rank = recording->ranks()[0];
  EXPECT_EQ(rank.doors, schema::kDoorPlugin);
  ASSERT_EQ(rank.streams.size(), 2u);
  EXPECT_EQ(rank.streams[0].handle, 0x12340u);
  EXPECT_EQ(rank.streams[0].stream_id, 0x1234u);
  EXPECT_EQ(rank.streams[1].stream_id, 0x5678u);
  EXPECT_EQ(Events(*recording, EventKind::kGpuKernel).size(), 3u);
  EXPECT_EQ(Events(*recording, EventKind::kKernelLaunch).size(), 3u);
}

TEST_P(GpuTest, ChildrenThatForkAndExitDisturbNothing) {
  ASSERT_EQ(InChild([] {
              const FakeCuptiApi cupti = LoadCupti(GetParam());
              StartCuda();
              RunKernels(cupti, 10);
              for (int i = 0; i < 5; ++i) {
                EXPECT_EQ(InChild([] {}), 0) << "a data-loader worker";
              }
              RunKernels(cupti, 10);
            }),
            0);
  const std::unique_ptr<Recording> recording = Read();
  ASSERT_NE(recording, nullptr);
  EXPECT_EQ(recording->ranks().size(), 1u);
  EXPECT_EQ(Events(*recording, EventKind::kGpuKernel).size(), 20u);
}

INSTANTIATE_TEST_SUITE_P(Release, GpuTest, ::testing::Values("libcupti.so.11.8", "libcupti.so.12", "libcupti.so.13"),
                         [](const auto& one) { return "of" + std::to_string(one.index); });

using GpuDoorTest = GpuTest;

TEST_F(GpuDoorTest, WithoutTheDriverNothingOfCudaIsPulledIn) {
  ASSERT_EQ(InChild([this] {
              setenv("RANKSCOPE_CUPTI_LIB", RANKSCOPE_FAKES "/libcupti.so.13", 1);
              ProfilerHost host;
              OpenAndInit(&host, 5);
              EXPECT_FALSE(IsMapped("libcupti"));
              EXPECT_FALSE(IsMapped("libcuda"));
            }),
            0);
}

TEST_F(GpuDoorTest, ALibraryThatIsNamedIsTakenWhereNoneIsMapped) {
  ASSERT_EQ(InChild([] {
              setenv("RANKSCOPE_CUPTI_LIB", RANKSCOPE_FAKES "/libcupti.so.12", 1);
              StartCuda();
              EXPECT_TRUE(IsMapped("fakes/libcupti.so.12"));
            }),
            0);
}

TEST_F(GpuDoorTest, AMappedOneIsTakenWhateverIsNamed) {
  ASSERT_EQ(InChild([] {
              setenv("RANKSCOPE_CUPTI_LIB", RANKSCOPE_FAKES "/libcupti.so.12", 1);
              const FakeCuptiApi cupti = LoadCupti("libcupti.so.13");
              StartCuda();
              EXPECT_FALSE(IsMapped("fakes/libcupti.so.12"));
              EXPECT_EQ(cupti.calls("cuptiActivityRegisterCallbacks"), 1u);
            }),
            0);
}

TEST_F(GpuDoorTest, SwitchedOffNothingIsOpenedAndNothingIsSaid) {
  for (const auto& [name, value] : {std::pair("RANKSCOPE_CUPTI", "0"), std::pair("RANKSCOPE_DISABLE", "1")}) {
    ASSERT_EQ(InChild([name = name, value = value] {
                setenv(name, value, 1);
                setenv("RANKSCOPE_CUPTI_LIB", RANKSCOPE_FAKES "/libcupti.so.12", 1);
                ::testing::internal::CaptureStderr();
                StartCuda();
                EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
                EXPECT_FALSE(IsMapped("libcupti"));
              }),
              0)
        << name;
  }
}

TEST_F(GpuDoorTest, NoLibraryIsOneSentence) {
  ASSERT_EQ(InChild([] {
              setenv("RANKSCOPE_CUPTI_LIB", "/nowhere/libcupti.so.12", 1);
              ::testing::internal::CaptureStderr();
              StartCuda();
              const std::string said = ::testing::internal::GetCapturedStderr();
              EXPECT_THAT(said, ::testing::HasSubstr("no libcupti was found"));
              EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
            }),
            0);
}

// "No call" is best seen where there is none: not even the name is in the library.
TEST_F(GpuDoorTest, TheLibraryKnowsNoCallThatWouldHurtOthers) {
  std::ifstream in(RANKSCOPE_LIBRARY_UNDER_TEST, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  ASSERT_GT(bytes.size(), 10000u);
  ASSERT_NE(bytes.find("cuptiActivityEnable"), std::string::npos);
  // Not cuptiFinalize, whose name is there for other clients' calls (preload/interpose_cupti.cc): the stand-ins end
  // the process at a call of it.
  for (const char* call : {"cuEventRecord", "cuLaunchKernel", "cudaEventRecord", "cuStreamSynchronize",
                           "cuptiActivityEnableLatencyTimestamps", "cuptiActivityEnableHWTrace"})
    EXPECT_EQ(bytes.find(call), std::string::npos) << call;
}

}  // namespace
}  // namespace rankscope::testing
