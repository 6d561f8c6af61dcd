// What the program says beside its answer, and how it ends: one clear sentence on stderr, a hint, an exit status.
//
// Used by every subcommand, on the main thread. Answers go to stdout (output.h), never here.
#ifndef RANKSCOPE_TOOLS_DIAGNOSTICS_H_
#define RANKSCOPE_TOOLS_DIAGNOSTICS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace rankscope::tools {

// `run` is the exception: it ends as its command ended, 128 + N for a signal N, 126 and 127 where it can't be
// started.
enum ExitStatus : int {
  kExitFine = 0,
  kExitFound = 1,     // --check was given, and there is something to look at
  kExitUsage = 2,     // the command line can't be understood
  kExitBadInput = 3,  // a file can't be read or written, or is not what it should be
};

// "rankscope VERB: error: MESSAGE", and "hint: HINT" on a line of its own unless it is empty.
void PrintError(absl::string_view verb, absl::string_view message, absl::string_view hint = "");
void PrintWarning(absl::string_view verb, absl::string_view message);
void PrintNote(absl::string_view verb, absl::string_view message);

// Prints the status as an error; kExitBadInput.
int FailWith(absl::string_view verb, const absl::Status& status, absl::string_view hint = "");

}  // namespace rankscope::tools

#endif  // RANKSCOPE_TOOLS_DIAGNOSTICS_H_
