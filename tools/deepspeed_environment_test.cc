// The file that DeepSpeed's launcher reads: what is written into it, and that it is the user's again afterwards.
#include "tools/deepspeed_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

namespace rankscope::tools {
namespace {

using ::testing::HasSubstr;

class DeepSpeedEnvironmentTest : public ::testing::Test {
 protected:
  DeepSpeedEnvironmentTest() : dir_(::testing::TempDir() + "deepspeed_test." + std::to_string(getpid())) {
    std::filesystem::create_directories(dir_);
    file_ = dir_ + "/env";
    setenv("DS_ENV_FILE", file_.c_str(), 1);
  }
  ~DeepSpeedEnvironmentTest() override {
    unsetenv("DS_ENV_FILE");
    std::filesystem::remove_all(dir_);
  }
  static std::string Read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  static size_t Files(const std::string& dir) {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(dir), {}));
  }

  const std::vector<std::string> several_ = {"/usr/bin/deepspeed", "--num_nodes", "2", "train.py"};
  const std::vector<Variable> variables_ = {{"NCCL_PROFILER_PLUGIN", "/o/librankscope.so"},
                                            {"CUDA_INJECTION64_PATH", "/o/librankscope.so"},
                                            {"NVTX_INJECTION64_PATH", "/o/librankscope.so"},
                                            {"RANKSCOPE_JOB", "j"},
                                            {"NCCL_RANKSCOPE_JOB", "j"}};
  const std::string lines_ = "CUDA_INJECTION64_PATH=/o/librankscope.so\nNVTX_INJECTION64_PATH=/o/librankscope.so\n";
  std::string dir_, file_;
};

TEST_F(DeepSpeedEnvironmentTest, SeveralNodesAreKnownByTheCommandAndTheHostFile) {
  const std::string two = dir_ + "/two", one = dir_ + "/one";
  std::ofstream(two) << "# hosts\n\nworker-1 slots=8\nworker-2 slots=8\n";
  std::ofstream(one) << "worker-1 slots=8\n";
  const auto several = [](std::vector<std::string> command) { return IsDeepSpeedOverSeveralNodes(command); };
  EXPECT_TRUE(several(several_));
  EXPECT_TRUE(several({"deepspeed", "--num_nodes=4", "train.py"}));
  EXPECT_TRUE(several({"deepspeed", "--hostfile", two, "train.py"}));
  EXPECT_TRUE(several({"deepspeed", "-H", two, "train.py"}));
  EXPECT_TRUE(several({"deepspeed", "--force_multi", "train.py"}));
  EXPECT_FALSE(several({"deepspeed", "--hostfile=" + one, "train.py"}));
  EXPECT_FALSE(several({"deepspeed", "--hostfile", two, "--num_nodes", "1", "train.py"}));
  EXPECT_FALSE(several({"deepspeed", "--hostfile", two, "--no_ssh", "train.py"}));
  EXPECT_FALSE(several({"deepspeed", "train.py", "--num_nodes", "8"})) << "the script's own option";
  EXPECT_FALSE(several({"torchrun", "--hostfile", two}));
  EXPECT_FALSE(several({}));
}

TEST_F(DeepSpeedEnvironmentTest, WhatDoesNotTravelByItselfIsAppendedAndTakenAwayAgain) {
  for (const std::string before : {"A=1\nB=2\n", "A=1", ""}) {
    std::ofstream(file_, std::ios::binary) << before;
    DeepSpeedEnvironment environment;
    ASSERT_TRUE(environment.Write(several_, variables_).ok());
    EXPECT_EQ(Read(file_), (before == "A=1" ? "A=1\n" : before) + lines_);
    ASSERT_EQ(environment.notes().size(), 1u);
    ASSERT_TRUE(environment.Restore().ok());
    EXPECT_EQ(Read(file_), before) << "byte for byte";
    EXPECT_EQ(Files(dir_), 1u);
  }
}

TEST_F(DeepSpeedEnvironmentTest, AFileThatWasNotThereIsGoneAgainWhateverHappens) {
  {
    DeepSpeedEnvironment environment;
    ASSERT_TRUE(environment.Write(several_, variables_).ok());
    EXPECT_EQ(Read(file_), lines_);
  }
  EXPECT_EQ(Files(dir_), 0u);
}

TEST_F(DeepSpeedEnvironmentTest, ARunThatWasKilledIsPutRightByTheNext) {
  std::ofstream(file_) << "MINE=1\n";
  const pid_t child = fork();
  if (child == 0) {
    DeepSpeedEnvironment environment;
    _exit(environment.Write(several_, variables_).ok() ? 0 : 1);  // no destructor: killed
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  ASSERT_EQ(Read(file_), "MINE=1\n" + lines_);
  DeepSpeedEnvironment next;
  ASSERT_TRUE(next.Write(several_, variables_).ok());
  EXPECT_EQ(Read(file_), "MINE=1\n" + lines_) << "once, not twice";
  EXPECT_THAT(next.notes()[0], HasSubstr("was put back first"));
  ASSERT_TRUE(next.Restore().ok());
  EXPECT_EQ(Read(file_), "MINE=1\n");
}

TEST_F(DeepSpeedEnvironmentTest, OneNodeLeavesTheFileAlone) {
  std::ofstream(file_) << "MINE=1\n";
  DeepSpeedEnvironment environment;
  ASSERT_TRUE(environment.Write({"deepspeed", "--num_nodes", "1", "train.py"}, variables_).ok());
  EXPECT_EQ(Read(file_), "MINE=1\n");
  EXPECT_TRUE(environment.notes().empty());
}

TEST_F(DeepSpeedEnvironmentTest, AValueThatTheLauncherWouldQuoteIsRefusedWithASentence) {
  DeepSpeedEnvironment environment;
  const absl::Status status = environment.Write(several_, {{"CUDA_INJECTION64_PATH", "/a b/librankscope.so"}});
  EXPECT_THAT(std::string(status.message()), HasSubstr("would quote"));
  EXPECT_EQ(Files(dir_), 0u);
}

TEST_F(DeepSpeedEnvironmentTest, ACopyThatIsNotOursStopsIt) {
  std::ofstream(file_) << "MINE=1\n";
  std::ofstream(file_ + ".rankscope-backup") << "something else";
  DeepSpeedEnvironment environment;
  EXPECT_FALSE(environment.Write(several_, variables_).ok());
  EXPECT_EQ(Read(file_), "MINE=1\n");
  EXPECT_EQ(Files(dir_), 2u);
}

}  // namespace
}  // namespace rankscope::tools
