// Finding and opening what the user named.
#include "analysis/recording/open.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/fakes/ring_builder.h"

namespace rankscope::analysis {
namespace {

using ::rankscope::testing::CollRecord;
using ::rankscope::testing::RingBuilder;
using ::testing::HasSubstr;

class OpenTest : public ::testing::Test {
 protected:
  OpenTest() : dir_(::testing::TempDir() + "open_test." + std::to_string(getpid())) {
    std::filesystem::create_directories(dir_ + "/job");
  }
  ~OpenTest() override { std::filesystem::remove_all(dir_); }
  void Ring(const std::string& name, int rank, const std::string& host = "host-0") {
    RingBuilder builder(1, 8);
    builder.SetRank(rank, 4, host);
    ASSERT_TRUE(builder.Write(dir_ + "/job/" + name));
  }
  static std::string Refusal(const std::vector<std::string>& paths) {
    const absl::StatusOr<std::unique_ptr<Recording>> recording = OpenRecording(paths);
    return recording.ok() ? "was read" : std::string(recording.status().message());
  }
  const std::string dir_;
};

TEST_F(OpenTest, RanksAreOrderedByRankAndUnknownOnesComeLast) {
  Ring("a.ring", 2);
  Ring("b.ring", -1);
  Ring("c.ring", 0);
  const absl::StatusOr<std::unique_ptr<Recording>> recording = OpenRecording({dir_});
  ASSERT_TRUE(recording.ok()) << recording.status();
  std::vector<int> ranks;
  for (const RankInfo& rank : (*recording)->ranks()) {
    EXPECT_EQ(rank.rank_index, ranks.size());
    ranks.push_back(rank.rank);
  }
  EXPECT_EQ(ranks, (std::vector<int>{0, 2, -1}));
}

TEST_F(OpenTest, ABadRingAmongGoodOnesIsLeftOutAndNamed) {
  Ring("a.ring", 0);
  std::ofstream(dir_ + "/job/b.ring") << "rubbish";
  const absl::StatusOr<std::unique_ptr<Recording>> recording = OpenRecording({dir_ + "/job"});
  ASSERT_TRUE(recording.ok()) << recording.status();
  EXPECT_EQ((*recording)->ranks().size(), 1u);
  ASSERT_EQ((*recording)->warnings().size(), 1u);
  EXPECT_THAT((*recording)->warnings()[0], HasSubstr("b.ring"));
}

TEST_F(OpenTest, TwoRingsOfOneRankAreSaid) {
  Ring("a.ring", 1);
  Ring("b.ring", 1);
  const absl::StatusOr<std::unique_ptr<Recording>> recording = OpenRecording({dir_});
  ASSERT_TRUE(recording.ok());
  ASSERT_EQ((*recording)->warnings().size(), 1u);
  EXPECT_THAT((*recording)->warnings()[0], HasSubstr("rank 1 has several rings"));
}

TEST_F(OpenTest, SeveralHostsHaveNoProvableBound) {
  Ring("a.ring", 0, "host-a");
  Ring("b.ring", 1, "host-b");
  const absl::StatusOr<std::unique_ptr<Recording>> recording = OpenRecording({dir_});
  ASSERT_TRUE(recording.ok());
  ASSERT_EQ((*recording)->clocks().size(), 2u);
  for (const HostClockInfo& clock : (*recording)->clocks()) EXPECT_EQ(clock.bound_ns, -1);
}

TEST_F(OpenTest, RefusalsAreSentences) {
  EXPECT_THAT(Refusal({}), HasSubstr("no file or folder"));
  EXPECT_THAT(Refusal({dir_ + "/nothing"}), HasSubstr("cannot open"));
  EXPECT_THAT(Refusal({dir_}), HasSubstr("there is no ring in"));
  std::ofstream(dir_ + "/text") << "hello";
  EXPECT_THAT(Refusal({dir_ + "/text"}), HasSubstr("neither a ring nor a timeline"));
  std::ofstream(dir_ + "/job/only.ring") << "rubbish";
  EXPECT_THAT(Refusal({dir_}), HasSubstr("too short for a ring"));
}

TEST_F(OpenTest, AFifoIsNotWaitedFor) {
  ASSERT_EQ(mkfifo((dir_ + "/pipe").c_str(), 0600), 0);
  EXPECT_THAT(Refusal({dir_ + "/pipe"}), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace rankscope::analysis
