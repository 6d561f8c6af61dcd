// Where rings lie: the two rules that are the recorder's as well, and what a user's word means.
#include "tools/ring_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "recorder/config.h"

namespace rankscope::tools {
namespace {

using ::testing::HasSubstr;

class RingDirectoryTest : public ::testing::Test {
 protected:
  RingDirectoryTest() : dir_(::testing::TempDir() + "ring_directory_test." + std::to_string(getpid())) {
    for (const char* name : {"RANKSCOPE_DIR", "NCCL_RANKSCOPE_DIR", "RANKSCOPE_LOG", "NCCL_RANKSCOPE_LOG"})
      unsetenv(name);
    std::filesystem::create_directories(dir_);
  }
  ~RingDirectoryTest() override {
    unsetenv("RANKSCOPE_DIR");
    unsetenv("NCCL_RANKSCOPE_DIR");
    std::filesystem::remove_all(dir_);
  }
  void Ring(const std::string& job, int pid) {
    std::filesystem::create_directories(dir_ + "/" + job);
    std::ofstream(dir_ + "/" + job + "/host." + std::to_string(pid) + ".ring") << "x";
  }
  // Linux gives no process a number above 2^22 (proc(5), pid_max).
  static constexpr int kNobody = 1 << 23;
  const std::string dir_;
};

TEST_F(RingDirectoryTest, IsWhatTheRecorderTakes) {
  EXPECT_EQ(RingDirectory(), recorder::ReadConfig().dir);
  setenv("NCCL_RANKSCOPE_DIR", "/somewhere", 1);
  EXPECT_EQ(RingDirectory(), "/somewhere");
  EXPECT_EQ(RingDirectory(), recorder::ReadConfig().dir);
  setenv("RANKSCOPE_DIR", "/elsewhere", 1);
  EXPECT_EQ(RingDirectory(), "/elsewhere");
  EXPECT_EQ(RingDirectory(), recorder::ReadConfig().dir);
  setenv("RANKSCOPE_DIR", "relative/path", 1);
  EXPECT_EQ(RingDirectory(), recorder::ReadConfig().dir);
}

TEST_F(RingDirectoryTest, JobNamesBecomeSafeAsInTheRecorder) {
  for (const std::string& text :
       {std::string("plain-1.2_x"), std::string(".hidden"), std::string("../../etc"), std::string("a b\tc\n"),
        std::string("\xc3\xa4"), std::string(300, 'n'), std::string("")}) {
    char recorder_name[recorder::kNameLimit];
    recorder::CopySafeName(text.c_str(), recorder_name, sizeof(recorder_name));
    EXPECT_EQ(SafeJobName(text), recorder_name) << text;
  }
  EXPECT_EQ(SafeJobName("../x"), "_._x");
}

TEST_F(RingDirectoryTest, AJobsNameMeansItsFolderAndAPathMeansItself) {
  setenv("RANKSCOPE_DIR", dir_.c_str(), 1);
  Ring("night", kNobody);
  EXPECT_EQ(ResolvePaths({"night", "no-such-job", "/abs/night"}),
            (std::vector<std::string>{dir_ + "/night", "no-such-job", "/abs/night"}));
}

TEST_F(RingDirectoryTest, TheOnlyJobIsTaken) {
  setenv("RANKSCOPE_DIR", dir_.c_str(), 1);
  EXPECT_THAT(std::string(TheOnlyJob().status().message()), HasSubstr("no ring in " + dir_));
  Ring("first", kNobody);
  ASSERT_TRUE(TheOnlyJob().ok());
  EXPECT_EQ(*TheOnlyJob(), dir_ + "/first");
}

TEST_F(RingDirectoryTest, AmongSeveralJobsTheOneThatLivesIsTaken) {
  setenv("RANKSCOPE_DIR", dir_.c_str(), 1);
  Ring("first", kNobody);
  Ring("second", kNobody);
  EXPECT_THAT(std::string(TheOnlyJob().status().message()), HasSubstr("first, second"));
  Ring("second", getpid());
  ASSERT_TRUE(TheOnlyJob().ok());
  EXPECT_EQ(*TheOnlyJob(), dir_ + "/second");
}

}  // namespace
}  // namespace rankscope::tools
