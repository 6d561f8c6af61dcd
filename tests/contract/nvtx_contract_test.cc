// The built library as NVTX's injection, through NVTX's own headers: two shared libraries that each carry them, in a
// child process whose environment names the library before the first range.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "tests/contract/contract_fixture.h"

namespace rankscope::testing {
namespace {

using analysis::Event;
using analysis::Recording;
using schema::EventKind;

class NvtxTest : public ContractTest {
 protected:
  void SetUp() override {
#ifndef RANKSCOPE_NVTX_PARTS
    GTEST_SKIP() << "NVTX's headers (nvtx3/nvToolsExt.h) were not found when this was built";
#endif
    setenv("NVTX_INJECTION64_PATH", RANKSCOPE_LIBRARY_UNDER_TEST, 1);
  }
#ifndef RANKSCOPE_NVTX_PARTS
#define RANKSCOPE_NVTX_PARTS ""
#endif

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
  template <typename F>
  static F* Part(const char* file, const char* name) {
    void* handle = dlopen((std::string(RANKSCOPE_NVTX_PARTS) + "/" + file).c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(handle, nullptr) << dlerror();
    return reinterpret_cast<F*>(dlsym(handle, name));
  }
  static std::string NameOf(const Recording& recording, uint32_t id) {
    return id == 0 ? "" : recording.ranks()[0].names[id - 1];
  }
};

TEST_F(NvtxTest, RangesOfTwoLibrariesComeOutWithTheirNamesDomainsAndValues) {
  ASSERT_EQ(InChild([] {
              EXPECT_EQ(Part<int(const char*)>("libnvtx_part_1.so", "nvtx_part_run")("one"), 0);
              EXPECT_EQ(Part<int(const char*)>("libnvtx_part_2.so", "nvtx_part_run")("two"), 0);
            }),
            0);
  const std::unique_ptr<Recording> recording = Read();
  ASSERT_NE(recording, nullptr);
  EXPECT_EQ(recording->ranks()[0].doors, schema::kDoorNvtx);
  std::vector<std::string> ranges;
  for (const Event& event : Events(*recording, EventKind::kRange)) {
    const schema::RangePayload& range = event.payload.range;
    ranges.push_back(NameOf(*recording, range.domain) + "/" + NameOf(*recording, range.name) + "/" +
                     std::to_string(range.value) + "/" + std::to_string(event.aux));
  }
  const std::vector<std::string> once = {"/default wide/0/0", "/default outer/0/0"};
  std::vector<std::string> expected;
  for (const std::string domain : {"one", "two"}) {
    expected.insert(expected.end(), once.begin(), once.end());
    expected.push_back(domain + "/registered name/4242/0");
    expected.push_back(domain + "/registered name/4242/1");
  }
  EXPECT_EQ(ranges, expected);
  EXPECT_EQ(Events(*recording, EventKind::kMark).size(), 2u);
  EXPECT_EQ(Lost(*recording, schema::LossReason::kRangeUnbalanced), 2u);
}

TEST_F(NvtxTest, NcclsPayloadGivesBytesAndCommunicator) {
  ASSERT_EQ(InChild([] { Part<void()>("libnvtx_part_1.so", "nvtx_part_nccl")(); }), 0);
  const std::unique_ptr<Recording> recording = Read();
  ASSERT_NE(recording, nullptr);
  const std::vector<Event> ranges = Events(*recording, EventKind::kRange);
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(NameOf(*recording, ranges[0].payload.range.name), "ncclAllReduce");
  EXPECT_EQ(NameOf(*recording, ranges[0].payload.range.domain), "NCCL");
  EXPECT_EQ(ranges[0].payload.range.value, 1u << 20);
  EXPECT_EQ(ranges[0].payload.range.detail, 0x55667788u) << "the hash's low half";
}

TEST_F(NvtxTest, ManyThreadsMayComeFirstAtOnce) {
  ASSERT_EQ(InChild([] {
              auto* run = Part<int(const char*)>("libnvtx_part_1.so", "nvtx_part_run");
              std::vector<std::thread> threads;
              for (int i = 0; i < 8; ++i) threads.emplace_back([run] { run("many"); });
              for (std::thread& thread : threads) thread.join();
            }),
            0);
  const std::unique_ptr<Recording> recording = Read();
  ASSERT_NE(recording, nullptr);
  EXPECT_EQ(Events(*recording, EventKind::kRange).size(), 8u * 4);
  EXPECT_EQ(recording->ranks().size(), 1u);
}

TEST_F(NvtxTest, SwitchedOffThereIsNoFileAndNoDifference) {
  ASSERT_EQ(InChild([] {
              setenv("RANKSCOPE_DISABLE", "1", 1);
              Part<int(const char*)>("libnvtx_part_1.so", "nvtx_part_run")("off");
            }),
            0);
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/rings"));
}

TEST_F(NvtxTest, ThePluginAndTheRangesShareOneRing) {
  ASSERT_EQ(InChild([this] {
              ProfilerHost host;
              void* context = OpenAndInit(&host, 5);
              host.Stop(host.Start(context, Coll(0)));
              Part<int(const char*)>("libnvtx_part_1.so", "nvtx_part_run")("with NCCL");
            }),
            0);
  const std::unique_ptr<Recording> recording = Read();
  ASSERT_NE(recording, nullptr);
  ASSERT_EQ(recording->ranks().size(), 1u);
  EXPECT_EQ(recording->ranks()[0].doors, schema::kDoorPlugin | schema::kDoorNvtx);
  EXPECT_EQ(Events(*recording, EventKind::kColl).size(), 1u);
  EXPECT_EQ(Events(*recording, EventKind::kRange).size(), 4u);
}

}  // namespace
}  // namespace rankscope::testing
