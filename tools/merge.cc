// `rankscope merge`: rings into one timeline. See merge.h.
#include "tools/merge.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analysis/answers/format.h"
#include "analysis/recording/timeline_writer.h"
#include "tools/answer.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/environment.h"
#include "tools/ring_directory.h"
#include "tools/terminal.h"

namespace rankscope::tools {
namespace {

namespace fs = std::filesystem;

struct MergeOptions {
  std::vector<std::string> paths;
  std::string output;
};

// Rings can't be had again: a slip of the fingers must not write a timeline over one of them.
absl::Status CheckOutput(const MergeOptions& options) {
  std::error_code error;
  if (fs::is_directory(options.output, error)) {
    return absl::InvalidArgumentError(absl::StrCat("-o ", options.output, " is a folder; give a file's name"));
  }
  if (absl::EndsWith(options.output, ".ring")) {
    return absl::InvalidArgumentError(
        absl::StrCat("-o ", options.output, " ends in .ring; a timeline's name ends in .rsc"));
  }
  for (const std::string& path : options.paths) {
    if (fs::equivalent(path, options.output, error)) {
      return absl::InvalidArgumentError(absl::StrCat("-o ", options.output, " is one of the inputs"));
    }
  }
  return absl::OkStatus();
}

int Merge(const MergeOptions& options) {
  std::string opened;
  if (const absl::Status status = CheckOutput(options); !status.ok()) {
    PrintError("merge", status.message());
    return kExitUsage;
  }
  const auto recording = OpenAligned(options.paths, &opened);
  if (!recording.ok()) return FailWith("merge", recording.status());
  for (const std::string& warning : (*recording)->warnings()) PrintWarning("merge", warning);
  std::string output = options.output;
  if (output.empty()) {
    const auto& ranks = (*recording)->ranks();
    output = FreeTimelineName(ranks.empty() || ranks[0].job.empty() ? "job" : SafeJobName(ranks[0].job));
  }
  const absl::Status status = WriteWithProgress("merge", **recording, output);
  if (!status.ok()) return FailWith("merge", status);
  PrintNote("merge", absl::StrCat("next: rankscope report ", ShellQuote(output)));
  return kExitFine;
}

}  // namespace

absl::Status WriteWithProgress(absl::string_view verb, const analysis::Recording& recording,
                               const std::string& path) {
  absl::StatusOr<analysis::WriteResult> result;
  {
    Progress progress("merging");
    analysis::WriteOptions options;
    options.progress = progress.Share();
    result = analysis::WriteTimeline(recording, path, options);
  }
  if (!result.ok()) return result.status();
  const size_t processes = recording.ranks().size();
  PrintNote(verb, absl::StrCat("wrote ", path, ": ", answers::FormatCount(result->events), " events of ", processes,
                               processes == 1 ? " process, " : " processes, ", answers::FormatBytes(result->bytes)));
  return absl::OkStatus();
}

std::string FreeTimelineName(const std::string& job) {
  std::string name = absl::StrCat(job, ".rsc");
  std::error_code error;
  for (int i = 2; fs::exists(name, error); ++i) name = absl::StrCat(job, ".", i, ".rsc");
  return name;
}

void AddMerge(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<MergeOptions>();
  CLI::App* sub = app.add_subcommand("merge", "rings into one timeline");
  sub->add_option(
      "PATH", options->paths,
      "rings, folders of rings, or the name of a job on this node; without any: the only job on this node");
  sub->add_option("-o,--output", options->output, "the timeline; else <job>.rsc, or a free name near it");
  sub->footer(
      "Rings of several nodes: copy them to one place first, one folder a node.\n"
      "Example:\n"
      "  rankscope merge /shared/rings/node-*/ -o job.rsc");
  sub->callback([options, invocation] { invocation->action = [options] { return Merge(*options); }; });
}

}  // namespace rankscope::tools
