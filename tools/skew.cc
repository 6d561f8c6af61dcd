// `rankscope skew`: who others wait for, and in which operations most.
#include <CLI/CLI.hpp>
#include <memory>

#include "absl/strings/str_cat.h"
#include "analysis/answers/report_json.h"
#include "analysis/answers/report_text.h"
#include "tools/answer.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/output.h"

namespace rankscope::tools {
namespace {

int Skew(const AnswerOptions& options) {
  std::string opened;
  const auto recording = OpenAligned(options.paths, &opened);
  if (!recording.ok()) return FailWith("skew", recording.status());
  const answers::Report report = BuildWithProgress(**recording);
  Output output;
  output.Write(options.json ? absl::StrCat(answers::DumpJson(answers::SkewToJson(report)), "\n")
                            : answers::RenderSkewText(report, TextOptionsFor(options, opened)));
  const int status = output.Finish("skew");
  const bool found = report.skew.verdict == answers::SkewVerdict::kStragglers;
  return status == kExitFine && options.check && found ? kExitFound : status;
}

}  // namespace

void AddSkew(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<AnswerOptions>();
  CLI::App* sub = app.add_subcommand("skew", "who others wait for, and in which operations most");
  AddAnswerOptions(*sub, options.get(), "exit status 1 if a rank stands out");
  sub->footer(
      "Example:\n"
      "  rankscope skew --rows 50 job.rsc");
  sub->callback([options, invocation] { invocation->action = [options] { return Skew(*options); }; });
}

}  // namespace rankscope::tools
