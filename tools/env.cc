// `rankscope env`: the variables that turn rankscope on, written as a launcher wants them.
#include <CLI/CLI.hpp>
#include <memory>

#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/environment.h"
#include "tools/library_path.h"
#include "tools/output.h"
#include "tools/recording_options.h"

namespace rankscope::tools {
namespace {

struct EnvOptions {
  std::string format = "shell";
  RecordingOptions recording;
};

int Env(const EnvOptions& options) {
  EnvironmentFormat format = EnvironmentFormat::kShell;
  if (!ParseEnvironmentFormat(options.format, &format)) {
    PrintError("env", "--for " + options.format + " is not known", "one of " + EnvironmentFormatWords());
    return kExitUsage;
  }
  const absl::StatusOr<std::string> library = FindLibrary();
  if (!library.ok()) return FailWith("env", library.status());
  const absl::StatusOr<std::vector<Variable>> variables = RecordingVariables(*library, options.recording);
  if (!variables.ok()) {
    PrintError("env", variables.status().message());
    return kExitUsage;
  }
  for (const std::string& note : OtherInjections(*library, options.recording)) PrintNote("env", note);
  for (const std::string& note : FormatNotes(*variables, format)) PrintNote("env", note);
  Output output;
  output.Write(FormatVariables(*variables, format));
  return output.Finish("env");
}

}  // namespace

void AddEnv(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<EnvOptions>();
  CLI::App* sub = app.add_subcommand("env", "print the variables that turn rankscope on");
  sub->add_option("--for", options->format, "how to write them: " + EnvironmentFormatWords());
  sub->add_option("--job", options->recording.job, "the job's name; the same on all nodes");
  AddRecordingOptions(sub, &options->recording);
  sub->footer(
      "The lines go to stdout, what to do with them to stderr.\n"
      "Examples:\n"
      "  eval \"$(rankscope env)\"                              this shell and what it starts\n"
      "  rankscope env --for deepspeed >> .deepspeed_env      DeepSpeed over several nodes\n"
      "  mpirun $(rankscope env --for mpirun) -np 16 ...      Open MPI");
  sub->callback([options, invocation] { invocation->action = [options] { return Env(*options); }; });
}

}  // namespace rankscope::tools
