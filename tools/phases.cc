// `rankscope phases`: where the host's time goes, and what the GPUs did.
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

int Phases(const AnswerOptions& options) {
  std::string opened;
  const auto recording = OpenNamed(options.paths, &opened);
  if (!recording.ok()) return FailWith("phases", recording.status());
  const answers::Report report = BuildWithProgress(**recording);
  Output output;
  output.Write(options.json ? absl::StrCat(answers::DumpJson(answers::PhasesToJson(report)), "\n")
                            : answers::RenderPhasesText(report, TextOptionsFor(options, opened)));
  return output.Finish("phases");
}

}  // namespace

void AddPhases(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<AnswerOptions>();
  CLI::App* sub = app.add_subcommand("phases", "where the host's time goes, and what the GPUs did");
  AddAnswerOptions(*sub, options.get(), "");
  sub->footer(
      "Example:\n"
      "  rankscope phases --rows 50 job.rsc");
  sub->callback([options, invocation] { invocation->action = [options] { return Phases(*options); }; });
}

}  // namespace rankscope::tools
