// See ring_directory.h.
#include "tools/ring_directory.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rankscope::tools {
namespace {

namespace fs = std::filesystem;

struct Job {
  std::string name;
  bool alive = false;
};

// By the pid in <host>.<pid>.ring alone: a guess for choosing a job; the reading of the rings knows better.
bool LooksAlive(const fs::path& ring) {
  const std::string pid_text = ring.stem().extension().string();
  int pid = 0;
  if (pid_text.size() < 2 || !absl::SimpleAtoi(pid_text.substr(1), &pid) || pid <= 0) return false;
  return kill(pid, 0) == 0 || errno == EPERM;
}

std::vector<Job> JobsIn(const std::string& directory) {
  std::vector<Job> jobs;
  std::error_code error;
  for (const fs::directory_entry& folder : fs::directory_iterator(directory, error)) {
    Job job{folder.path().filename().string(), false};
    bool has_ring = false;
    std::error_code inner_error;
    for (const fs::directory_entry& file : fs::directory_iterator(folder.path(), inner_error)) {
      if (file.path().extension() != ".ring") continue;
      has_ring = true;
      job.alive = job.alive || LooksAlive(file.path());
    }
    if (has_ring) jobs.push_back(job);
  }
  std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.name < b.name; });
  return jobs;
}

}  // namespace

std::string SettingFromEnvironment(absl::string_view name) {
  for (const char* prefix : {"RANKSCOPE_", "NCCL_RANKSCOPE_"}) {
    if (const char* value = std::getenv(absl::StrCat(prefix, name).c_str())) return value;
  }
  return "";
}

std::string RingDirectory() {
  constexpr size_t kPathLimit = 512;  // recorder/config.h; it ignores what is longer, and what is relative
  std::string named = SettingFromEnvironment("DIR");
  if (!named.empty() && named[0] == '/' && named.size() < kPathLimit) return named;
  return absl::StrCat("/dev/shm/rankscope-", getuid());
}

std::string SafeJobName(absl::string_view text) {
  constexpr size_t kLimit = 127;  // recorder/config.h, kNameLimit less its NUL
  std::string safe(text.substr(0, kLimit));
  for (size_t i = 0; i < safe.size(); ++i) {
    const char c = safe[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && c != '_' && c != '-' && !(c == '.' && i > 0)) safe[i] = '_';
  }
  return safe;
}

std::vector<std::string> ResolvePaths(const std::vector<std::string>& paths) {
  std::vector<std::string> resolved;
  for (const std::string& path : paths) {
    std::error_code error;
    const fs::path job = fs::path(RingDirectory()) / path;
    const bool is_job =
        path.find('/') == std::string::npos && !fs::exists(path, error) && fs::is_directory(job, error);
    resolved.push_back(is_job ? job.string() : path);
  }
  return resolved;
}

absl::StatusOr<std::string> TheOnlyJob() {
  const std::string directory = RingDirectory();
  const std::vector<Job> jobs = JobsIn(directory);
  if (jobs.empty())
    return absl::NotFoundError(absl::StrCat("no path was given, and there is no ring in ", directory));
  std::vector<const Job*> alive;
  std::vector<std::string> names;
  for (const Job& job : jobs) {
    names.push_back(job.name);
    if (job.alive) alive.push_back(&job);
  }
  if (jobs.size() == 1) return absl::StrCat(directory, "/", jobs[0].name);
  if (alive.size() == 1) return absl::StrCat(directory, "/", alive[0]->name);
  return absl::InvalidArgumentError(
      absl::StrCat("several jobs are in ", directory, "; name one of: ", absl::StrJoin(names, ", ")));
}

}  // namespace rankscope::tools
