// What `report`, `skew` and `hang` share: their options, and the opening of recordings. See commands.h and answer.h.
#include "tools/answer.h"

#include <CLI/CLI.hpp>

#include "absl/strings/str_join.h"
#include "analysis/alignment/aligned_recording.h"
#include "analysis/recording/open.h"
#include "tools/commands.h"
#include "tools/environment.h"
#include "tools/ring_directory.h"
#include "tools/terminal.h"

namespace rankscope::tools {

void AddAnswerOptions(CLI::App& app, AnswerOptions* options, const std::string& check_help) {
  app.add_option(
      "PATH", options->paths,
      "a timeline (.rsc), rings, folders of rings, or the name of a job on this node; without any: the only "
      "job on this node");
  app.add_flag("--json", options->json, "for programs; docs/json.md has the shape");
  if (!check_help.empty()) app.add_flag("--check", options->check, check_help);
  app.add_option("--color", options->color, "auto, always, never (NO_COLOR counts)")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_option("--width", options->width, "columns of the text; 0 = lines are not wrapped")
      ->check(CLI::Range(0, 1000));
  app.add_option("--rows", options->rows, "rows of each table")->check(CLI::Range(1, 1000000));
}

absl::StatusOr<std::unique_ptr<analysis::Recording>> OpenNamed(const std::vector<std::string>& paths,
                                                               std::string* opened) {
  std::vector<std::string> resolved = ResolvePaths(paths);
  if (resolved.empty()) {
    absl::StatusOr<std::string> job = TheOnlyJob();
    if (!job.ok()) return job.status();
    resolved.push_back(*job);
  }
  std::vector<std::string> words;
  for (const std::string& path : resolved) words.push_back(ShellQuote(path));
  *opened = absl::StrJoin(words, " ");
  Progress progress("reading");
  analysis::OpenOptions options;
  options.progress = progress.Share();
  return analysis::OpenRecording(resolved, options);
}

absl::StatusOr<std::unique_ptr<analysis::Recording>> OpenAligned(const std::vector<std::string>& paths,
                                                                 std::string* opened) {
  absl::StatusOr<std::unique_ptr<analysis::Recording>> recording = OpenNamed(paths, opened);
  if (!recording.ok()) return recording;
  Progress progress("aligning clocks");
  alignment::AlignOptions options;
  options.progress = progress.Count("events");
  return alignment::AlignHosts(*std::move(recording), options);
}

answers::Report BuildWithProgress(const analysis::Recording& recording) {
  Progress progress("matching operations");
  answers::ReportOptions options;
  options.progress = progress.Count("events");
  return answers::BuildReport(recording, options);
}

answers::TextOptions TextOptionsFor(const AnswerOptions& options, const std::string& opened) {
  answers::TextOptions text;
  text.width = options.width >= 0 ? options.width : TextWidth();
  text.color = WantsColor(options.color);
  text.rows = options.rows;
  text.timeline = opened;
  return text;
}

}  // namespace rankscope::tools
