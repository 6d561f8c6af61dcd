// A command under `run` must not see a difference, and neither must whoever started it.
#include "tools/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>

namespace rankscope::tools {
namespace {

CommandEnd Sh(const std::string& script, const std::vector<Variable>& variables = {}) {
  const absl::StatusOr<CommandEnd> end = RunCommand({"sh", "-c", script}, variables);
  EXPECT_TRUE(end.ok()) << end.status();
  return end.ok() ? *end : CommandEnd{};
}

std::string FileText(const std::string& path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

class ProcessTest : public ::testing::Test {
 protected:
  ProcessTest() : file_(::testing::TempDir() + "process_test." + std::to_string(getpid())) {}
  ~ProcessTest() override { std::remove(file_.c_str()); }
  const std::string file_;
};

TEST_F(ProcessTest, TheCommandsStatusIsPassedOn) {
  EXPECT_EQ(Sh("exit 0").exit_status, 0);
  EXPECT_EQ(Sh("exit 7").exit_status, 7);
  EXPECT_EQ(Sh("exit 255").exit_status, 255);
}

TEST_F(ProcessTest, ASignalThatEndsItGives128AndItsNumber) {
  const CommandEnd end = Sh("kill -KILL $$");
  EXPECT_EQ(end.signal, SIGKILL);
  EXPECT_EQ(end.exit_status, 128 + SIGKILL);
  EXPECT_EQ(Sh("kill -SEGV $$").exit_status, 128 + SIGSEGV);
}

TEST_F(ProcessTest, WhatCannotBeStartedIsSaidAsAShellSaysIt) {
  const auto missing = RunCommand({"no-such-command-of-rankscope"}, {});
  ASSERT_TRUE(missing.ok());
  EXPECT_EQ(missing->exit_status, 127);
  EXPECT_EQ(missing->start_error, "cannot run no-such-command-of-rankscope: No such file or directory");
  const auto no_program = RunCommand({"/dev/null"}, {});
  ASSERT_TRUE(no_program.ok());
  EXPECT_EQ(no_program->exit_status, 126);
}

TEST_F(ProcessTest, TheCommandGetsTheVariablesAndWeKeepOurs) {
  unsetenv("PROCESS_TEST_VARIABLE");
  EXPECT_EQ(Sh("test \"$PROCESS_TEST_VARIABLE\" = 'a b'", {{"PROCESS_TEST_VARIABLE", "a b"}}).exit_status, 0);
  EXPECT_EQ(getenv("PROCESS_TEST_VARIABLE"), nullptr);
}

// By fork and exec alone, which change nothing (system() does).
void Start(const std::string& script) {
  const pid_t child = fork();
  if (child == 0) {
    execlp("sh", "sh", "-c", script.c_str(), nullptr);
    _exit(127);
  }
  waitpid(child, nullptr, 0);
}

TEST_F(ProcessTest, TheCommandInheritsMaskAndDispositionsAsTheyWere) {
  const std::string script = "exec grep -E '^Sig(Blk|Ign)' /proc/self/status > " + file_;
  Start(script);
  const std::string want = FileText(file_);
  EXPECT_NE(want, "");
  IgnoreBrokenPipes();
  Sh(script);
  EXPECT_EQ(FileText(file_), want);
  signal(SIGPIPE, SIG_DFL);
}

TEST_F(ProcessTest, NoDescriptorLeaksIntoTheCommand) {
  Sh("exec ls /proc/self/fd > " + file_);
  const std::string with = FileText(file_);
  Start("exec ls /proc/self/fd > " + file_);
  EXPECT_EQ(with, FileText(file_));
}

// In a process of its own, as a launcher would see it: a signal to us goes to the command, and its answer is ours.
int StatusAfterSignal(const std::string& script, const std::string& ready_file, int signal) {
  const pid_t child = fork();
  if (child == 0) {
    const auto end = RunCommand({"sh", "-c", script}, {});
    _exit(end.ok() ? end->exit_status : 99);
  }
  // 10 s at most: a loaded machine takes its time to start a shell.
  for (int i = 0; i < 1000 && access(ready_file.c_str(), F_OK) != 0; ++i) usleep(10'000);
  kill(child, signal);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_F(ProcessTest, SignalsToUsGoToTheCommand) {
  for (const auto& [signal, name] :
       {std::pair(SIGTERM, "TERM"), std::pair(SIGINT, "INT"), std::pair(SIGUSR1, "USR1"), std::pair(SIGHUP, "HUP")}) {
    std::remove(file_.c_str());
    const std::string script =
        std::string("trap 'exit 42' ") + name + "; touch " + file_ + "; while :; do sleep 0.02; done";
    EXPECT_EQ(StatusAfterSignal(script, file_, signal), 42) << name;
  }
}

TEST_F(ProcessTest, ACommandThatGoesOnAfterASignalIsWaitedFor) {
  const std::string script =
      "trap 'got=1' TERM; touch " + file_ + "; while [ -z \"$got\" ]; do sleep 0.02; done; sleep 0.1; exit 5";
  EXPECT_EQ(StatusAfterSignal(script, file_, SIGTERM), 5);
}

TEST_F(ProcessTest, AParentThatIgnoresChildrenDoesNotHideTheStatus) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGCHLD, SIG_IGN);
    const auto end = RunCommand({"sh", "-c", "exit 3"}, {});
    _exit(end.ok() ? end->exit_status : 99);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

}  // namespace
}  // namespace rankscope::tools
