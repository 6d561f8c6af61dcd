// See machine_view.h.
#include "tools/machine_view.h"

#include <dlfcn.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

extern char** environ;

namespace rankscope::tools {
namespace {

namespace fs = std::filesystem;

std::map<std::string, std::string> Split(const std::string& block, char separator) {
  std::map<std::string, std::string> variables;
  for (const absl::string_view entry : absl::StrSplit(block, separator)) {
    const size_t equals = entry.find('=');
    if (equals != absl::string_view::npos)
      variables[std::string(entry.substr(0, equals))] = std::string(entry.substr(equals + 1));
  }
  return variables;
}

// Runs `body` in a child and gives what it wrote to the pipe; stdout and stderr of the child go nowhere.
std::string FromChild(const std::function<void(int)>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "";
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    if (std::freopen("/dev/null", "w", stdout) == nullptr || std::freopen("/dev/null", "w", stderr) == nullptr)
      _exit(1);
    body(ends[1]);
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char part[512];
  for (ssize_t got; child > 0 && (got = read(ends[0], part, sizeof(part))) > 0;)
    text.append(part, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  return text;
}

void Say(int fd, const std::string& text) {
  if (write(fd, text.data(), text.size()) < 0) _exit(1);
}

}  // namespace

MachineView::MachineView(std::string root, std::map<std::string, std::string> environment)
    : root_(std::move(root)), environment_(std::move(environment)) {}

MachineView MachineView::This() {
  std::string block;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    absl::StrAppend(&block, *entry, std::string(1, '\0'));
  return MachineView("", Split(block, '\0'));
}

std::map<std::string, std::string> MachineView::EnvironmentOf(int pid) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/environ"), std::ios::binary);
  return Split({std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()}, '\0');
}

std::string MachineView::Environment(const std::string& name) const {
  const auto found = environment_.find(name);
  return found == environment_.end() ? "" : found->second;
}

bool MachineView::Exists(const std::string& path) const {
  std::error_code error;
  return fs::exists(root_ + path, error);
}

std::string MachineView::Read(const std::string& path, size_t most_bytes) const {
  std::ifstream in(root_ + path, std::ios::binary);
  std::string text(most_bytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(most_bytes));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(0, in.gcount())));
  return text;
}

std::vector<std::string> MachineView::List(const std::string& folder) const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(root_ + folder, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

SpaceInfo MachineView::Space(const std::string& folder) const {
  struct statvfs space {};
  if (statvfs((root_ + folder).c_str(), &space) != 0) return {};
  return {true, static_cast<uint64_t>(space.f_blocks) * space.f_frsize,
          static_cast<uint64_t>(space.f_bavail) * space.f_frsize};
}

std::vector<std::string> MachineView::LibraryFolders() const {
  std::vector<std::string> folders;
  for (const absl::string_view folder : absl::StrSplit(Environment("LD_LIBRARY_PATH"), ':', absl::SkipEmpty()))
    folders.emplace_back(folder);
  for (const char* home : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const std::string folder = Environment(home); !folder.empty()) {
      folders.push_back(folder + "/extras/CUPTI/lib64");
      folders.push_back(folder + "/lib64");
      folders.push_back(folder + "/lib");
    }
  }
  for (const char* folder :
       {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64",
        "/usr/local/lib", "/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/lib64"})
    folders.emplace_back(folder);
  for (const std::string& name : List("/usr/local")) {
    if (!absl::StartsWith(name, "cuda-")) continue;
    folders.push_back("/usr/local/" + name + "/extras/CUPTI/lib64");
    folders.push_back("/usr/local/" + name + "/lib64");
    folders.push_back("/usr/local/" + name + "/lib");
  }
  // Wheels of NVIDIA's libraries, in the virtual environment or in Python's own packages.
  std::vector<std::string> prefixes;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const std::string prefix = Environment(name); !prefix.empty()) prefixes.push_back(prefix + "/lib");
  }
  prefixes.emplace_back("/usr/local/lib");
  prefixes.emplace_back("/usr/lib");
  for (const std::string& prefix : prefixes) {
    for (const std::string& python : List(prefix)) {
      if (!absl::StartsWith(python, "python3")) continue;
      for (const char* packages : {"/site-packages/", "/dist-packages/"}) {
        const std::string base = absl::StrCat(prefix, "/", python, packages, "nvidia/");
        for (const std::string& package : List(base)) folders.push_back(absl::StrCat(base, package, "/lib"));
      }
    }
  }
  return folders;
}

std::vector<std::string> MachineView::FindLibraries(const std::string& name) const {
  std::vector<std::string> found;
  std::set<std::string> seen;
  std::error_code error;
  for (const std::string& folder : LibraryFolders()) {
    std::vector<std::string> files = List(folder);
    // A version's name before the development link to it, the newest version first.
    std::reverse(files.begin(), files.end());
    for (const std::string& file : files) {
      // "libx.so" and "libx.so.1", not "libx.so-backup".
      if (!absl::StartsWith(file, name) || (file.size() > name.size() && file[name.size()] != '.')) continue;
      const std::string path = absl::StrCat(folder, "/", file);
      if (seen.insert(fs::weakly_canonical(root_ + path, error).string()).second) found.push_back(path);
    }
  }
  return found;
}

std::vector<std::string> MachineView::MappedFiles(int pid) const {
  std::vector<std::string> files;
  std::set<std::string> seen;
  const std::string maps = Read(absl::StrCat("/proc/", pid, "/maps"), 16 << 20);
  for (const absl::string_view line : absl::StrSplit(maps, '\n')) {
    const size_t slash = line.find('/');
    if (slash == absl::string_view::npos) continue;
    if (seen.insert(std::string(line.substr(slash))).second) files.emplace_back(line.substr(slash));
  }
  return files;
}

std::string MachineView::ScanFor(const std::string& path, const std::string& prefix) const {
  std::ifstream in(root_ + path, std::ios::binary);
  std::string window;
  std::vector<char> block(1 << 20);
  while (in) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    window.append(block.data(), static_cast<size_t>(in.gcount()));
    for (size_t at = window.find(prefix); at != std::string::npos; at = window.find(prefix, at + 1)) {
      const size_t begin = at + prefix.size();
      size_t end = begin;
      while (end < window.size() &&
             (absl::ascii_isdigit(static_cast<unsigned char>(window[end])) || window[end] == '.'))
        ++end;
      if (end > begin && end < window.size()) return window.substr(begin, end - begin);
    }
    if (window.size() > 256) window.erase(0, window.size() - 256);
  }
  return "";
}

int64_t CallInChild(const std::string& library, const char* function) {
  const std::string text = FromChild([&](int fd) {
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    auto* call = handle == nullptr ? nullptr : reinterpret_cast<int (*)(uint32_t*)>(dlsym(handle, function));
    uint32_t value = 0;
    if (call != nullptr && call(&value) == 0) Say(fd, absl::StrCat(value));
  });
  return text.empty() ? -1 : std::atoll(text.c_str());
}

std::vector<std::string> SymbolsOf(const std::string& library, const std::vector<std::string>& symbols) {
  const std::string text = FromChild([&](int fd) {
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    for (const std::string& symbol : symbols) {
      if (handle != nullptr && dlsym(handle, symbol.c_str()) != nullptr) Say(fd, symbol + "\n");
    }
  });
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

}  // namespace rankscope::tools
