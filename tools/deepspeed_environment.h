// DeepSpeed's launcher over several nodes hands on what begins with NCCL or PYTHON and what stands in a file:
// .deepspeed_env, or $DS_ENV_FILE. CUDA's and NVTX's injection variables begin with neither, so `rankscope run`
// writes them into that file for the time of the job.
//
// The file is the user's: what was in it is kept, and it is put back byte for byte when the command has ended,
// however it did. A copy lies beside it meanwhile; one that is found at the start is of a run that was killed, and is
// put back first. The form is strict: one KEY=VALUE a line, no empty line, no comment (the launcher dies of one). One
// thread.
#ifndef RANKSCOPE_TOOLS_DEEPSPEED_ENVIRONMENT_H_
#define RANKSCOPE_TOOLS_DEEPSPEED_ENVIRONMENT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/environment.h"

namespace rankscope::tools {

// True where `command` is DeepSpeed's launcher and it will go over several nodes: a host file, --num_nodes above 1,
// --force_multi.
bool IsDeepSpeedOverSeveralNodes(const std::vector<std::string>& command);

class DeepSpeedEnvironment {
 public:
  DeepSpeedEnvironment() = default;
  ~DeepSpeedEnvironment();  // restores, silently
  DeepSpeedEnvironment(const DeepSpeedEnvironment&) = delete;
  DeepSpeedEnvironment& operator=(const DeepSpeedEnvironment&) = delete;

  // Does nothing where it isn't needed. An error is a sentence; the command can run all the same.
  absl::Status Write(const std::vector<std::string>& command, const std::vector<Variable>& variables);
  // Puts the file back. Does nothing the second time.
  absl::Status Restore();
  // What was done, for the user.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::string path_, backup_;
  bool written_ = false;
  std::vector<std::string> notes_;
};

}  // namespace rankscope::tools

#endif  // RANKSCOPE_TOOLS_DEEPSPEED_ENVIRONMENT_H_
