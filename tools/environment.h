// The environment that turns rankscope on, and how each launcher wants it written.
//
// Used by `run` and `env`. What launchers forward and how they quote: docs/environment.md.
#ifndef RANKSCOPE_TOOLS_ENVIRONMENT_H_
#define RANKSCOPE_TOOLS_ENVIRONMENT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rankscope::tools {

struct Variable {
  std::string name, value;
};

// What the user chose; empty = not chosen. The flags of `run` and `env` that both have.
struct RecordingOptions {
  std::string job, directory, events, gpu_events, ring_bytes;
  bool no_gpu = false, no_nvtx = false;  // leave CUDA's or NVTX's injection variable alone
  bool preload = false;                  // LD_PRELOAD: files, call sites
  bool hook = false;                     // put the Python hook's folder on PYTHONPATH
};

// NCCL_PROFILER_PLUGIN first, then CUDA's and NVTX's injection variables, which name the same library: where the user
// has set one of these two to something else it is left as it is (OtherInjections tells). Settings come twice, as
// RANKSCOPE_X and as NCCL_RANKSCOPE_X: some launchers forward only names that begin with NCCL, and where both are
// there the first wins. Settings that the user has in the environment already are mirrored likewise. An error is a
// value that can't be used.
absl::StatusOr<std::vector<Variable>> RecordingVariables(const std::string& library, const RecordingOptions& options);

// A sentence for each injection variable that the user has set to another library.
std::vector<std::string> OtherInjections(const std::string& library, const RecordingOptions& options);

enum class EnvironmentFormat { kShell, kTorchrun, kAccelerate, kDeepSpeed, kSlurm, kMpirun, kDocker, kKubernetes };

// By the user's word for it; false for an unknown one.
bool ParseEnvironmentFormat(absl::string_view word, EnvironmentFormat* format);
// The words, for messages: "shell, torchrun, ...".
std::string EnvironmentFormatWords();

// The lines to paste, and nothing else: .deepspeed_env takes no comment and no empty line.
std::string FormatVariables(const std::vector<Variable>& variables, EnvironmentFormat format);

// What to know when pasting; shown on stderr. `variables` may hold a value that this launcher spoils.
std::vector<std::string> FormatNotes(const std::vector<Variable>& variables, EnvironmentFormat format);

// A word as a POSIX shell takes it; unchanged where it needs no quotes.
std::string ShellQuote(absl::string_view word);

// Whether NCCL_PROFILER_PLUGIN=`value` means this library.
bool IsOurPlugin(absl::string_view value, absl::string_view library);

}  // namespace rankscope::tools

#endif  // RANKSCOPE_TOOLS_ENVIRONMENT_H_
