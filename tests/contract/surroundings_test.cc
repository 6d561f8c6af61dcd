// Where the ring can't be made as wished: training goes on, with one sentence.
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>

#include "tests/contract/contract_fixture.h"

namespace rankscope::testing {
namespace {

using ::testing::HasSubstr;

class SurroundingsTest : public ContractTest {
 protected:
  struct Outcome {
    int status = -1;
    std::string said;
    size_t sentences() const { return static_cast<size_t>(std::count(said.begin(), said.end(), '\n')); }
  };
  // Runs `prepare`, then a communicator with events, in a child of its own mount namespace. Status 77: namespaces
  // aren't allowed here.
  Outcome Train(const std::function<bool()>& prepare) {
    int pipe_ends[2];
    EXPECT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      dup2(pipe_ends[1], STDERR_FILENO);
      if (!prepare()) _exit(77);
      ProfilerHost host;
      if (!host.Open(RANKSCOPE_LIBRARY_UNDER_TEST, 5)) _exit(3);
      for (uint64_t c = 0; c < 3; ++c) {
        void* context = Init(&host, 1, c);
        for (uint64_t i = 0; i < 100; ++i) host.Stop(host.Start(context, Coll(i)));
        host.Finalize(context);
      }
      _exit(0);
    }
    close(pipe_ends[1]);
    Outcome outcome;
    char text[4096];
    for (ssize_t n; (n = read(pipe_ends[0], text, sizeof(text))) > 0;)
      outcome.said.append(text, static_cast<size_t>(n));
    close(pipe_ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return outcome;
  }
  // A tmpfs of its own at rings/.
  bool MountTmpfs(const char* options) {
    mkdir((dir_ + "/rings").c_str(), 0700);
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
    return mount("tmpfs", (dir_ + "/rings").c_str(), "tmpfs", 0, options) == 0;
  }
};

TEST_F(SurroundingsTest, AFullSharedMemoryTurnsRecordingOffWithTwoSentencesAtMost) {
  const Outcome outcome = Train([&] {
    if (!MountTmpfs("size=1m,mode=0700")) return false;
    std::ofstream(dir_ + "/rings/filler") << std::string(1 << 20, 'x');
    return true;
  });
  if (outcome.status == 77) GTEST_SKIP() << "no mount namespace here";
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.said, HasSubstr("no room"));
  EXPECT_LE(outcome.sentences(), 2u) << outcome.said;
}

TEST_F(SurroundingsTest, A64MiBSharedMemoryGetsASmallerRingAndNoSigbus) {
  setenv("RANKSCOPE_RING_BYTES", "256M", 1);
  const Outcome outcome = Train([&] { return MountTmpfs("size=64m,mode=0700"); });
  if (outcome.status == 77) GTEST_SKIP() << "no mount namespace here";
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.said, HasSubstr("has little room"));
  EXPECT_EQ(outcome.sentences(), 1u) << outcome.said;
}

TEST_F(SurroundingsTest, AReadOnlyDirectoryTurnsRecordingOff) {
  const Outcome outcome = Train([&] { return MountTmpfs("size=64m,mode=0700,ro"); });
  if (outcome.status == 77) GTEST_SKIP() << "no mount namespace here";
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.said, HasSubstr("Read-only file system"));
  EXPECT_LE(outcome.sentences(), 2u) << outcome.said;
}

TEST_F(SurroundingsTest, AnotherUsersDirectoryIsNotUsed) {
  if (getuid() != 0) GTEST_SKIP() << "only root can make another user's directory";
  mkdir((dir_ + "/rings").c_str(), 0777);
  ASSERT_EQ(chown((dir_ + "/rings").c_str(), 12345, 12345), 0);
  const Outcome outcome = Train([] { return true; });
  EXPECT_EQ(outcome.status, 0);
  EXPECT_LE(outcome.sentences(), 2u) << outcome.said;
  EXPECT_THAT(outcome.said, HasSubstr("rings"));
  EXPECT_TRUE(std::filesystem::is_empty(dir_ + "/rings"));
}

TEST_F(SurroundingsTest, ALinkInTheWayIsNotFollowed) {
  mkdir((dir_ + "/elsewhere").c_str(), 0700);
  ASSERT_EQ(symlink((dir_ + "/elsewhere").c_str(), (dir_ + "/rings").c_str()), 0);
  const Outcome outcome = Train([] { return true; });
  EXPECT_EQ(outcome.status, 0);
  EXPECT_LE(outcome.sentences(), 2u) << outcome.said;
  EXPECT_TRUE(std::filesystem::is_empty(dir_ + "/elsewhere"));
}

TEST_F(SurroundingsTest, TheFallbackDirectoryIsTakenWhereTheFirstIsImpossible) {
  std::ofstream(dir_ + "/rings") << "a file where the directory should be";
  setenv("RANKSCOPE_FALLBACK_DIR", (dir_ + "/second").c_str(), 1);
  const Outcome outcome = Train([] { return true; });
  unsetenv("RANKSCOPE_FALLBACK_DIR");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.said, HasSubstr("RANKSCOPE_FALLBACK_DIR"));
  const auto recording = analysis::OpenRecording({dir_ + "/second"});
  ASSERT_TRUE(recording.ok()) << recording.status();
  EXPECT_EQ((*recording)->ranks()[0].comms.size(), 3u);
}

TEST_F(SurroundingsTest, RingsArePrivate) {
  const mode_t old = umask(0);
  const Outcome outcome = Train([] { return true; });
  umask(old);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.said, "") << "nothing to say";
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ + "/rings")) {
    struct stat info;
    ASSERT_EQ(stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, entry.is_directory() ? 0700u : 0600u) << entry.path();
    files += entry.is_directory() ? 0 : 1;
  }
  EXPECT_EQ(files, 1);
}

TEST_F(SurroundingsTest, ABadSettingIsNamedOnceAndItsDefaultTaken) {
  setenv("RANKSCOPE_NCCL_EVENTS", "coll,nonsense", 1);
  const Outcome outcome = Train([] { return true; });
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.said, HasSubstr("nonsense"));
  EXPECT_EQ(outcome.sentences(), 1u) << outcome.said;
}

}  // namespace
}  // namespace rankscope::testing
