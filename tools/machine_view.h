// What `rankscope doctor` looks at: files, the environment, libraries. Through here, so that tests can plant a
// machine of their own.
//
// Reads only; opens a library in a child process alone, since opening one may run its code. One thread.
#ifndef RANKSCOPE_TOOLS_MACHINE_VIEW_H_
#define RANKSCOPE_TOOLS_MACHINE_VIEW_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rankscope::tools {

struct SpaceInfo {
  bool there = false;
  uint64_t total_bytes = 0, free_bytes = 0;
};

class MachineView {
 public:
  // `root` goes before every absolute path ("" = this machine); `environment` is a process's.
  MachineView(std::string root, std::map<std::string, std::string> environment);
  // This process's environment.
  static MachineView This();
  // The environment that a process was started with; empty if it can't be read.
  static std::map<std::string, std::string> EnvironmentOf(int pid);

  std::string Environment(const std::string& name) const;  // "" = not set
  const std::map<std::string, std::string>& environment() const { return environment_; }

  bool Exists(const std::string& path) const;
  std::string Read(const std::string& path, size_t most_bytes = 1 << 20) const;  // "" if it can't be read
  std::vector<std::string> List(const std::string& folder) const;                // names, sorted
  SpaceInfo Space(const std::string& folder) const;

  // Files whose name begins with `name` in the loader's usual folders, the toolkit's and the Python packages'
  // folders, without links to one another; in the order in which a process would come to them.
  std::vector<std::string> FindLibraries(const std::string& name) const;
  // Files that a process has mapped, each once.
  std::vector<std::string> MappedFiles(int pid) const;

  // The text behind `prefix` in a file's bytes, up to the first character that is no digit, dot or '+'; "" if it
  // isn't there.
  std::string ScanFor(const std::string& path, const std::string& prefix) const;

 private:
  std::vector<std::string> LibraryFolders() const;

  std::string root_;
  std::map<std::string, std::string> environment_;
};

// Opens `library` in a child, calls `int function(uint32_t*)` and gives what it wrote; -1 if that failed in any way.
int64_t CallInChild(const std::string& library, const char* function);
// Which of `symbols` the library has, asked in a child; empty if it can't be opened.
std::vector<std::string> SymbolsOf(const std::string& library, const std::vector<std::string>& symbols);

}  // namespace rankscope::tools

#endif  // RANKSCOPE_TOOLS_MACHINE_VIEW_H_
