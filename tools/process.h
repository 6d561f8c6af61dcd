// Running a command as if it had been started directly: signals go to it, its end is our end.
//
// Called once, by `run`, on the only thread there is. Must never: change what the command inherits (signal mask,
// dispositions, descriptors), take signals from it that the terminal sends to both, or end before it does.
#ifndef RANKSCOPE_TOOLS_PROCESS_H_
#define RANKSCOPE_TOOLS_PROCESS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/environment.h"

namespace rankscope::tools {

struct CommandEnd {
  int exit_status = 0;      // as a shell gives it: the command's, 128 + N for a signal, 126 or 127 not started
  int signal = 0;           // that ended it; 0 = none
  std::string start_error;  // why it could not be started; empty = it was
};

// SIGPIPE is ignored in this program (output.h); called first of all, it remembers what the command is to inherit.
void IgnoreBrokenPipes();

// Runs argv[0], found in PATH, with `variables` added to the environment. An error only if there can be no process.
absl::StatusOr<CommandEnd> RunCommand(const std::vector<std::string>& argv, const std::vector<Variable>& variables);

}  // namespace rankscope::tools

#endif  // RANKSCOPE_TOOLS_PROCESS_H_
