// `rankscope run`: a command with rankscope on; afterwards its rings are merged into a timeline, and the report is
// printed.
//
// The command's end is this program's end, whatever becomes of the merge: who starts jobs must not see a difference.
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analysis/answers/format.h"
#include "analysis/answers/report_text.h"
#include "analysis/recording/open.h"
#include "analysis/recording/ring_set.h"
#include "tools/answer.h"
#include "tools/commands.h"
#include "tools/deepspeed_environment.h"
#include "tools/diagnostics.h"
#include "tools/environment.h"
#include "tools/library_path.h"
#include "tools/merge.h"
#include "tools/output.h"
#include "tools/process.h"
#include "tools/recording_options.h"
#include "tools/ring_directory.h"

namespace rankscope::tools {
namespace {

namespace fs = std::filesystem;

struct RunOptions {
  RecordingOptions recording;
  std::string output;
  bool no_report = false, no_merge = false, keep_rings = false, force = false;
  AnswerOptions answer;
};

// A ring file by what makes it that file: a later run of the same name may get the same path.
struct RingFileId {
  dev_t device;
  ino_t inode;
  bool operator<(const RingFileId& other) const {
    return std::pair(device, inode) < std::pair(other.device, other.inode);
  }
};

bool IdOf(const std::string& path, RingFileId* id) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return false;
  *id = {status.st_dev, status.st_ino};
  return true;
}

// The folders where this job's rings may be: in the directory, and in the one for when that is full.
struct RingFolders {
  std::vector<std::string> paths;
  std::set<RingFileId> before;  // rings of earlier runs

  std::vector<std::pair<std::string, RingFileId>> All() const {
    std::vector<std::pair<std::string, RingFileId>> found;
    for (const std::string& folder : paths) {
      const absl::StatusOr<std::vector<std::string>> rings = analysis::FindRings(folder);
      if (!rings.ok()) continue;
      for (const std::string& path : *rings) {
        RingFileId id{};
        if (IdOf(path, &id)) found.emplace_back(path, id);
      }
    }
    return found;
  }
  std::vector<std::string> New() const {
    std::vector<std::string> found;
    for (const auto& [path, id] : All()) {
      if (before.count(id) == 0) found.push_back(path);
    }
    return found;
  }
  std::string Text() const {
    std::vector<std::string> words;
    for (const std::string& path : paths) words.push_back(ShellQuote(path));
    return absl::StrJoin(words, " ");
  }
};

RingFolders FoldersOf(const std::string& job, const std::vector<Variable>& variables) {
  std::string directory = RingDirectory(), fallback = SettingFromEnvironment("FALLBACK_DIR");
  for (const Variable& variable : variables) {
    if (variable.name == "RANKSCOPE_DIR") directory = variable.value;
  }
  RingFolders folders;
  folders.paths.push_back(absl::StrCat(directory, "/", job));
  if (!fallback.empty() && fallback != directory) folders.paths.push_back(absl::StrCat(fallback, "/", job));
  for (const auto& [path, id] : folders.All()) folders.before.insert(id);
  return folders;
}

// A name that no other run on this node has, and that says what ran and when; under Slurm the same on every node.
std::string JobName(const std::vector<std::string>& command) {
  const std::string named = SettingFromEnvironment("JOB");
  if (!named.empty()) return SafeJobName(named);
  if (const char* slurm = std::getenv("SLURM_JOB_ID"); slurm != nullptr && *slurm != '\0') {
    const char* step = std::getenv("SLURM_STEP_ID");
    return SafeJobName(absl::StrCat("slurm-", slurm, step != nullptr ? "." : "", step != nullptr ? step : ""));
  }
  char when[32] = {};
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &local);
  const std::string program = fs::path(command[0]).filename().string();
  return SafeJobName(absl::StrCat(program.substr(0, 64), "-", when, "-", getpid()));
}

int EnvironmentNumber(const char* name) {
  const char* text = std::getenv(name);
  int number = 0;
  return text != nullptr && absl::SimpleAtoi(text, &number) ? number : 0;
}

// Where a launcher started us once for each rank, every one of us would merge the rings of all. Slurm's variables are
// those that srun alone sets: a batch script has SLURM_LOCALID and SLURM_NTASKS_PER_NODE as well.
bool StartedOncePerRank() {
  return EnvironmentNumber("LOCAL_WORLD_SIZE") > 1 || EnvironmentNumber("OMPI_COMM_WORLD_LOCAL_SIZE") > 1 ||
         EnvironmentNumber("MPI_LOCALNRANKS") > 1 ||
         EnvironmentNumber("SLURM_STEP_NUM_TASKS") > std::max(1, EnvironmentNumber("SLURM_STEP_NUM_NODES"));
}

// Whether the ranks here are the whole job: rings of a part of it are needed for merging it with the other nodes'.
bool IsWholeJob(const analysis::Recording& recording) {
  std::set<int32_t> ranks;
  int32_t world_size = 0;
  for (const analysis::RankInfo& rank : recording.ranks()) {
    world_size = std::max({world_size, rank.world_size, rank.env_world_size});
    if (rank.rank < 0) return false;
    ranks.insert(rank.rank);
  }
  return world_size > 0 && ranks.size() == static_cast<size_t>(world_size);
}

// Deletes what the timeline holds now. Only this run's rings, and none of a process that still writes.
void RemoveRings(const analysis::Recording& recording, const RingFolders& folders) {
  std::error_code error;
  for (const analysis::RankInfo& rank : recording.ranks()) {
    if (!rank.alive) fs::remove(rank.ring_path, error);
  }
  for (const std::string& folder : folders.paths) fs::remove(folder, error);  // only if it is empty
}

void ExplainNothingRecorded(const RingFolders& folders) {
  PrintWarning("run", absl::StrCat("no process recorded anything into ", folders.Text()));
  PrintNote(
      "run",
      "why that can be: NCCL is older than 2.23 or made no communicator; the processes run on other nodes (their "
      "rings "
      "are there); the launcher drops the variables (rankscope env --for ...). NCCL_DEBUG=INFO shows how NCCL looks "
      "for the plugin");
}

// After the command. Whatever goes wrong here is said, and changes nothing else.
void MergeAndReport(const RunOptions& options, const std::string& job, const RingFolders& folders) {
  const std::vector<std::string> rings = folders.New();
  if (rings.empty()) return ExplainNothingRecorded(folders);
  const auto recording = analysis::OpenRecording(rings);
  if (!recording.ok()) return PrintError("run", recording.status().message(), "the rings are in " + folders.Text());
  for (const std::string& warning : (*recording)->warnings()) PrintWarning("run", warning);
  const std::string timeline = options.output.empty() ? FreeTimelineName(job) : options.output;
  const absl::Status written = WriteWithProgress("run", **recording, timeline);
  if (!written.ok()) {
    PrintError("run", written.message(),
               absl::StrCat("the rings are still there: rankscope merge ", folders.Text(), " -o FILE.rsc"));
  }
  if (!options.no_report) {
    const answers::Report report = BuildWithProgress(**recording);
    Output output;
    output.Write("\n");
    output.Write(answers::RenderText(
        report, TextOptionsFor(options.answer, written.ok() ? ShellQuote(timeline) : folders.Text())));
    output.Finish("run");
  }
  const auto& ranks = (*recording)->ranks();
  const auto alive =
      std::count_if(ranks.begin(), ranks.end(), [](const analysis::RankInfo& rank) { return rank.alive; });
  if (alive > 0) {
    PrintWarning("run", absl::StrCat("the command has ended, but ", alive, " of its ", ranks.size(),
                                     " recorded processes live on; their rings stay in ", folders.Text()));
  }
  // What could not be read is evidence too.
  if (!written.ok() || options.keep_rings) return;
  if ((*recording)->warnings().empty() && IsWholeJob(**recording)) {
    RemoveRings(**recording, folders);
  } else {
    PrintNote("run", absl::StrCat("the rings stay in ", folders.Text(),
                                  ": these are not all ranks, or not all could be read"));
  }
}

// CLI11 knows nothing of what comes after "--".
class RunFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: rankscope run [OPTIONS] -- COMMAND [ARGUMENTS...]\n";
  }
};

// False: usage error, said. Fills what the command gets, and says what of it can't work.
bool Prepare(const RunOptions& options, const std::vector<std::string>& command, std::string* job,
             std::vector<Variable>* variables) {
  RecordingOptions recording = options.recording;
  if (recording.job.empty()) recording.job = JobName(command);
  *job = recording.job;
  const absl::StatusOr<std::string> library = FindLibrary();
  if (!library.ok()) {
    PrintWarning("run", absl::StrCat(library.status().message(), "; the command runs without recording"));
    return true;
  }
  absl::StatusOr<std::vector<Variable>> found = RecordingVariables(*library, recording);
  if (!found.ok()) {
    PrintError("run", found.status().message());
    return false;
  }
  *variables = *std::move(found);
  for (const std::string& note : OtherInjections(*library, recording)) PrintNote("run", note);
  const char* theirs = std::getenv("NCCL_PROFILER_PLUGIN");
  if (theirs != nullptr && *theirs != '\0' && !IsOurPlugin(theirs, *library) && !options.force) {
    PrintWarning("run",
                 absl::StrCat("NCCL_PROFILER_PLUGIN=", theirs,
                              " is kept, so nothing is recorded: NCCL takes one profiler; --force replaces it"));
    variables->erase(variables->begin());
  }
  return true;
}

int Run(const RunOptions& options, const Invocation& invocation) {
  const std::vector<std::string>& command = invocation.command;
  if (command.empty()) {
    PrintError("run", invocation.has_separator ? "no command after --" : "put -- before the command",
               "rankscope run -- torchrun --nproc-per-node 8 train.py");
    return kExitUsage;
  }
  std::string job;
  std::vector<Variable> variables;
  if (!Prepare(options, command, &job, &variables)) return kExitUsage;
  const RingFolders folders = FoldersOf(job, variables);
  const bool records = !variables.empty() && variables[0].name == "NCCL_PROFILER_PLUGIN";
  const bool merges = records && !options.no_merge && !StartedOncePerRank();
  if (records) PrintNote("run", absl::StrCat("job ", job, ", rings in ", folders.Text()));

  DeepSpeedEnvironment deepspeed;
  if (records) {
    const absl::Status status = deepspeed.Write(command, variables);
    if (!status.ok()) PrintWarning("run", status.message());
    for (const std::string& note : deepspeed.notes()) PrintNote("run", note);
  }
  const absl::StatusOr<CommandEnd> end = RunCommand(command, variables);
  if (const absl::Status status = deepspeed.Restore(); !status.ok()) PrintWarning("run", status.message());
  if (!end.ok()) return FailWith("run", end.status());
  if (!end->start_error.empty()) {
    PrintError("run", end->start_error);
    return end->exit_status;
  }
  if (end->signal != 0) PrintNote("run", absl::StrCat("the command was ended by signal ", end->signal));
  if (merges) {
    MergeAndReport(options, job, folders);
  } else if (records) {
    PrintNote("run", absl::StrCat("not merged; when all have ended: rankscope merge ", folders.Text()));
  }
  return end->exit_status;
}

}  // namespace

void AddRun(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* sub = app.add_subcommand("run", "run a command with rankscope on, then merge and report");
  sub->formatter(std::make_shared<RunFormatter>());
  sub->add_option("--job", options->recording.job,
                  "the job's name; the same on all nodes (else from Slurm, else made up)");
  AddRecordingOptions(sub, &options->recording);
  sub->add_option("-o,--output", options->output, "the timeline; else <job>.rsc here, or a free name near it");
  sub->add_flag("--no-report", options->no_report, "merge, but print no report");
  sub->add_flag("--no-merge", options->no_merge, "leave the rings as they are");
  sub->add_flag("--keep-rings", options->keep_rings, "don't delete the rings that were merged");
  sub->add_flag("--force", options->force, "replace another NCCL_PROFILER_PLUGIN");
  sub->add_option("--color", options->answer.color, "auto, always, never (NO_COLOR counts)")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  sub->footer(
      "The exit status is the command's; 128 + N where signal N ended it. Signals that are sent to rankscope go to "
      "it.\n"
      "Put it before the launcher, once a node.\n"
      "Examples:\n"
      "  rankscope run -- deepspeed train.py --deepspeed_config ds.json\n"
      "  rankscope run --job night-17 -o night-17.rsc -- torchrun --nproc-per-node 8 train.py");
  sub->callback(
      [options, invocation] { invocation->action = [options, invocation] { return Run(*options, *invocation); }; });
}

}  // namespace rankscope::tools
