// `rankscope import`: what others recorded as one timeline.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analysis/alignment/aligned_recording.h"
#include "analysis/answers/format.h"
#include "analysis/importers/imported_recording.h"
#include "analysis/importers/torch_profiler.h"
#include "analysis/recording/clean_text.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/environment.h"
#include "tools/merge.h"
#include "tools/terminal.h"

namespace rankscope::tools {
namespace {

namespace fs = std::filesystem;

constexpr char kVerb[] = "import";

struct ImportOptions {
  std::vector<std::string> paths;
  std::string output, job;
};

bool IsTraceName(const std::string& name) {
  return absl::EndsWith(name, ".json") || absl::EndsWith(name, ".json.gz");
}

// The traces that the user named; those of a folder by their names, in order.
absl::StatusOr<std::vector<std::string>> FindTraces(const std::vector<std::string>& paths) {
  std::vector<std::string> traces;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      traces.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    fs::directory_iterator it(path, error);
    if (error)
      return absl::PermissionDeniedError(absl::StrCat("cannot read the folder ", path, ": ", error.message()));
    for (; it != fs::directory_iterator(); it.increment(error)) {
      if (error) break;
      if (it->is_regular_file(error) && IsTraceName(it->path().filename().string()))
        found.push_back(it->path().string());
    }
    if (found.empty()) {
      return absl::NotFoundError(absl::StrCat("there is no trace (*.json, *.json.gz) in the folder ", path));
    }
    std::sort(found.begin(), found.end());
    traces.insert(traces.end(), found.begin(), found.end());
  }
  return traces;
}

// One trace a rank; a single trace may leave it open.
absl::Status CheckRank(analysis::ImportedRank* rank, size_t traces, std::map<int32_t, std::string>* taken) {
  const std::string& path = rank->info.ring_path;
  if (rank->info.rank < 0) {
    if (traces > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot tell which rank ", path,
                       " is of: the trace does not say; put it into the file's name, as in rank3.json"));
    }
    rank->info.rank = 0;
    rank->warnings.push_back(absl::StrCat(path, " does not say which rank it is of; it is taken as rank 0"));
  }
  const auto [other, is_new] = taken->emplace(rank->info.rank, path);
  if (is_new) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, " and ", other->second, " are both of rank ", rank->info.rank, "; give one trace a rank"));
}

absl::Status ImportAll(const std::vector<std::string>& traces, analysis::ImportedRecording* recording) {
  std::map<int32_t, std::string> taken;
  Progress progress("importing");
  const std::function<void(double)> share = progress.Share();
  for (size_t i = 0; i < traces.size(); ++i) {
    auto rank = analysis::ImportTorchTrace(
        traces[i], [&](double done) { share((static_cast<double>(i) + done) / static_cast<double>(traces.size())); });
    if (!rank.ok()) return rank.status();
    if (const absl::Status status = CheckRank(&*rank, traces.size(), &taken); !status.ok()) return status;
    if (const absl::Status status = recording->Add(*std::move(rank)); !status.ok()) return status;
  }
  return absl::OkStatus();
}

int Import(const ImportOptions& options) {
  const auto traces = FindTraces(options.paths);
  if (!traces.ok()) return FailWith(kVerb, traces.status());
  std::string output = options.output;
  if (output.empty()) {
    output = FreeTimelineName(options.job.empty() ? "imported" : options.job);
  }
  std::error_code error;
  for (const std::string& trace : *traces) {
    if (fs::equivalent(trace, output, error)) {
      PrintError(kVerb, absl::StrCat("-o ", output, " is one of the inputs"));
      return kExitUsage;
    }
  }
  if (fs::is_directory(output, error)) {
    PrintError(kVerb, absl::StrCat("-o ", output, " is a folder; give a file's name"));
    return kExitUsage;
  }
  const std::string folder = fs::path(output).parent_path().string();
  analysis::ImportedRecording recording(folder.empty() ? "." : folder);
  if (const absl::Status status = ImportAll(*traces, &recording); !status.ok()) return FailWith(kVerb, status);
  recording.Finish(options.job.empty() ? "imported" : options.job);
  for (const std::string& warning : recording.warnings()) PrintWarning(kVerb, warning);
  std::unique_ptr<analysis::Recording> aligned;
  {
    Progress progress("aligning clocks");
    alignment::AlignOptions align_options;
    align_options.progress = progress.Count("events");
    aligned = alignment::AlignHosts(recording, align_options);
  }
  const analysis::Recording& result = aligned == nullptr ? recording : *aligned;
  if (const absl::Status status = WriteWithProgress(kVerb, result, output); !status.ok())
    return FailWith(kVerb, status);
  PrintNote(kVerb, absl::StrCat("next: rankscope report ", ShellQuote(output)));
  return kExitFine;
}

}  // namespace

void AddImport(CLI::App& app, Invocation* invocation) {
  CLI::App* sub = app.add_subcommand("import", "traces that other tools made, as one timeline");
  sub->require_subcommand(1);
  auto options = std::make_shared<ImportOptions>();
  CLI::App* torch = sub->add_subcommand("torch-profiler", "traces of torch.profiler, one a rank");
  torch->add_option("PATH", options->paths, "traces (JSON, plain or gzip), or folders of them")->required();
  torch->add_option("-o,--output", options->output, "the timeline; else imported.rsc, or a free name near it");
  torch->add_option("--job", options->job, "the job's name in answers, and of the timeline");
  torch->footer(
      "A trace's rank is what it says itself, else what its name says (rank3.json).\n"
      "Example:\n"
      "  rankscope import torch-profiler traces/ -o job.rsc && rankscope report job.rsc");
  torch->callback([options, invocation] { invocation->action = [options] { return Import(*options); }; });
}

}  // namespace rankscope::tools
