// See environment.h.
#include "tools/environment.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tools/library_path.h"
#include "tools/ring_directory.h"

extern char** environ;

namespace rankscope::tools {
namespace {

constexpr absl::string_view kPrefix = "RANKSCOPE_";
constexpr absl::string_view kNcclPrefix = "NCCL_RANKSCOPE_";

// What DeepSpeed passes without quotes (deepspeed/launcher, 0.16.5+); with Open MPI's runner its quotes stay in the
// value.
bool IsLauncherSafe(absl::string_view value) {
  for (const char c : value) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        !absl::StrContains("_@%+=:,./-", absl::string_view(&c, 1)))
      return false;
  }
  return true;
}

struct FormatWord {
  absl::string_view word;
  EnvironmentFormat format;
};
constexpr FormatWord kFormatWords[] = {
    {"shell", EnvironmentFormat::kShell},           {"torchrun", EnvironmentFormat::kTorchrun},
    {"accelerate", EnvironmentFormat::kAccelerate}, {"deepspeed", EnvironmentFormat::kDeepSpeed},
    {"slurm", EnvironmentFormat::kSlurm},           {"mpirun", EnvironmentFormat::kMpirun},
    {"docker", EnvironmentFormat::kDocker},         {"k8s", EnvironmentFormat::kKubernetes},
};
// Words that people type for the same.
constexpr FormatWord kOtherWords[] = {
    {"sh", EnvironmentFormat::kShell},
    {"srun", EnvironmentFormat::kSlurm},
    {"mpi", EnvironmentFormat::kMpirun},
    {"kubernetes", EnvironmentFormat::kKubernetes},
};

// Settings as the environment has them, by name without prefix. The plain name wins, as in the recorder.
std::map<std::string, std::string> SettingsInEnvironment() {
  std::map<std::string, std::string> settings;
  for (const absl::string_view prefix : {kNcclPrefix, kPrefix}) {
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      const absl::string_view text = *entry;
      const size_t equals = text.find('=');
      if (equals == absl::string_view::npos || !absl::StartsWith(text, prefix)) continue;
      const absl::string_view name = text.substr(prefix.size(), equals - prefix.size());
      if (name != "LIBRARY") settings[std::string(name)] = std::string(text.substr(equals + 1));
    }
  }
  return settings;
}

std::string ValueOf(const std::vector<Variable>& variables, absl::string_view name) {
  for (const Variable& variable : variables) {
    if (variable.name == name) return variable.value;
  }
  return "";
}

// A YAML string in double quotes.
std::string YamlQuote(absl::string_view value) {
  return absl::StrCat("\"", absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

std::string FolderOf(absl::string_view path) {
  return std::filesystem::path(std::string(path)).parent_path().string();
}

constexpr char kCudaInjection[] = "CUDA_INJECTION64_PATH";
constexpr char kNvtxInjection[] = "NVTX_INJECTION64_PATH";

// Not set by the user to something else: nsys and others enter by the same variables.
bool IsFree(const char* name, const std::string& library) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' || value == library;
}

std::string FormatDocker(const std::vector<Variable>& variables) {
  std::vector<std::string> words;
  for (const Variable& variable : variables) {
    words.push_back(absl::StrCat("-e ", ShellQuote(absl::StrCat(variable.name, "=", variable.value))));
  }
  const std::string libraries = FolderOf(ValueOf(variables, "NCCL_PROFILER_PLUGIN"));
  words.push_back(absl::StrCat("-v ", ShellQuote(absl::StrCat(libraries, ":", libraries, ":ro"))));
  const std::string rings = ValueOf(variables, "RANKSCOPE_DIR");
  // Without a directory of the user's own the rings are in /dev/shm: the host's, so that they outlive the container.
  words.push_back(rings.empty() ? "--ipc=host" : absl::StrCat("-v ", ShellQuote(absl::StrCat(rings, ":", rings))));
  return absl::StrCat(absl::StrJoin(words, " "), "\n");
}

std::string FormatKubernetes(const std::vector<Variable>& variables) {
  std::string text = "# of the container; its image, or a volume, has the library at this path\nenv:\n";
  for (const Variable& variable : variables) {
    absl::StrAppend(&text, "  - name: ", variable.name, "\n    value: ", YamlQuote(variable.value), "\n");
  }
  const std::string named = ValueOf(variables, "RANKSCOPE_DIR");
  const std::string rings = named.empty() ? "/dev/shm" : named;
  absl::StrAppend(&text, "volumeMounts:\n  - name: rankscope-rings\n    mountPath: ", YamlQuote(rings), "\n");
  absl::StrAppend(&text,
                  "# of the pod; on the node, so that the rings outlive it\nvolumes:\n  - name: rankscope-rings\n",
                  "    hostPath:\n      path: ", YamlQuote(rings), "\n",
                  "      type: ", named.empty() ? "Directory" : "DirectoryOrCreate", "\n");
  return text;
}

}  // namespace

absl::StatusOr<std::vector<Variable>> RecordingVariables(const std::string& library,
                                                         const RecordingOptions& options) {
  std::map<std::string, std::string> settings = SettingsInEnvironment();
  if (!options.job.empty()) {
    if (SafeJobName(options.job) != options.job) {
      return absl::InvalidArgumentError(
          absl::StrCat("--job ", options.job,
                       ": a job's name is a folder's: letters, digits, '.', '_', '-', not a "
                       "dot first, at most 127; for example ",
                       SafeJobName(options.job)));
    }
    settings["JOB"] = options.job;
  }
  if (!options.directory.empty()) {
    std::error_code error;
    // The recorder refuses a path that depends on where a process happens to be.
    settings["DIR"] = std::filesystem::absolute(options.directory, error).lexically_normal().string();
  }
  if (!options.events.empty()) settings["NCCL_EVENTS"] = options.events;
  if (!options.gpu_events.empty()) settings["GPU_EVENTS"] = options.gpu_events;
  if (!options.ring_bytes.empty()) settings["RING_BYTES"] = options.ring_bytes;

  std::vector<Variable> variables = {{"NCCL_PROFILER_PLUGIN", library}};
  if (!options.no_gpu && IsFree(kCudaInjection, library)) variables.push_back({kCudaInjection, library});
  if (!options.no_nvtx && IsFree(kNvtxInjection, library)) variables.push_back({kNvtxInjection, library});
  if (options.preload) {
    const char* others = std::getenv("LD_PRELOAD");
    const std::string before = others == nullptr ? "" : others;
    const bool there = absl::StrContains(before, library);
    variables.push_back(
        {"LD_PRELOAD", there || before.empty() ? (there ? before : library) : absl::StrCat(before, ":", library)});
  }
  if (options.hook) {
    const absl::StatusOr<std::string> folder = FindHook(library);
    if (!folder.ok()) return folder.status();
    const char* path = std::getenv("PYTHONPATH");
    const bool there =
        path != nullptr && absl::StrContains(absl::StrCat(":", path, ":"), absl::StrCat(":", *folder, ":"));
    if (there) {
      variables.push_back({"PYTHONPATH", path});
    } else {
      variables.push_back(
          {"PYTHONPATH", path == nullptr || *path == '\0' ? *folder : absl::StrCat(*folder, ":", path)});
    }
  }
  for (const auto& [name, value] : settings) {
    if (absl::StrContains(value, "\n")) {
      return absl::InvalidArgumentError(
          absl::StrCat("RANKSCOPE_", name, " holds a line break, which no launcher carries"));
    }
    variables.push_back({absl::StrCat(kPrefix, name), value});
    variables.push_back({absl::StrCat(kNcclPrefix, name), value});
  }
  return variables;
}

std::vector<std::string> OtherInjections(const std::string& library, const RecordingOptions& options) {
  std::vector<std::string> sentences;
  if (!options.no_gpu && !IsFree(kCudaInjection, library)) {
    sentences.push_back(
        absl::StrCat(kCudaInjection, "=", std::getenv(kCudaInjection),
                     " is kept: that tool has CUDA's door, so kernels and copies are recorded from the "
                     "first NCCL communicator on, and only if it leaves CUPTI free"));
  }
  if (!options.no_nvtx && !IsFree(kNvtxInjection, library)) {
    sentences.push_back(absl::StrCat(kNvtxInjection, "=", std::getenv(kNvtxInjection),
                                     " is kept: that tool gets the NVTX ranges, and they are not recorded"));
  }
  return sentences;
}

bool ParseEnvironmentFormat(absl::string_view word, EnvironmentFormat* format) {
  for (const FormatWord& known : kFormatWords) {
    if (known.word == word) return *format = known.format, true;
  }
  for (const FormatWord& known : kOtherWords) {
    if (known.word == word) return *format = known.format, true;
  }
  return false;
}

std::string EnvironmentFormatWords() {
  return absl::StrJoin(kFormatWords, ", ",
                       [](std::string* out, const FormatWord& known) { absl::StrAppend(out, known.word); });
}

std::string FormatVariables(const std::vector<Variable>& variables, EnvironmentFormat format) {
  std::string text;
  switch (format) {
    case EnvironmentFormat::kShell:
    case EnvironmentFormat::kTorchrun:
    case EnvironmentFormat::kAccelerate:
    case EnvironmentFormat::kSlurm:  // not --export=A=1,B=2: a comma in a value would cut it
      for (const Variable& variable : variables) {
        absl::StrAppend(&text, "export ", variable.name, "=", ShellQuote(variable.value), "\n");
      }
      return text;
    case EnvironmentFormat::kDeepSpeed:
      for (const Variable& variable : variables) absl::StrAppend(&text, variable.name, "=", variable.value, "\n");
      return text;
    case EnvironmentFormat::kMpirun:
      for (const Variable& variable : variables) {
        absl::StrAppend(&text, text.empty() ? "" : " ", "-x ",
                        ShellQuote(absl::StrCat(variable.name, "=", variable.value)));
      }
      return absl::StrCat(text, "\n");
    case EnvironmentFormat::kDocker:
      return FormatDocker(variables);
    case EnvironmentFormat::kKubernetes:
      return FormatKubernetes(variables);
  }
  return text;
}

std::vector<std::string> FormatNotes(const std::vector<Variable>& variables, EnvironmentFormat format) {
  std::vector<std::string> notes;
  switch (format) {
    case EnvironmentFormat::kShell:
      break;
    case EnvironmentFormat::kTorchrun:
      notes.push_back("on every node, in the shell that starts torchrun; its workers inherit them");
      break;
    case EnvironmentFormat::kAccelerate:
      notes.push_back(
          "on every node, in the shell that starts accelerate; with DeepSpeed over several nodes it writes its whole "
          "environment into ./.deepspeed_env, where lines of earlier runs stay");
      break;
    case EnvironmentFormat::kDeepSpeed:
      notes.push_back(
          "append them to .deepspeed_env in the job's folder or at home; on one node DeepSpeed does not read that "
          "file: "
          "export them there (--for shell)");
      break;
    case EnvironmentFormat::kSlurm:
      notes.push_back("before srun, which passes them on (--export=ALL, the default; not where a site has set NONE)");
      break;
    case EnvironmentFormat::kMpirun:
      notes.push_back("options of Open MPI's mpirun; MPICH's take -genv NAME VALUE, or --for shell and -genvall");
      break;
    case EnvironmentFormat::kDocker:
      notes.push_back("options of docker run; rings of a container whose /dev/shm is not the host's go with it");
      break;
    case EnvironmentFormat::kKubernetes:
      notes.push_back("two parts of a pod's description, which has to be indented where they go");
      break;
  }
  const bool quotes_stay = format == EnvironmentFormat::kDeepSpeed || format == EnvironmentFormat::kMpirun;
  for (const Variable& variable : variables) {
    if (quotes_stay && !IsLauncherSafe(variable.value)) {
      notes.push_back(
          absl::StrCat(variable.name, " has a character that some launchers quote or cut: ", variable.value));
    }
  }
  return notes;
}

std::string ShellQuote(absl::string_view word) {
  if (!word.empty() && IsLauncherSafe(word)) return std::string(word);
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

bool IsOurPlugin(absl::string_view value, absl::string_view library) {
  if (value == library || value == "rankscope") return true;
  const std::string file = std::filesystem::path(std::string(value)).filename().string();
  return file == "librankscope.so" || file == "libnccl-profiler-rankscope.so";
}

}  // namespace rankscope::tools
