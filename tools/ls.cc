// `rankscope ls`: the rings on this node, job by job, live or left over.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "analysis/answers/format.h"
#include "analysis/answers/report_json.h"
#include "analysis/answers/text_table.h"
#include "analysis/recording/open.h"
#include "analysis/recording/ring_set.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/output.h"
#include "tools/ring_directory.h"
#include "tools/terminal.h"

namespace rankscope::tools {
namespace {

namespace fs = std::filesystem;
using analysis::RankInfo;

struct LsOptions {
  std::string directory;
  bool json = false;
};

// What there is where nothing was recorded.
class NoRecording : public analysis::Recording {
 public:
  const std::vector<RankInfo>& ranks() const override { return ranks_; }
  const std::vector<analysis::HostClockInfo>& clocks() const override { return clocks_; }
  const std::vector<std::string>& warnings() const override { return warnings_; }
  std::unique_ptr<analysis::EventStream> Events(analysis::KindMask) const override { return nullptr; }
  std::vector<std::unique_ptr<analysis::EventSource>> Sources(analysis::KindMask) const override { return {}; }

 private:
  std::vector<RankInfo> ranks_;
  std::vector<analysis::HostClockInfo> clocks_;
  std::vector<std::string> warnings_;
};

// The job's name is its folder's: that is what the user can type.
std::string JobOf(const RankInfo& rank) { return fs::path(rank.ring_path).parent_path().filename().string(); }

uint64_t CommittedEvents(const RankInfo& rank) {
  uint64_t sum = 0;
  for (const analysis::KindCountInfo& kind : rank.kinds) sum += kind.committed;
  return sum;
}

std::string StateOf(const RankInfo& rank) { return rank.closed ? "closed" : rank.alive ? "alive" : "gone"; }

// Since the last event; since the start where there was none.
std::string AgeOf(const RankInfo& rank) {
  const int64_t last = rank.last_event_ns != 0 ? rank.last_event_ns : rank.start_ns;
  return last <= 0 || rank.read_ns < last ? "" : answers::FormatDuration(rank.read_ns - last);
}

std::string ListText(const analysis::Recording& recording) {
  std::map<std::string, std::vector<const RankInfo*>> jobs;
  for (const RankInfo& rank : recording.ranks()) jobs[JobOf(rank)].push_back(&rank);
  std::string text;
  for (const auto& [job, ranks] : jobs) {
    uint64_t bytes = 0;
    size_t alive = 0;
    for (const RankInfo* rank : ranks) {
      bytes += rank->ring_bytes;
      alive += rank->alive ? 1 : 0;
    }
    absl::StrAppend(&text, job, ": ", answers::Plural(ranks.size(), "ring"), ", ", alive, " alive, ",
                    answers::FormatBytes(bytes), "\n");
    answers::TextTable table;
    for (const char* title : {"RANK", "PID"}) table.AddColumn(title);
    for (const char* title : {"HOST", "STATE"}) table.AddColumn(title, answers::TextTable::Align::kLeft);
    for (const char* title : {"EVENTS", "LAST EVENT", "RING"}) table.AddColumn(title);
    for (const RankInfo* rank : ranks) {
      table.AddRow({rank->rank < 0 ? "?" : absl::StrCat(rank->rank), absl::StrCat(rank->pid), rank->host,
                    StateOf(*rank), answers::FormatCount(CommittedEvents(*rank)),
                    AgeOf(*rank).empty() ? "" : absl::StrCat(AgeOf(*rank), " ago"),
                    answers::FormatBytes(rank->ring_bytes)});
    }
    absl::StrAppend(&text, table.Render(2, 0), "\n");
  }
  return text;
}

int Ls(const LsOptions& options) {
  const bool named = !options.directory.empty();
  const std::string directory = named ? ResolvePaths({options.directory})[0] : RingDirectory();
  std::error_code error;
  if (named && !fs::is_directory(directory, error)) {
    PrintError("ls", absl::StrCat(directory, " is not a folder"),
               "rankscope ls, without a folder, shows this node's");
    return kExitBadInput;
  }
  const absl::StatusOr<std::vector<std::string>> rings = analysis::FindRings(directory);
  // That nothing was recorded yet is an answer, not an error.
  if (!rings.ok() || rings->empty()) {
    if (rings.ok() || !fs::exists(directory, error)) {
      PrintNote("ls", absl::StrCat("no rings in ", directory));
      Output output;
      if (options.json) output.Write(absl::StrCat(answers::DumpJson(answers::RanksToJson(NoRecording())), "\n"));
      return output.Finish("ls");
    }
    return FailWith("ls", rings.status());
  }
  Progress progress("reading rings");
  analysis::OpenOptions open_options;
  open_options.progress = progress.Share();
  const auto recording = analysis::OpenRecording(*rings, open_options);
  if (!recording.ok()) return FailWith("ls", recording.status());
  Output output;
  if (options.json) {
    output.Write(absl::StrCat(answers::DumpJson(answers::RanksToJson(**recording)), "\n"));
  } else {
    for (const std::string& warning : (*recording)->warnings()) {
      // Several jobs side by side, and a rank twice among them, are what one expects here.
      if (warning.find("left out") == 0) PrintWarning("ls", warning);
    }
    output.Write(ListText(**recording));
  }
  return output.Finish("ls");
}

}  // namespace

void AddLs(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<LsOptions>();
  CLI::App* sub = app.add_subcommand("ls", "list the rings on this node");
  sub->add_option("DIR", options->directory,
                  "a folder of rings, or of jobs' folders (else RANKSCOPE_DIR, else "
                  "/dev/shm/rankscope-<uid>)");
  sub->add_flag("--json", options->json, "for programs; docs/json.md has the shape");
  sub->footer(
      "A ring stays until it is deleted; `run` deletes those that it has merged.\n"
      "Example:\n"
      "  rankscope ls\n"
      "  rm -r /dev/shm/rankscope-$(id -u)/OLD_JOB");
  sub->callback([options, invocation] { invocation->action = [options] { return Ls(*options); }; });
}

}  // namespace rankscope::tools
