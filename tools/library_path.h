// Where librankscope.so is, as an absolute path that NCCL can open.
#ifndef RANKSCOPE_TOOLS_LIBRARY_PATH_H_
#define RANKSCOPE_TOOLS_LIBRARY_PATH_H_

#include <string>

#include "absl/status/statusor.h"

namespace rankscope::tools {

// RANKSCOPE_LIBRARY if it is set, else ../lib or ../lib64 beside the program's folder, else the program's folder.
// NCCL cuts names at 255 bytes: a longer path is an error.
absl::StatusOr<std::string> FindLibrary();

// The folder of the Python hook (sitecustomize.py), which lies beside the library.
absl::StatusOr<std::string> FindHook(const std::string& library);

}  // namespace rankscope::tools

#endif  // RANKSCOPE_TOOLS_LIBRARY_PATH_H_
