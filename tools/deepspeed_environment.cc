// See deepspeed_environment.h.
#include "tools/deepspeed_environment.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace rankscope::tools {
namespace {

namespace fs = std::filesystem;

// The copy's first line: what follows is the file, or there was none.
constexpr char kKept[] = "rankscope: the file as it was\n";
constexpr char kAbsent[] = "rankscope: there was no such file\n";

std::string Read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}
bool WriteFile(const fs::path& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << bytes;
  out.close();
  return !out.fail();
}

absl::Status PutBack(const std::string& path, const std::string& backup) {
  const std::string bytes = Read(backup);
  std::error_code error;
  if (absl::StartsWith(bytes, kAbsent)) {
    fs::remove(path, error);
  } else if (absl::StartsWith(bytes, kKept)) {
    if (!WriteFile(path, bytes.substr(sizeof(kKept) - 1)))
      return absl::PermissionDeniedError(
          absl::StrCat(path, " can't be written; what was in it is in ", backup, ", behind its first line"));
  } else {
    return absl::DataLossError(
        absl::StrCat(backup, " is not what rankscope wrote there; ", path, " is left as it is"));
  }
  fs::remove(backup, error);
  return absl::OkStatus();
}

// The value of an option that is written as `--name value` or `--name=value`; nullptr-like empty if it isn't there.
std::string OptionValue(const std::vector<std::string>& command, std::initializer_list<const char*> names) {
  for (size_t i = 1; i < command.size(); ++i) {
    for (const char* name : names) {
      if (command[i] == name && i + 1 < command.size()) return command[i + 1];
      if (absl::StartsWith(command[i], absl::StrCat(name, "=")))
        return command[i].substr(std::string(name).size() + 1);
    }
    if (absl::EndsWith(command[i], ".py")) break;  // what comes behind is the script's
  }
  return "";
}

int HostsIn(const std::string& hostfile) {
  int hosts = 0;
  for (const absl::string_view line : absl::StrSplit(Read(hostfile), '\n')) {
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    if (!text.empty() && text[0] != '#') ++hosts;
  }
  return hosts;
}

}  // namespace

bool IsDeepSpeedOverSeveralNodes(const std::vector<std::string>& command) {
  if (command.empty()) return false;
  const std::string program = fs::path(command[0]).filename().string();
  if (program != "deepspeed" && program != "ds") return false;
  for (const std::string& word : command) {
    if (absl::EndsWith(word, ".py")) break;
    if (word == "--no_ssh") return false;  // each node's launcher starts its own workers
    if (word == "--force_multi") return true;
  }
  int nodes = 0;
  if (absl::SimpleAtoi(OptionValue(command, {"--num_nodes"}), &nodes) && nodes > 0) return nodes > 1;
  std::string hostfile = OptionValue(command, {"-H", "--hostfile"});
  if (hostfile.empty()) hostfile = "/job/hostfile";  // DeepSpeed's default
  return HostsIn(hostfile) > 1;
}

DeepSpeedEnvironment::~DeepSpeedEnvironment() { Restore().IgnoreError(); }

absl::Status DeepSpeedEnvironment::Write(const std::vector<std::string>& command,
                                         const std::vector<Variable>& variables) {
  if (!IsDeepSpeedOverSeveralNodes(command)) return absl::OkStatus();
  const char* named = std::getenv("DS_ENV_FILE");
  std::error_code error;
  path_ = fs::absolute(named != nullptr && *named != '\0' ? named : ".deepspeed_env", error).string();
  backup_ = path_ + ".rankscope-backup";
  if (fs::exists(backup_, error)) {
    const absl::Status status = PutBack(path_, backup_);
    if (!status.ok()) return status;
    notes_.push_back(absl::StrCat(path_, " was put back first: an earlier rankscope run was killed"));
  }
  std::string lines;
  for (const Variable& variable : variables) {
    // What travels by itself would only stay behind.
    if (absl::StartsWith(variable.name, "NCCL") || absl::StartsWith(variable.name, "PYTHON")) continue;
    if (absl::StartsWith(variable.name, "RANKSCOPE_")) continue;  // goes as NCCL_RANKSCOPE_...
    for (const char c : variable.value) {
      if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("_@%+=:,./-", std::string(1, c)))
        continue;
      return absl::InvalidArgumentError(
          absl::StrCat(variable.name, "=", variable.value,
                       " has a character that DeepSpeed's launcher would quote; kernels and "
                       "ranges are recorded on this node alone"));
    }
    absl::StrAppend(&lines, variable.name, "=", variable.value, "\n");
  }
  if (lines.empty()) return absl::OkStatus();
  const bool there = fs::exists(path_, error);
  const std::string before = there ? Read(path_) : "";
  const bool joins = before.empty() || before.back() == '\n';
  if (!WriteFile(backup_, there ? kKept + before : std::string(kAbsent)) ||
      !WriteFile(path_, absl::StrCat(before, joins ? "" : "\n", lines))) {
    PutBack(path_, backup_).IgnoreError();
    return absl::PermissionDeniedError(
        absl::StrCat(path_,
                     " can't be written, so kernels and ranges are recorded on this node "
                     "alone; set DS_ENV_FILE to a file that can be"));
  }
  written_ = true;
  notes_.push_back(absl::StrCat("DeepSpeed goes over several nodes: CUDA's and NVTX's variables are in ", path_,
                                " until it has ended"));
  return absl::OkStatus();
}

absl::Status DeepSpeedEnvironment::Restore() {
  if (!written_) return absl::OkStatus();
  written_ = false;
  return PutBack(path_, backup_);
}

}  // namespace rankscope::tools
