// `rankscope hang`: what everybody waits for; of live rings, of a dead job's, or of a timeline.
#include "analysis/answers/hang.h"

#include <CLI/CLI.hpp>
#include <cmath>
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

struct HangCommandOptions {
  AnswerOptions answer;
  double least_age_s = 1;
};

int Hang(const HangCommandOptions& options) {
  std::string opened;
  const auto recording = OpenNamed(options.answer.paths, &opened);
  if (!recording.ok()) return FailWith("hang", recording.status());
  const auto& ranks = (*recording)->ranks();
  if (!ranks.empty() && (ranks[0].doors & schema::kDoorTrace) != 0) {
    return FailWith("hang", absl::InvalidArgumentError(absl::StrCat(
                                opened,
                                " was imported from torch.profiler, which keeps finished work only; what a "
                                "job hangs in is in the rings that rankscope run leaves")));
  }
  answers::HangOptions hang_options;
  hang_options.least_age_ns = std::llround(options.least_age_s * 1e9);
  const answers::HangReport report = answers::BuildHangReport(**recording, hang_options);
  Output output;
  output.Write(options.answer.json ? absl::StrCat(answers::DumpJson(answers::ToJson(report)), "\n")
                                   : answers::RenderHangText(report, TextOptionsFor(options.answer, opened)));
  const int status = output.Finish("hang");
  const bool found = report.verdict != answers::HangVerdict::kNothingWaits;
  return status == kExitFine && options.answer.check && found ? kExitFound : status;
}

}  // namespace

void AddHang(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<HangCommandOptions>();
  CLI::App* sub =
      app.add_subcommand("hang", "what everybody waits for: which ranks have not reached which operation");
  AddAnswerOptions(*sub, &options->answer, "exit status 1 if somebody waits");
  sub->add_option("--after", options->least_age_s,
                  "of a job that runs: only operations that somebody has been in for so many seconds")
      ->check(CLI::Range(0.0, 1e6));
  sub->footer(
      "Works while the job hangs, and on what a killed job left on the node.\n"
      "Example:\n"
      "  rankscope hang\n"
      "  rankscope hang --json /dev/shm/rankscope-$(id -u)/JOB");
  sub->callback([options, invocation] { invocation->action = [options] { return Hang(*options); }; });
}

}  // namespace rankscope::tools
