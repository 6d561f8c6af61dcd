// The environment for each launcher; what a shell makes of it is tested through a shell.
#include "tools/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "recorder/config.h"

namespace rankscope::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kLibrary[] = "/opt/rankscope/lib/librankscope.so";

class EnvironmentTest : public ::testing::Test {
 protected:
  EnvironmentTest() { Clear(); }
  ~EnvironmentTest() override { Clear(); }
  static void Clear() {
    for (const recorder::Setting& setting : recorder::kSettings) {
      unsetenv(absl::StrCat("RANKSCOPE_", setting.name).c_str());
      unsetenv(absl::StrCat("NCCL_RANKSCOPE_", setting.name).c_str());
    }
    for (const char* name : {"RANKSCOPE_LIBRARY", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "PYTHONPATH"})
      unsetenv(name);
  }
  // The three doors, each by its variable.
  static std::vector<std::string> Doors() {
    return {absl::StrCat("NCCL_PROFILER_PLUGIN=", kLibrary), absl::StrCat("CUDA_INJECTION64_PATH=", kLibrary),
            absl::StrCat("NVTX_INJECTION64_PATH=", kLibrary)};
  }
  static std::vector<std::string> DoorsAnd(std::vector<std::string> more) {
    std::vector<std::string> all = Doors();
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static std::vector<std::string> Pairs(const RecordingOptions& options) {
    const auto variables = RecordingVariables(kLibrary, options);
    std::vector<std::string> pairs;
    if (!variables.ok()) return {std::string(variables.status().message())};
    for (const Variable& variable : *variables) pairs.push_back(absl::StrCat(variable.name, "=", variable.value));
    return pairs;
  }
  static std::string Format(EnvironmentFormat format, const RecordingOptions& options) {
    return FormatVariables(*RecordingVariables(kLibrary, options), format);
  }
};

std::string OutputOf(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  char part[256];
  while (pipe != nullptr && fgets(part, sizeof(part), pipe) != nullptr) text += part;
  if (pipe != nullptr) pclose(pipe);
  return text;
}

TEST_F(EnvironmentTest, SettingsComeUnderBothNames) {
  RecordingOptions options;
  options.job = "night";
  EXPECT_EQ(Pairs(options), DoorsAnd({"RANKSCOPE_JOB=night", "NCCL_RANKSCOPE_JOB=night"}));
}

TEST_F(EnvironmentTest, GpuEventsAreASettingLikeTheOthers) {
  RecordingOptions options;
  options.gpu_events = "default,api";
  EXPECT_EQ(Pairs(options), DoorsAnd({"RANKSCOPE_GPU_EVENTS=default,api", "NCCL_RANKSCOPE_GPU_EVENTS=default,api"}));
}

TEST_F(EnvironmentTest, ADoorThatAnotherToolHasIsLeftToIt) {
  setenv("CUDA_INJECTION64_PATH", "/opt/nsys/libToolsInjection64.so", 1);
  setenv("NVTX_INJECTION64_PATH", kLibrary, 1);
  EXPECT_EQ(Pairs({}), (std::vector<std::string>{Doors()[0], Doors()[2]}));
  ASSERT_EQ(OtherInjections(kLibrary, {}).size(), 1u);
  EXPECT_THAT(OtherInjections(kLibrary, {})[0], HasSubstr("/opt/nsys/libToolsInjection64.so is kept"));
  RecordingOptions options;
  options.no_gpu = options.no_nvtx = true;
  EXPECT_EQ(Pairs(options), std::vector<std::string>{Doors()[0]});
  EXPECT_TRUE(OtherInjections(kLibrary, options).empty());
}

TEST_F(EnvironmentTest, OurLibraryIsPreloadedBehindWhatIsThereAndOnce) {
  RecordingOptions options;
  options.preload = true;
  const auto value = [&] { return RecordingVariables(kLibrary, options)->at(3).value; };
  EXPECT_EQ(value(), kLibrary);
  setenv("LD_PRELOAD", "/opt/other.so", 1);
  const std::string both = value();
  setenv("LD_PRELOAD", both.c_str(), 1);
  const std::string again = value();
  unsetenv("LD_PRELOAD");
  EXPECT_EQ(both, absl::StrCat("/opt/other.so:", kLibrary));
  EXPECT_EQ(again, both);
}

TEST_F(EnvironmentTest, TheHooksFolderGoesBeforeThePythonPathThatIsThere) {
  const std::string lib = ::testing::TempDir() + "hook_test." + std::to_string(getpid());
  std::filesystem::create_directories(lib + "/rankscope-hook");
  RecordingOptions options;
  options.hook = true;
  EXPECT_THAT(std::string(RecordingVariables(lib + "/librankscope.so", options).status().message()),
              HasSubstr("the Python hook is not in"));
  std::ofstream(lib + "/rankscope-hook/sitecustomize.py") << "\n";
  const auto value = [&] { return RecordingVariables(lib + "/librankscope.so", options)->at(3).value; };
  EXPECT_EQ(value(), lib + "/rankscope-hook");
  setenv("PYTHONPATH", "/mine", 1);
  EXPECT_EQ(value(), lib + "/rankscope-hook:/mine");
  setenv("PYTHONPATH", value().c_str(), 1);
  EXPECT_EQ(value(), lib + "/rankscope-hook:/mine") << "not twice";
  std::filesystem::remove_all(lib);
}

TEST_F(EnvironmentTest, WhatTheUserHasSetTravelsUnderBothNamesAndThePlainOneWins) {
  setenv("NCCL_RANKSCOPE_RING_BYTES", "8M", 1);
  setenv("RANKSCOPE_RING_BYTES", "64M", 1);
  setenv("RANKSCOPE_LIBRARY", "/not/a/setting", 1);
  EXPECT_EQ(Pairs({}), DoorsAnd({"RANKSCOPE_RING_BYTES=64M", "NCCL_RANKSCOPE_RING_BYTES=64M"}));
}

TEST_F(EnvironmentTest, AFlagWinsOverTheEnvironment) {
  setenv("RANKSCOPE_NCCL_EVENTS", "all", 1);
  RecordingOptions options;
  options.events = "coll,p2p";
  EXPECT_THAT(Pairs(options), ::testing::Contains("RANKSCOPE_NCCL_EVENTS=coll,p2p"));
  EXPECT_THAT(Pairs(options), Not(::testing::Contains("RANKSCOPE_NCCL_EVENTS=all")));
}

TEST_F(EnvironmentTest, AJobsNameThatIsNoFoldersNameIsRefused) {
  RecordingOptions options;
  options.job = "../up";
  EXPECT_THAT(Pairs(options)[0], HasSubstr("for example _._up"));
}

TEST_F(EnvironmentTest, ADirectoryBecomesAbsolute) {
  RecordingOptions options;
  options.directory = "rings";
  EXPECT_EQ(RecordingVariables(kLibrary, options)->at(3).value.substr(0, 1), "/");
}

TEST_F(EnvironmentTest, ALineBreakIsRefused) {
  setenv("RANKSCOPE_DIR", "/a\nb", 1);
  EXPECT_THAT(Pairs({})[0], HasSubstr("line break"));
}

// A line without '=' ends DeepSpeed's start with a ValueError: no comment, no empty line.
TEST_F(EnvironmentTest, EveryLineForDeepSpeedIsAnAssignment) {
  RecordingOptions options;
  options.job = "night";
  options.events = "coll,p2p";
  const std::string text = Format(EnvironmentFormat::kDeepSpeed, options);
  ASSERT_EQ(text.back(), '\n');
  std::vector<std::string> lines = absl::StrSplit(text.substr(0, text.size() - 1), '\n');
  EXPECT_EQ(lines.size(), 7u);
  for (const std::string& line : lines) EXPECT_THAT(line, ::testing::MatchesRegex("[A-Z_0-9]+=.+"));
}

TEST_F(EnvironmentTest, AShellGetsTheValuesThatWereMeant) {
  RecordingOptions options;
  options.directory = "/tmp/it's a \"dir\" $HOME `x` \\ *";
  const std::string script = Format(EnvironmentFormat::kShell, options);
  const std::string file = ::testing::TempDir() + "environment_test." + std::to_string(getpid());
  std::ofstream(file) << script << "printf %s \"$RANKSCOPE_DIR\"\n";
  EXPECT_EQ(OutputOf("sh " + file), options.directory);
  std::remove(file.c_str());
}

TEST_F(EnvironmentTest, WordsForMpirunAndDockerAreWordsOfAShell) {
  RecordingOptions options;
  options.directory = "/tmp/two words";
  for (const auto& [format, option] :
       {std::pair(EnvironmentFormat::kMpirun, "-x"), std::pair(EnvironmentFormat::kDocker, "-e")}) {
    const std::string words = Format(format, options);
    const std::string file = ::testing::TempDir() + "environment_words." + std::to_string(getpid());
    std::ofstream(file) << "printf '%s\\n' " << words;
    const std::vector<std::string> got = absl::StrSplit(OutputOf("sh " + file), '\n');
    EXPECT_THAT(got, ::testing::IsSupersetOf({std::string(option), absl::StrCat("NCCL_PROFILER_PLUGIN=", kLibrary),
                                              std::string("RANKSCOPE_DIR=/tmp/two words")}));
    std::remove(file.c_str());
  }
}

TEST_F(EnvironmentTest, ContainersGetTheLibraryAndAPlaceForRings) {
  EXPECT_THAT(Format(EnvironmentFormat::kDocker, {}),
              HasSubstr("-v /opt/rankscope/lib:/opt/rankscope/lib:ro --ipc=host"));
  RecordingOptions options;
  options.directory = "/rings";
  EXPECT_THAT(Format(EnvironmentFormat::kDocker, options), HasSubstr("-v /rings:/rings"));
  EXPECT_THAT(Format(EnvironmentFormat::kKubernetes, options), HasSubstr("path: \"/rings\""));
}

TEST_F(EnvironmentTest, ValuesThatALauncherSpoilsAreNamed) {
  RecordingOptions options;
  options.directory = "/two words";
  const auto variables = *RecordingVariables(kLibrary, options);
  EXPECT_THAT(FormatNotes(variables, EnvironmentFormat::kDeepSpeed), ::testing::Contains(HasSubstr("/two words")));
  EXPECT_THAT(FormatNotes(variables, EnvironmentFormat::kShell), Not(::testing::Contains(HasSubstr("/two words"))));
}

TEST_F(EnvironmentTest, OurPluginIsKnownUnderItsNames) {
  EXPECT_TRUE(IsOurPlugin(kLibrary, kLibrary));
  EXPECT_TRUE(IsOurPlugin("rankscope", kLibrary));
  EXPECT_TRUE(IsOurPlugin("/other/place/libnccl-profiler-rankscope.so", kLibrary));
  EXPECT_FALSE(IsOurPlugin("inspector", kLibrary));
  EXPECT_FALSE(IsOurPlugin("none", kLibrary));
}

// docs/environment.md has one row a setting of the recorder: "| `RANKSCOPE_X` | default | help |", and no other.
TEST_F(EnvironmentTest, TheDocumentListsExactlyTheSettingsThatThereAre) {
  std::ifstream file(RANKSCOPE_SOURCE_DIR "/docs/environment.md");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ASSERT_FALSE(text.empty());
  std::vector<std::string> rows;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (line.rfind("| `RANKSCOPE_", 0) == 0) rows.push_back(std::string(line));
  }
  std::vector<std::string> expected;
  for (const recorder::Setting& setting : recorder::kSettings) {
    expected.push_back(
        absl::StrCat("| `RANKSCOPE_", setting.name, "` | ", setting.fallback, " | ", setting.help, " |"));
  }
  EXPECT_EQ(rows, expected);
}

}  // namespace
}  // namespace rankscope::tools
