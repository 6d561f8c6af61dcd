// The doctor on planted machines: a folder is the machine's root, a map its environment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tools/doctor_checks.h"

namespace rankscope::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DoctorTest : public ::testing::Test {
 protected:
  DoctorTest() : root_(::testing::TempDir() + "doctor_test." + std::to_string(getpid())) {
    std::filesystem::create_directories(root_ + "/dev/shm");
    options_.library = RANKSCOPE_LIBRARY_FILE;
    options_.directory = "/dev/shm/rankscope-0";
    options_.ring_bytes = 1;
  }
  ~DoctorTest() override { std::filesystem::remove_all(root_); }

  void Plant(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path, std::ios::binary) << text;
  }
  Diagnosis Look(std::map<std::string, std::string> environment = {}) {
    return Diagnose(MachineView(root_, std::move(environment)), options_);
  }
  static std::vector<Check> Of(const Diagnosis& diagnosis, const std::string& id) {
    std::vector<Check> found;
    for (const Check& check : diagnosis.checks) {
      if (check.id == id) found.push_back(check);
    }
    return found;
  }
  static CheckStatus StatusOf(const Diagnosis& diagnosis, const std::string& id) {
    const std::vector<Check> found = Of(diagnosis, id);
    EXPECT_EQ(found.size(), 1u) << id;
    return found.empty() ? CheckStatus::kProblem : found[0].status;
  }

  std::string root_;
  DoctorOptions options_;
};

TEST_F(DoctorTest, AMachineWithoutADriverRecordsNcclAndRanges) {
  const Diagnosis diagnosis = Look();
  EXPECT_TRUE(diagnosis.nccl);
  EXPECT_TRUE(diagnosis.ranges);
  EXPECT_FALSE(diagnosis.gpu);
  EXPECT_EQ(diagnosis.gpu_why, "no driver");
  EXPECT_EQ(StatusOf(diagnosis, "driver"), CheckStatus::kWarning);
  EXPECT_EQ(StatusOf(diagnosis, "library"), CheckStatus::kOk);
  EXPECT_FALSE(diagnosis.has_problem());
}

TEST_F(DoctorTest, AMachineWithDriverAndLibrariesRecordsAll) {
  Plant("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06\nGCC\n");
  Plant("/usr/lib/python3.11/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12", "not a library");
  Plant("/usr/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2", "....NCCL version 2.28.9+cuda12.9....");
  const Diagnosis diagnosis = Look();
  EXPECT_TRUE(diagnosis.nccl && diagnosis.gpu && diagnosis.ranges);
  EXPECT_THAT(Of(diagnosis, "driver")[0].what, HasSubstr("580.65.06"));
  EXPECT_THAT(Of(diagnosis, "cupti")[0].what, HasSubstr("cuda_cupti/lib/libcupti.so.12"));
  EXPECT_THAT(Of(diagnosis, "nccl")[0].what, HasSubstr("NCCL 2.28.9"));
  EXPECT_THAT(Of(diagnosis, "nccl")[0].what, HasSubstr("its name or the file's"));
}

TEST_F(DoctorTest, TheToolkitsLibraryIsFoundByItsVersionsName) {
  Plant("/usr/local/cuda-13.0/lib/libcupti.so.13", "x");
  std::filesystem::create_symlink("libcupti.so.13", root_ + "/usr/local/cuda-13.0/lib/libcupti.so");
  EXPECT_THAT(Of(Look(), "cupti")[0].what, HasSubstr("/usr/local/cuda-13.0/lib/libcupti.so.13"));
}

TEST_F(DoctorTest, AnNcclWithoutPluginsIsAProblemAndAnOldOneWantsTheFilesName) {
  Plant("/usr/lib64/libnccl.so.2", std::string("x\0NCCL version 2.20.5+cuda12.4\0", 31));
  Diagnosis diagnosis = Look();
  EXPECT_FALSE(diagnosis.nccl);
  EXPECT_EQ(StatusOf(diagnosis, "nccl"), CheckStatus::kProblem);
  Plant("/usr/lib64/libnccl.so.2", std::string("x\0NCCL version 2.24.3+cuda12.4\0", 31));
  diagnosis = Look();
  EXPECT_TRUE(diagnosis.nccl);
  EXPECT_THAT(Of(diagnosis, "nccl")[0].what, HasSubstr("full name only"));
}

TEST_F(DoctorTest, DoorsThatOthersHaveAreNamed) {
  const Diagnosis diagnosis = Look({{"NCCL_PROFILER_PLUGIN", "inspector"},
                                    {"CUDA_INJECTION64_PATH", "/opt/nsys/libToolsInjection64.so"},
                                    {"NVTX_INJECTION64_PATH", "/opt/nsys/libToolsInjection64.so"}});
  EXPECT_FALSE(diagnosis.nccl);
  EXPECT_FALSE(diagnosis.ranges);
  EXPECT_EQ(StatusOf(diagnosis, "plugin_variable"), CheckStatus::kProblem);
  EXPECT_EQ(StatusOf(diagnosis, "cuda_variable"), CheckStatus::kWarning);
  EXPECT_EQ(StatusOf(diagnosis, "nvtx_variable"), CheckStatus::kWarning);
  EXPECT_TRUE(diagnosis.has_problem());
}

TEST_F(DoctorTest, OurOwnDoorsAreNoNews) {
  const Diagnosis diagnosis =
      Look({{"NCCL_PROFILER_PLUGIN", options_.library}, {"CUDA_INJECTION64_PATH", options_.library}});
  EXPECT_THAT(Of(diagnosis, "plugin_variable"), IsEmpty());
  EXPECT_THAT(Of(diagnosis, "cuda_variable"), IsEmpty());
}

TEST_F(DoctorTest, SettingsThatDisturbAreListedWithTheirEffect) {
  const MachineView machine(root_, {{"CUDA_LAUNCH_BLOCKING", "1"},
                                    {"TORCH_DISTRIBUTED_DEBUG", "detail"},
                                    {"NCCL_DEBUG", "INFO"},
                                    {"TORCH_NCCL_BLOCKING_WAIT", "0"}});
  const std::vector<Check> checks = DisturbingSettings(machine);
  ASSERT_EQ(checks.size(), 2u);
  EXPECT_THAT(checks[0].what, HasSubstr("CUDA_LAUNCH_BLOCKING=1: every launch waits"));
  EXPECT_THAT(checks[1].what, HasSubstr("TORCH_DISTRIBUTED_DEBUG"));
}

TEST_F(DoctorTest, LinesThatEndDeepSpeedsLauncherAndStaleOnesAreFound) {
  Plant("/home/me/.deepspeed_env", "GOOD=1\n\nCUDA_INJECTION64_PATH=/gone/librankscope.so\n# comment\n");
  Plant("/home/me/.deepspeed_env.rankscope-backup", "x");
  const Diagnosis diagnosis = Look({{"HOME", "/home/me"}});
  ASSERT_EQ(Of(diagnosis, "deepspeed_line").size(), 2u);
  EXPECT_THAT(Of(diagnosis, "deepspeed_line")[0].what, HasSubstr("line 2"));
  EXPECT_THAT(Of(diagnosis, "deepspeed_line")[1].what, HasSubstr("line 4"));
  EXPECT_THAT(Of(diagnosis, "deepspeed_stale")[0].what, HasSubstr("/gone/librankscope.so"));
  EXPECT_EQ(Of(diagnosis, "deepspeed_backup").size(), 1u);
}

TEST_F(DoctorTest, SettingsOfNcclsOwnFilesAreShown) {
  Plant("/etc/nccl.conf", "# x\nNCCL_PROFILER_PLUGIN=/opt/other.so\nNCCL_DEBUG=INFO\n");
  EXPECT_THAT(Of(Look(), "nccl_conf")[0].what, HasSubstr("/etc/nccl.conf sets NCCL_PROFILER_PLUGIN=/opt/other.so"));
}

TEST_F(DoctorTest, AMissingLibraryAndADisabledRecorderAreProblems) {
  EXPECT_EQ(Look({{"RANKSCOPE_DISABLE", "1"}}).nccl_why, "RANKSCOPE_DISABLE");
  EXPECT_FALSE(Look({{"RANKSCOPE_CUPTI", "0"}}).gpu);
  options_.library = root_ + "/nothing.so";
  Diagnosis diagnosis = Look();
  EXPECT_EQ(StatusOf(diagnosis, "library"), CheckStatus::kProblem);
  EXPECT_FALSE(diagnosis.nccl);
  options_.library.clear();
  options_.library_error = "librankscope.so is not in /x";
  EXPECT_EQ(Of(Look(), "library")[0].what, "librankscope.so is not in /x");
}

TEST_F(DoctorTest, RoomThatIsShortIsAWarningWithTheWayOut) {
  options_.ring_bytes = uint64_t{1} << 60;
  const Diagnosis diagnosis = Look();
  EXPECT_EQ(StatusOf(diagnosis, "space"), CheckStatus::kWarning);
  EXPECT_THAT(Of(diagnosis, "space")[0].todo, HasSubstr("--shm-size"));
}

TEST_F(DoctorTest, ARingTellsWhichDoorsWereUsedAndWhoHadCupti) {
  analysis::RankInfo rank;
  rank.doors = schema::kDoorPlugin;
  rank.cupti.state = static_cast<uint32_t>(schema::CuptiState::kRefused);
  rank.cupti.holder = "CUPTI for nsys";
  rank.cupti.library = "/x/libcupti.so.13";
  rank.cupti.api_version = 130001;
  const std::vector<Check> checks = DiagnoseRing(rank);
  ASSERT_EQ(checks.size(), 6u);
  EXPECT_EQ(checks[0].status, CheckStatus::kOk);
  EXPECT_EQ(checks[1].status, CheckStatus::kNote);
  EXPECT_EQ(checks[4].status, CheckStatus::kWarning);
  EXPECT_THAT(checks[4].what, HasSubstr("CUPTI for nsys"));
  EXPECT_THAT(checks[5].what, HasSubstr("13.0 (130001)"));
}

}  // namespace
}  // namespace rankscope::tools
