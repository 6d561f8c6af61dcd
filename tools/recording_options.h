// The options of `run` and `env` that say what is recorded: one list for both.
#ifndef RANKSCOPE_TOOLS_RECORDING_OPTIONS_H_
#define RANKSCOPE_TOOLS_RECORDING_OPTIONS_H_

#include <CLI/CLI.hpp>

#include "tools/environment.h"

namespace rankscope::tools {

// All but --job, which means something else in each. `options` must outlive the parse.
void AddRecordingOptions(CLI::App* command, RecordingOptions* options);

}  // namespace rankscope::tools

#endif  // RANKSCOPE_TOOLS_RECORDING_OPTIONS_H_
