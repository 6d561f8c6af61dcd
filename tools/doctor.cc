// `rankscope doctor`: what on this machine, or in a process, keeps rankscope from recording, and what to do.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analysis/answers/report_json.h"
#include "analysis/answers/text_style.h"
#include "analysis/recording/open.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/doctor_checks.h"
#include "tools/library_path.h"
#include "tools/machine_view.h"
#include "tools/output.h"
#include "tools/ring_directory.h"
#include "tools/terminal.h"

namespace rankscope::tools {
namespace {

struct DoctorCommand {
  int pid = 0;
  std::vector<std::string> rings;
  bool json = false;
  int width = -1;
};

const char* StatusWord(CheckStatus status) {
  switch (status) {
    case CheckStatus::kOk:
      return "ok";
    case CheckStatus::kNote:
      return "note";
    case CheckStatus::kWarning:
      return "warning";
    case CheckStatus::kProblem:
      return "problem";
  }
  return "?";
}

std::string Verdict(const Diagnosis& diagnosis, int pid) {
  const auto word = [](bool can, const std::string& why) {
    return can ? std::string("yes") : absl::StrCat("no (", why, ")");
  };
  return absl::StrCat(pid == 0 ? "What can be recorded here: NCCL's operations "
                               : absl::StrCat("What can be recorded in process ", pid, ": NCCL's operations "),
                      word(diagnosis.nccl, diagnosis.nccl_why), ", kernels and copies ",
                      word(diagnosis.gpu, diagnosis.gpu_why), ", NVTX ranges ",
                      word(diagnosis.ranges, diagnosis.ranges_why), ".");
}

void AddChecks(const std::vector<Check>& checks, const answers::TextStyle& style, std::string* text) {
  for (const Check& check : checks) {
    std::string word = StatusWord(check.status);
    word.resize(8, ' ');
    absl::StrAppend(text, style.Wrap(absl::StrCat(word, check.what), 2));
    if (!check.todo.empty()) absl::StrAppend(text, style.Wrap(absl::StrCat("-> ", check.todo), 10));
  }
}

nlohmann::json ChecksJson(const std::vector<Check>& checks) {
  nlohmann::json list = nlohmann::json::array();
  for (const Check& check : checks)
    list.push_back(
        {{"id", check.id}, {"status", StatusWord(check.status)}, {"what", check.what}, {"do", check.todo}});
  return list;
}

int Doctor(const DoctorCommand& command) {
  DoctorOptions options;
  const absl::StatusOr<std::string> library = FindLibrary();
  if (library.ok()) {
    options.library = *library;
  } else {
    options.library_error = std::string(library.status().message());
  }
  options.directory = RingDirectory();
  options.pid = command.pid;
  const MachineView machine =
      command.pid == 0 ? MachineView::This() : MachineView("", MachineView::EnvironmentOf(command.pid));
  const Diagnosis diagnosis = Diagnose(machine, options);

  // What the rings say: those named, else that of the process.
  std::vector<std::string> paths = ResolvePaths(command.rings);
  if (paths.empty() && command.pid != 0) paths.push_back(RingDirectory());
  std::unique_ptr<analysis::Recording> recording;
  if (!paths.empty()) {
    absl::StatusOr<std::unique_ptr<analysis::Recording>> opened = analysis::OpenRecording(paths);
    if (opened.ok()) {
      recording = *std::move(opened);
    } else if (!command.rings.empty()) {
      return FailWith("doctor", opened.status());
    }
  }
  const answers::TextStyle style(command.width >= 0 ? command.width : TextWidth(), false);
  std::string text = absl::StrCat(Verdict(diagnosis, command.pid), "\n\n");
  AddChecks(diagnosis.checks, style, &text);
  nlohmann::json json = {
      {"schema", {{"name", "rankscope.doctor"}, {"version", 1}}},
      {"can_record", {{"nccl", diagnosis.nccl}, {"gpu", diagnosis.gpu}, {"ranges", diagnosis.ranges}}},
      {"checks", ChecksJson(diagnosis.checks)},
      {"processes", nlohmann::json::array()}};
  if (recording != nullptr) {
    for (const analysis::RankInfo& rank : recording->ranks()) {
      if (command.pid != 0 && command.rings.empty() && rank.pid != static_cast<uint32_t>(command.pid)) continue;
      const std::vector<Check> checks = DiagnoseRing(rank);
      absl::StrAppend(&text, "\nrank ", rank.rank, " on ", rank.host, ", process ", rank.pid, " (", rank.ring_path,
                      ")\n");
      AddChecks(checks, style, &text);
      json["processes"].push_back(
          {{"rank", rank.rank}, {"host", rank.host}, {"pid", rank.pid}, {"checks", ChecksJson(checks)}});
    }
  }
  Output output;
  output.Write(command.json ? answers::DumpJson(json) + "\n" : text);
  const int status = output.Finish("doctor");
  return status == kExitFine && diagnosis.has_problem() ? kExitFound : status;
}

}  // namespace

void AddDoctor(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<DoctorCommand>();
  CLI::App* sub = app.add_subcommand("doctor", "what keeps rankscope from recording here, and what to do");
  sub->add_option("RING", options->rings,
                  "rings, folders of rings or a job's name: what they say of their processes");
  sub->add_option("--pid", options->pid, "look at this running process")->check(CLI::PositiveNumber);
  sub->add_flag("--json", options->json, "for programs (docs/json.md)");
  sub->add_option("--width", options->width, "columns of the text; 0 = no limit")->check(CLI::NonNegativeNumber);
  sub->footer(
      "The exit status is 1 if there is a problem.\n"
      "Examples:\n"
      "  rankscope doctor\n"
      "  rankscope doctor --pid $(pgrep -f train.py | head -n 1)");
  sub->callback([options, invocation] { invocation->action = [options] { return Doctor(*options); }; });
}

}  // namespace rankscope::tools
