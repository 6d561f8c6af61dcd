// The program from outside: statuses, sentences, pipes; on rings that are built here, so that what they hold is
// known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/fakes/ring_builder.h"

namespace rankscope::tools {
namespace {

namespace fs = std::filesystem;
using ::rankscope::testing::CollRecord;
using ::rankscope::testing::RingBuilder;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Result {
  int status = 0;  // negative: ended by that signal
  std::string out, err;
};

std::string FileText(const std::string& path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

constexpr int kRanks = 4;
constexpr int kOperations = 40;
constexpr int kLateRank = 2;
constexpr uint64_t kLate = 15'000'000;    // ns; what rank 2 comes later than the others
constexpr uint64_t kPeriod = 50'000'000;  // ns between operations

class CliTest : public ::testing::Test {
 protected:
  CliTest() : dir_(::testing::TempDir() + "cli_test." + std::to_string(getpid())) {
    fs::create_directories(dir_ + "/rings");
    for (const char* name : {"NCCL_PROFILER_PLUGIN", "RANKSCOPE_JOB", "NCCL_RANKSCOPE_JOB", "NO_COLOR",
                             "SLURM_JOB_ID", "RANKSCOPE_LIBRARY", "LOCAL_WORLD_SIZE", "LOCAL_RANK"}) {
      unsetenv(name);
    }
    setenv("RANKSCOPE_DIR", (dir_ + "/rings").c_str(), 1);
  }
  ~CliTest() override { fs::remove_all(dir_); }

  // The shell's words after the program's name. The working directory is dir_.
  Result Run(const std::string& words) const {
    const std::string command = absl::StrCat("cd ", dir_, " && ", RANKSCOPE_PROGRAM, " ", words, " >out 2>err");
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), FileText(dir_ + "/out"),
            FileText(dir_ + "/err")};
  }
  // A line of shell, in which $R is the program.
  Result Shell(const std::string& line) const {
    const std::string command =
        absl::StrCat("cd ", dir_, " && R=", RANKSCOPE_PROGRAM, " && bash -c '", line, "' >out 2>err");
    setenv("R", RANKSCOPE_PROGRAM, 1);
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), FileText(dir_ + "/out"),
            FileText(dir_ + "/err")};
  }

  // One ring a rank: kOperations all-reduces of 1 MiB, of which kLateRank is late in every one.
  void WriteRings(const std::string& folder, int operations = kOperations) const {
    fs::create_directories(dir_ + "/" + folder);
    for (int rank = 0; rank < kRanks; ++rank) {
      RingBuilder builder(1, 1024);
      builder.SetRank(rank, kRanks);
      builder.identity().pid = static_cast<uint32_t>((1 << 23) + rank);  // above pid_max: lives nowhere
      std::snprintf(builder.identity().job, sizeof(builder.identity().job), "night");
      builder.AddClockPair(0, 0).AddClockPair(10'000'000'000, 10'000'000'000);
      schema::CommEntry comm{};
      comm.hash = 0xabc;
      comm.rank = rank;
      comm.ranks = kRanks;
      comm.nodes = 1;
      comm.api_version = 4;
      comm.flags = schema::kCommIdentityKnown | schema::kCommSizeKnown;
      comm.launched_by_func[static_cast<int>(schema::Function::kAllReduce)] = static_cast<uint64_t>(operations);
      comm.last_seq_by_func[static_cast<int>(schema::Function::kAllReduce)] = static_cast<uint64_t>(operations);
      const uint16_t slot = builder.AddComm(comm);
      for (int i = 0; i < operations; ++i) {
        const uint64_t begin = static_cast<uint64_t>(i + 1) * kPeriod + (rank == kLateRank ? kLate : 0);
        builder.Append(
            0, CollRecord(begin, begin + 1000, slot, schema::Function::kAllReduce, static_cast<uint32_t>(i), 262'144,
                          schema::DataType::kFloat32, static_cast<uint64_t>(i + 1) << 8));
      }
      ASSERT_TRUE(builder.Write(absl::StrCat(dir_, "/", folder, "/host-0.", (1 << 23) + rank, ".ring")));
    }
  }

  const std::string dir_;
};

TEST_F(CliTest, HelpNamesEverySubcommandAndEachHasAnExample) {
  const Result help = Run("--help");
  EXPECT_EQ(help.status, 0);
  EXPECT_EQ(help.err, "");
  for (const char* verb : {"run", "env", "ls", "dump", "merge", "report", "skew", "hang"}) {
    EXPECT_THAT(help.out, HasSubstr(absl::StrCat("\n  ", verb, " ")));
    const Result own = Run(absl::StrCat(verb, " --help"));
    EXPECT_EQ(own.status, 0) << verb;
    EXPECT_THAT(own.out, HasSubstr(absl::StrCat("Usage: rankscope ", verb))) << verb;
    EXPECT_THAT(own.out, HasSubstr("Example")) << verb;
  }
  EXPECT_EQ(Run("--version").out, "rankscope " RANKSCOPE_VERSION "\n");
}

TEST_F(CliTest, BadUsageIsStatus2AndOneSentenceWithAHint) {
  for (const char* words :
       {"", "bogus", "report --bogus", "run true", "run --", "ls -- x", "env --for nothing", "dump --kind NoKind",
        "report --color pink", "run --job a/b -- true", "merge -o x.ring ."}) {
    const Result result = Run(words);
    EXPECT_EQ(result.status, 2) << words;
    EXPECT_EQ(result.out, "") << words;
    if (*words != '\0') {
      EXPECT_THAT(result.err, StartsWith("rankscope")) << words;
      EXPECT_THAT(result.err, HasSubstr("error: ")) << words;
    }
  }
  EXPECT_THAT(Run("bogus").err, HasSubstr("no subcommand 'bogus'"));
  EXPECT_THAT(Run("run true").err, HasSubstr("put -- before the command"));
}

TEST_F(CliTest, BadInputIsStatus3AndNamesTheFile) {
  std::ofstream(dir_ + "/text") << "this is no ring and no timeline";
  std::ofstream(dir_ + "/cut.ring") << "RK";
  fs::create_directories(dir_ + "/empty");
  for (const char* verb : {"report", "skew", "hang", "dump", "merge"}) {
    for (const char* path : {"missing", "text", "cut.ring", "empty"}) {
      const Result result = Run(absl::StrCat(verb, " ", path));
      EXPECT_EQ(result.status, 3) << verb << " " << path;
      EXPECT_EQ(result.out, "");
      EXPECT_THAT(result.err, StartsWith(absl::StrCat("rankscope ", verb, ": error: ")));
      EXPECT_THAT(result.err, HasSubstr(path));
    }
  }
  EXPECT_EQ(Run("ls missing").status, 3);
}

TEST_F(CliTest, TheReportNamesTheLateRankAndCheckFindsIt) {
  WriteRings("rings/night");
  const Result report = Run("report rings/night");
  EXPECT_EQ(report.status, 0) << report.err;
  EXPECT_THAT(report.out, HasSubstr("rank 2"));
  const nlohmann::json json = nlohmann::json::parse(Run("report --json rings/night").out);
  EXPECT_EQ(json["skew"]["verdict"], "stragglers");
  ASSERT_EQ(json["skew"]["stragglers"].size(), 1u);
  EXPECT_EQ(json["skew"]["stragglers"][0]["rank"], kLateRank);
  EXPECT_EQ(Run("report --check rings/night").status, 1);
  EXPECT_EQ(Run("skew --check rings/night").status, 1);
  EXPECT_EQ(nlohmann::json::parse(Run("skew --json rings/night").out)["stragglers"][0]["rank"], kLateRank);
}

TEST_F(CliTest, AnswersAreTheSameFromRingsAndFromTheirTimeline) {
  WriteRings("rings/night");
  const Result merge = Run("merge rings/night -o night.rsc");
  EXPECT_EQ(merge.status, 0) << merge.err;
  EXPECT_EQ(merge.out, "");
  EXPECT_THAT(merge.err, HasSubstr(absl::StrCat(kRanks * kOperations, " events of 4 processes")));
  nlohmann::json from_rings = nlohmann::json::parse(Run("skew --json rings/night").out);
  nlohmann::json from_timeline = nlohmann::json::parse(Run("skew --json night.rsc").out);
  EXPECT_EQ(from_rings, from_timeline);
}

TEST_F(CliTest, MergeWritesOverNoInputAndNoFolder) {
  WriteRings("rings/night");
  EXPECT_EQ(Run("merge rings/night -o n.rsc").status, 0);
  EXPECT_EQ(Run("merge n.rsc -o n.rsc").status, 2);
  EXPECT_EQ(Run("merge rings/night -o rings").status, 2);
  EXPECT_EQ(Run("merge rings/night -o no/such/folder/n.rsc").status, 3);
  EXPECT_EQ(Run("merge rings/night").status, 0);
  EXPECT_EQ(Run("merge rings/night").status, 0);
  EXPECT_TRUE(fs::exists(dir_ + "/night.rsc"));
  EXPECT_TRUE(fs::exists(dir_ + "/night.2.rsc"));
}

TEST_F(CliTest, AJobsNameOrNothingFindsTheRings) {
  WriteRings("rings/night");
  EXPECT_EQ(Run("report night").status, 0);
  EXPECT_EQ(Run("report").status, 0);
  WriteRings("rings/other");
  const Result two = Run("hang");
  EXPECT_EQ(two.status, 3);
  EXPECT_THAT(two.err, HasSubstr("night, other"));
}

TEST_F(CliTest, LsListsJobsAndRings) {
  EXPECT_EQ(Run("ls").status, 0);
  EXPECT_THAT(Run("ls").err, HasSubstr("no rings in"));
  EXPECT_EQ(nlohmann::json::parse(Run("ls --json").out)["ranks"].size(), 0u);
  WriteRings("rings/night");
  const Result ls = Run("ls");
  EXPECT_EQ(ls.status, 0);
  EXPECT_THAT(ls.out, HasSubstr("night: 4 rings, 0 alive"));
  EXPECT_THAT(ls.out, HasSubstr(absl::StrCat((1 << 23) + 3)));
  const nlohmann::json json = nlohmann::json::parse(Run("ls --json").out);
  ASSERT_EQ(json["ranks"].size(), 4u);
  EXPECT_EQ(json["ranks"][3]["pid"], (1 << 23) + 3);
}

TEST_F(CliTest, DumpGivesEveryEventAndFilters) {
  WriteRings("rings/night");
  const auto events = [&](const std::string& flags) {
    int count = 0;
    const Result dump = Run("dump --json rings/night " + flags);
    EXPECT_EQ(dump.status, 0) << dump.err;
    for (const absl::string_view line : absl::StrSplit(dump.out, '\n', absl::SkipEmpty())) {
      const nlohmann::json json = nlohmann::json::parse(std::string(line));
      if (json["type"] != "event") continue;
      ++count;
      EXPECT_EQ(json["function"], "AllReduce");
      EXPECT_EQ(json["count"], 262'144);
      EXPECT_EQ(json["end_ns"].get<int64_t>() - json["begin_ns"].get<int64_t>(), 1000);
    }
    return count;
  };
  EXPECT_EQ(events(""), kRanks * kOperations);
  EXPECT_EQ(events("--rank 1"), kOperations);
  EXPECT_EQ(events("--rank 1 --rank 3"), 2 * kOperations);
  EXPECT_EQ(events("--kind coll"), kRanks * kOperations);
  EXPECT_EQ(events("--kind P2p"), 0);
  EXPECT_EQ(events("--limit 7"), 7);
  EXPECT_EQ(events("--header-only"), 0);
  EXPECT_EQ(Run("dump --rank 9 rings/night").status, 3);
  EXPECT_THAT(Run("dump --rank 1 --limit 1 rings/night").out, HasSubstr("rank 1 Coll 1.00 us comm=0"));
}

TEST_F(CliTest, AReaderThatGoesIsNoErrorAndAFullDiskIs) {
  WriteRings("rings/night");
  const Result pipe = Shell("$R dump --json rings/night | head -n 1; echo ${PIPESTATUS[0]}");
  EXPECT_THAT(pipe.out, ::testing::EndsWith("\n0\n"));
  EXPECT_EQ(pipe.err, "");
  const Result full = Shell("$R report rings/night > /dev/full");
  EXPECT_EQ(full.status, 3);
  EXPECT_THAT(full.err, HasSubstr("No space left on device"));
}

TEST_F(CliTest, ColourOnlyOnRequestAndNeverAgainstNoColor) {
  WriteRings("rings/night");
  EXPECT_THAT(Run("report rings/night").out, Not(HasSubstr("\x1b[")));
  EXPECT_THAT(Run("report --color always rings/night").out, HasSubstr("\x1b["));
  EXPECT_THAT(Run("report --color never rings/night").out, Not(HasSubstr("\x1b[")));
}

TEST_F(CliTest, EnvGoesThroughAShellIntoACommand) {
  const Result result =
      Shell("eval \"$($R env --job night)\" && echo $NCCL_PROFILER_PLUGIN $NCCL_RANKSCOPE_JOB $RANKSCOPE_DIR");
  EXPECT_EQ(result.status, 0);
  const std::string library = fs::path(RANKSCOPE_LIBRARY_FILE).string();
  EXPECT_EQ(result.out, absl::StrCat(library, " night ", dir_, "/rings\n"));
}

TEST_F(CliTest, TheLibraryIsTakenFromTheVariableAndMissedWithASentence) {
  std::ofstream(dir_ + "/my.so") << "x";
  EXPECT_THAT(Shell("RANKSCOPE_LIBRARY=my.so $R env").out, HasSubstr(dir_ + "/my.so"));
  const Result missing = Shell("RANKSCOPE_LIBRARY=/no/such.so $R env");
  EXPECT_EQ(missing.status, 3);
  EXPECT_THAT(missing.err, HasSubstr("RANKSCOPE_LIBRARY: /no/such.so is not a file"));
}

// The stand-in for a job: it copies rings to where the recorder would have made them.
constexpr char kJob[] =
    "sh -c \"mkdir -p \\$RANKSCOPE_DIR/\\$RANKSCOPE_JOB; cp made/*.ring \\$RANKSCOPE_DIR/\\$RANKSCOPE_JOB; exit 7\"";

TEST_F(CliTest, RunPassesTheStatusOnMergesReportsAndCleansUp) {
  WriteRings("made");
  const Result run = Run(absl::StrCat("run --job night -- ", kJob));
  EXPECT_EQ(run.status, 7) << run.err;
  EXPECT_THAT(run.out, HasSubstr("rank 2"));
  EXPECT_TRUE(fs::exists(dir_ + "/night.rsc"));
  EXPECT_FALSE(fs::exists(dir_ + "/rings/night"));
  EXPECT_EQ(Run("report night.rsc").status, 0);
}

TEST_F(CliTest, RunMergesOnlyItsOwnRingsAndKeepsThoseOfAnEarlierRun) {
  WriteRings("made");
  WriteRings("rings/night", 3);
  for (const auto& file : fs::directory_iterator(dir_ + "/rings/night")) {
    fs::rename(file.path(), absl::StrCat(dir_, "/rings/night/old-", file.path().filename().string()));
  }
  const Result run = Run(absl::StrCat("run --job night --no-report -- ", kJob));
  EXPECT_EQ(run.status, 7);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("160 events of 4 processes"));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_ + "/rings/night"), fs::directory_iterator()), kRanks);
}

TEST_F(CliTest, RunKeepsRingsThatAreNotTheWholeJob) {
  WriteRings("made");
  fs::remove(absl::StrCat(dir_, "/made/host-0.", (1 << 23) + 3, ".ring"));
  const Result run = Run(absl::StrCat("run --job night --no-report -- ", kJob));
  EXPECT_EQ(run.status, 7);
  EXPECT_THAT(run.err, HasSubstr("the rings stay in"));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_ + "/rings/night"), fs::directory_iterator()), 3);
}

TEST_F(CliTest, RunSaysWhenNothingWasRecorded) {
  const Result run = Run("run -- sh -c 'exit 3'");
  EXPECT_EQ(run.status, 3);
  EXPECT_THAT(run.err, HasSubstr("no process recorded anything"));
  EXPECT_EQ(Run("run -- sh -c 'kill -TERM $$'").status, 128 + SIGTERM);
  EXPECT_EQ(Run("run -- no-such-command-of-rankscope").status, 127);
}

TEST_F(CliTest, AnotherPluginIsKeptUnlessForced) {
  const Result kept = Shell("NCCL_PROFILER_PLUGIN=inspector $R run -- printenv NCCL_PROFILER_PLUGIN");
  EXPECT_EQ(kept.out, "inspector\n");
  EXPECT_THAT(kept.err, HasSubstr("NCCL_PROFILER_PLUGIN=inspector is kept"));
  const Result forced = Shell("NCCL_PROFILER_PLUGIN=inspector $R run --force -- printenv NCCL_PROFILER_PLUGIN");
  EXPECT_EQ(forced.out, absl::StrCat(RANKSCOPE_LIBRARY_FILE, "\n"));
}

TEST_F(CliTest, WhereALauncherStartsItOnceARankNobodyMerges) {
  WriteRings("made");
  for (const char* variables : {"LOCAL_WORLD_SIZE=4", "SLURM_STEP_NUM_TASKS=16 SLURM_STEP_NUM_NODES=2"}) {
    const Result run = Shell(absl::StrCat("export ", variables, "; $R run --job night -- ", kJob));
    EXPECT_EQ(run.status, 7) << variables;
    EXPECT_THAT(run.err, HasSubstr("rankscope merge")) << variables;
    EXPECT_FALSE(fs::exists(dir_ + "/night.rsc")) << variables;
    fs::remove_all(dir_ + "/rings/night");
  }
  // A batch script, and one task a node that starts the ranks itself.
  const Result batch =
      Shell(absl::StrCat("export SLURM_LOCALID=0 SLURM_NTASKS_PER_NODE=8 SLURM_STEP_NUM_TASKS=2 "
                         "SLURM_STEP_NUM_NODES=2; $R run --job night -- ",
                         kJob));
  EXPECT_EQ(batch.status, 7);
  EXPECT_TRUE(fs::exists(dir_ + "/night.rsc"));
}

}  // namespace
}  // namespace rankscope::tools
