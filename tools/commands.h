// The subcommands: each file adds one to the command line and does it. main.cc only dispatches.
//
// Add… describes the subcommand to CLI11 and sets Invocation::action when it is the one that was typed. An action
// returns the exit status (diagnostics.h) and runs after the command line has been read.
#ifndef RANKSCOPE_TOOLS_COMMANDS_H_
#define RANKSCOPE_TOOLS_COMMANDS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "analysis/model.h"

namespace CLI {
class App;
}

namespace rankscope::tools {

struct Invocation {
  bool has_separator = false;        // "--" was typed
  std::vector<std::string> command;  // what came after it
  std::function<int()> action;
};

void AddRun(CLI::App& app, Invocation* invocation);
void AddEnv(CLI::App& app, Invocation* invocation);
void AddLs(CLI::App& app, Invocation* invocation);
void AddDump(CLI::App& app, Invocation* invocation);
void AddMerge(CLI::App& app, Invocation* invocation);
void AddImport(CLI::App& app, Invocation* invocation);
void AddReport(CLI::App& app, Invocation* invocation);
void AddSkew(CLI::App& app, Invocation* invocation);
void AddPhases(CLI::App& app, Invocation* invocation);
void AddHang(CLI::App& app, Invocation* invocation);
void AddDoctor(CLI::App& app, Invocation* invocation);

// What the subcommands that answer have in common.
struct AnswerOptions {
  std::vector<std::string> paths;
  bool json = false;
  bool check = false;
  std::string color = "auto";
  int width = -1;  // -1: the terminal's
  size_t rows = 20;
};
// Adds PATH…, --json, --color, --width, --rows; and --check, which `check_help` explains, unless it is empty.
void AddAnswerOptions(CLI::App& app, AnswerOptions* options, const std::string& check_help);

// Opens what the user named (ring_directory.h: job names, and the only job where nothing is named) with progress on
// the terminal. `opened` gets the path as the user would type it again.
absl::StatusOr<std::unique_ptr<analysis::Recording>> OpenNamed(const std::vector<std::string>& paths,
                                                               std::string* opened);

}  // namespace rankscope::tools

#endif  // RANKSCOPE_TOOLS_COMMANDS_H_
