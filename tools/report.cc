// `rankscope report`: the whole answer to one recording.
#include "analysis/answers/report.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "absl/strings/str_cat.h"
#include "analysis/answers/report_json.h"
#include "analysis/answers/report_text.h"
#include "tools/answer.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/output.h"
#include "tools/terminal.h"

namespace rankscope::tools {
namespace {

bool IsFinding(const answers::Report& report) {
  return report.skew.verdict == answers::SkewVerdict::kStragglers ||
         report.hang.verdict != answers::HangVerdict::kNothingWaits || !report.mismatches.empty();
}

int RunReport(const AnswerOptions& options) {
  std::string opened;
  const auto recording = OpenAligned(options.paths, &opened);
  if (!recording.ok()) return FailWith("report", recording.status());
  const answers::Report report = BuildWithProgress(**recording);
  Output output;
  output.Write(options.json ? absl::StrCat(answers::DumpJson(answers::ToJson(report)), "\n")
                            : answers::RenderText(report, TextOptionsFor(options, opened)));
  const int status = output.Finish("report");
  return status == kExitFine && options.check && IsFinding(report) ? kExitFound : status;
}

}  // namespace

void AddReport(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<AnswerOptions>();
  CLI::App* sub =
      app.add_subcommand("report", "the whole answer: the job, its operations, who others wait for, losses");
  AddAnswerOptions(*sub, options.get(),
                   "exit status 1 if a rank stands out, ranks disagree on an operation, or somebody waits");
  sub->footer(
      "Example:\n"
      "  rankscope report job.rsc\n"
      "  rankscope report --json job.rsc | python3 -m json.tool");
  sub->callback([options, invocation] { invocation->action = [options] { return RunReport(*options); }; });
}

}  // namespace rankscope::tools
