// See library_path.h.
#include "tools/library_path.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace rankscope::tools {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNcclNameLimit = 255;  // MAX_STR_LEN of NCCL's src/plugin/plugin_open.cc

absl::StatusOr<std::string> Usable(const fs::path& path) {
  std::error_code error;
  // Links stay as they are: /opt/rankscope/lib may be one on every node, to a place of its own on each.
  const std::string full = fs::absolute(path, error).string();
  if (!fs::is_regular_file(full, error)) return absl::NotFoundError(absl::StrCat(full, " is not a file"));
  if (full.size() > kNcclNameLimit) {
    return absl::InvalidArgumentError(absl::StrCat("the library's path has ", full.size(),
                                                   " characters, NCCL takes 255; move it, or link to it: ", full));
  }
  return full;
}

}  // namespace

absl::StatusOr<std::string> FindLibrary() {
  if (const char* named = std::getenv("RANKSCOPE_LIBRARY"); named != nullptr && *named != '\0') {
    absl::StatusOr<std::string> path = Usable(named);
    if (path.ok()) return path;
    return absl::Status(path.status().code(), absl::StrCat("RANKSCOPE_LIBRARY: ", path.status().message()));
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return absl::NotFoundError("/proc/self/exe can't be read; set RANKSCOPE_LIBRARY to librankscope.so");
  const fs::path folder = program.parent_path();
  for (const char* place : {"../lib", "../lib64", "."}) {
    const fs::path candidate = folder / place / "librankscope.so";
    if (fs::exists(candidate, error)) return Usable(candidate.lexically_normal());
  }
  return absl::NotFoundError(absl::StrCat("librankscope.so is not in ",
                                          (folder / "../lib").lexically_normal().string(),
                                          "; set RANKSCOPE_LIBRARY to where it is"));
}

absl::StatusOr<std::string> FindHook(const std::string& library) {
  std::error_code error;
  const fs::path folder = fs::path(library).parent_path() / "rankscope-hook";
  if (fs::is_regular_file(folder / "sitecustomize.py", error)) return folder.string();
  return absl::NotFoundError(absl::StrCat("the Python hook is not in ", folder.string(),
                                          "; it lies beside librankscope.so, or leave --hook out"));
}

}  // namespace rankscope::tools
