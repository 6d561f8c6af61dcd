// See doctor_checks.h.
#include "tools/doctor_checks.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "analysis/answers/format.h"
#include "analysis/answers/gpu_text.h"
#include "tools/environment.h"

namespace rankscope::tools {
namespace {

using answers::FormatBytes;

std::string FileName(const std::string& path) { return std::filesystem::path(path).filename().string(); }

// "2.28.9" as 22809; 0 if it is none.
int VersionNumber(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, '.');
  int major = 0, minor = 0, patch = 0;
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[0], &major) || !absl::SimpleAtoi(parts[1], &minor)) return 0;
  if (parts.size() > 2 && !absl::SimpleAtoi(parts[2], &patch)) patch = 0;
  return major * 10000 + minor * 100 + patch;
}

class Doctor {
 public:
  Doctor(const MachineView& machine, const DoctorOptions& options) : machine_(machine), options_(options) {}

  Diagnosis Run() {
    CheckLibrary();
    const bool driver = CheckDriver();
    CheckCupti(driver);
    CheckNccl();
    CheckSpace();
    CheckDirectory();
    CheckVariables();
    CheckDeepSpeedFiles();
    CheckNcclFiles();
    CheckKernelSettings();
    for (Check& check : DisturbingSettings(machine_)) out_.checks.push_back(std::move(check));
    if (options_.pid != 0) CheckProcess();
    return std::move(out_);
  }

 private:
  void Add(const char* id, CheckStatus status, std::string what, std::string todo = "") {
    out_.checks.push_back({id, status, std::move(what), std::move(todo)});
  }

  void CheckLibrary() {
    if (options_.library.empty()) {
      Add("library", CheckStatus::kProblem, options_.library_error, "set RANKSCOPE_LIBRARY to librankscope.so");
      out_.nccl_why = out_.gpu_why = out_.ranges_why = "no librankscope.so";
      return;
    }
    std::vector<std::string> wanted = {"InitializeInjection", "InitializeInjectionNvtx2"};
    for (int v = 1; v <= 7; ++v) wanted.push_back(absl::StrCat("ncclProfiler_v", v));
    const std::vector<std::string> has = SymbolsOf(options_.library, wanted);
    if (has.size() == wanted.size()) {
      Add("library", CheckStatus::kOk,
          options_.library + " can be opened, and has NCCL's tables v1 to v7, CUDA's and NVTX's doors");
      out_.nccl = out_.gpu = out_.ranges = true;
      return;
    }
    Add("library", CheckStatus::kProblem,
        has.empty() ? options_.library + " can't be opened: it is of another architecture, or of a newer C library"
                    : absl::StrCat(options_.library, " lacks some of its doors: it has ", absl::StrJoin(has, ", ")),
        "use the library that belongs to this program");
    out_.nccl_why = out_.gpu_why = out_.ranges_why = "librankscope.so can't be used";
  }

  bool CheckDriver() {
    const std::string version = machine_.Read("/proc/driver/nvidia/version");
    if (!version.empty()) {
      const std::string line = version.substr(0, version.find('\n'));
      Add("driver", CheckStatus::kOk, absl::StrCat("NVIDIA's driver: ", absl::StripAsciiWhitespace(line)));
      gpus_ = machine_.List("/proc/driver/nvidia/gpus").size();
      return true;
    }
    const bool library = !machine_.FindLibraries("libcuda.so.1").empty();
    Add("driver", CheckStatus::kWarning,
        library ? "libcuda.so.1 is here, but the kernel's part of the driver is not loaded (/proc/driver/nvidia is "
                  "missing)"
                : "no NVIDIA driver: neither /proc/driver/nvidia nor libcuda.so.1",
        "on a login node this is as it should be: run doctor where the job runs; in a container start it with "
        "--gpus");
    out_.gpu = false;
    if (out_.gpu_why.empty()) out_.gpu_why = "no driver";
    return false;
  }

  void CheckCupti(bool driver) {
    const std::string named = machine_.Environment("RANKSCOPE_CUPTI_LIB");
    std::vector<std::string> found = machine_.FindLibraries("libcupti.so");
    if (!named.empty()) found.insert(found.begin(), named);
    // A development link names the same file; a version's name is what a process opens.
    const auto usable = std::find_if(found.begin(), found.end(), [&](const std::string& path) {
      return path == named || absl::StrContains(FileName(path), ".so.");
    });
    if (usable == found.end()) {
      Add("cupti", driver ? CheckStatus::kProblem : CheckStatus::kWarning,
          "no libcupti.so.N in the loader's folders, the toolkit or the Python packages",
          "PyTorch's CUDA builds bring one; else install NVIDIA's cupti package or set RANKSCOPE_CUPTI_LIB");
      if (out_.gpu_why.empty()) out_.gpu_why = "no libcupti";
      out_.gpu = false;
      return;
    }
    const int64_t version = CallInChild(*usable, "cuptiGetVersion");
    Add("cupti", version < 0 ? CheckStatus::kWarning : CheckStatus::kOk,
        absl::StrCat("libcupti: ", *usable,
                     version < 0
                         ? ", which can't be opened here"
                         : absl::StrCat(", version ", answers::CuptiVersionText(static_cast<uint32_t>(version))),
                     found.size() > 1
                         ? absl::StrCat("; ", found.size() - 1, " more; a process takes the one that it has mapped")
                         : ""));
  }

  void CheckNccl() {
    const std::vector<std::string> found = machine_.FindLibraries("libnccl.so");
    if (found.empty()) {
      Add("nccl", CheckStatus::kNote,
          "no libnccl.so.2 in the usual folders: it may be in a package elsewhere, or inside the program (rankscope "
          "doctor --pid N of "
          "a running job tells)");
      return;
    }
    const std::string version = machine_.ScanFor(found[0], "NCCL version ");
    SayNccl(found[0], version);
  }

  void SayNccl(const std::string& path, const std::string& version) {
    const int number = VersionNumber(version);
    if (number == 0) {
      Add("nccl", CheckStatus::kNote, absl::StrCat("NCCL: ", path, ", version unknown"));
    } else if (number < 22300) {
      Add("nccl", CheckStatus::kProblem,
          absl::StrCat("NCCL ", version, " (", path,
                       ") takes no profiler plugin: that began with 2.23 (PyTorch 2.7 and later bring it)"),
          "NVTX ranges of NCCL's calls are recorded all the same: their bytes from NCCL 2.16 on");
      out_.nccl = false;
      if (out_.nccl_why.empty()) out_.nccl_why = "NCCL " + version;
    } else {
      Add("nccl", CheckStatus::kOk,
          absl::StrCat("NCCL ", version, " (", path, ") loads the plugin by ",
                       number < 22600 ? "the file's full name only" : "its name or the file's"));
    }
  }

  void CheckSpace() {
    const bool in_shm = absl::StartsWith(options_.directory, "/dev/shm");
    const std::string folder = in_shm ? "/dev/shm" : std::filesystem::path(options_.directory).parent_path().string();
    const SpaceInfo space = machine_.Space(folder);
    if (!space.there) {
      Add("space", CheckStatus::kProblem, folder + " is not there", "set RANKSCOPE_DIR to a folder on this node");
      return;
    }
    const uint64_t processes = gpus_ > 0 ? gpus_ : 8;
    const uint64_t wanted = processes * options_.ring_bytes;
    const std::string text =
        absl::StrCat(folder, ": ", FormatBytes(space.free_bytes), " of ", FormatBytes(space.total_bytes), " free; ",
                     processes, " processes want ", FormatBytes(wanted), " of rings");
    // The recorder takes a sixteenth of the free room for a process at most.
    if (space.free_bytes / 16 >= options_.ring_bytes) {
      Add("space", CheckStatus::kOk, text);
    } else {
      Add("space", CheckStatus::kWarning,
          text + ", so they will be made smaller (a sixteenth of the free room each, at most)",
          "give the container more (docker run --shm-size, or --ipc=host), or set RANKSCOPE_RING_BYTES or "
          "RANKSCOPE_DIR");
    }
  }

  void CheckDirectory() {
    std::error_code error;
    const auto status = std::filesystem::status(options_.directory, error);
    if (error || !std::filesystem::exists(status)) {
      Add("directory", CheckStatus::kOk, options_.directory + " will be made with the first ring");
      return;
    }
    const bool link = std::filesystem::is_symlink(std::filesystem::symlink_status(options_.directory, error));
    const auto open = std::filesystem::perms::group_write | std::filesystem::perms::others_write;
    if (link || !std::filesystem::is_directory(status)) {
      Add("directory", CheckStatus::kProblem, options_.directory + " is a link or no folder: no ring is made there",
          "remove it, or set RANKSCOPE_DIR");
    } else if ((status.permissions() & open) != std::filesystem::perms::none &&
               (status.permissions() & std::filesystem::perms::sticky_bit) == std::filesystem::perms::none) {
      Add("directory", CheckStatus::kProblem, options_.directory + " can be written by others: no ring is made there",
          "chmod 0700 " + options_.directory);
    } else {
      Add("directory", CheckStatus::kOk, options_.directory + " can be used");
    }
  }

  void CheckVariables() {
    const std::string plugin = machine_.Environment("NCCL_PROFILER_PLUGIN");
    if (!plugin.empty() && !IsOurPlugin(plugin, options_.library)) {
      Add("plugin_variable", CheckStatus::kProblem,
          absl::StrCat("NCCL_PROFILER_PLUGIN=", plugin, ": NCCL takes one profiler, and it is that"),
          "rankscope run --force replaces it");
      out_.nccl = false;
      out_.nccl_why = "another profiler plugin";
    }
    const std::string cuda = machine_.Environment("CUDA_INJECTION64_PATH");
    if (!cuda.empty() && cuda != options_.library && FileName(cuda) != "librankscope.so") {
      Add("cuda_variable", CheckStatus::kWarning,
          absl::StrCat("CUDA_INJECTION64_PATH=", cuda, ": another tool has CUDA's door"),
          "under nsys, ncu or compute-sanitizer there are no kernels from rankscope; else unset it");
    }
    const std::string nvtx = machine_.Environment("NVTX_INJECTION64_PATH");
    if (!nvtx.empty() && nvtx != options_.library && FileName(nvtx) != "librankscope.so") {
      Add("nvtx_variable", CheckStatus::kWarning,
          absl::StrCat("NVTX_INJECTION64_PATH=", nvtx, ": another tool gets the ranges"),
          "unset it to have them recorded");
      out_.ranges = false;
      out_.ranges_why = "another tool has NVTX";
    }
    const std::string disable = machine_.Environment("RANKSCOPE_DISABLE");
    if (!disable.empty() && disable != "0") {
      Add("disabled", CheckStatus::kProblem, "RANKSCOPE_DISABLE is set: nothing is recorded", "unset it");
      out_.nccl = out_.gpu = out_.ranges = false;
      out_.nccl_why = out_.gpu_why = out_.ranges_why = "RANKSCOPE_DISABLE";
    }
    if (machine_.Environment("RANKSCOPE_CUPTI") == "0") {
      Add("cupti_off", CheckStatus::kNote, "RANKSCOPE_CUPTI=0: no kernels and copies");
      out_.gpu = false;
      out_.gpu_why = "RANKSCOPE_CUPTI=0";
    }
    for (const auto& [name, value] : machine_.environment()) {
      if (name == "LD_LIBRARY_PATH" && absl::StrContains(value, "/stubs"))
        Add("stubs", CheckStatus::kWarning,
            "LD_LIBRARY_PATH has a folder of stubs: its libcuda.so makes CUPTI fail with code 15",
            "take it out for running, it is for linking");
    }
  }

  // A line without '=' ends DeepSpeed's launcher; one of an earlier installation names a library that is gone.
  void CheckDeepSpeedFiles() {
    std::vector<std::string> files;
    if (const std::string named = machine_.Environment("DS_ENV_FILE"); !named.empty()) files.push_back(named);
    if (const std::string home = machine_.Environment("HOME"); !home.empty())
      files.push_back(home + "/.deepspeed_env");
    if (const std::string here = machine_.Environment("PWD"); !here.empty())
      files.push_back(here + "/.deepspeed_env");
    for (const std::string& file : files) {
      if (machine_.Exists(file + ".rankscope-backup"))
        Add("deepspeed_backup", CheckStatus::kWarning,
            file + " still holds the lines of a rankscope run that was killed",
            "the next rankscope run puts it right; or move " + file +
                ".rankscope-backup back by hand, without its first line");
      const std::string text = machine_.Read(file);
      if (text.empty()) continue;
      const std::vector<std::string> lines = absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
      for (size_t i = 0; i < lines.size(); ++i) {
        if (!absl::StrContains(lines[i], "=")) {
          Add("deepspeed_line", CheckStatus::kProblem,
              absl::StrCat(file, ", line ", i + 1, ", has no '=': DeepSpeed's launcher ends with a ValueError"),
              "take it out");
        } else if (absl::StrContains(lines[i], "librankscope.so")) {
          const std::string path = lines[i].substr(lines[i].find('=') + 1);
          if (!machine_.Exists(path))
            Add("deepspeed_stale", CheckStatus::kWarning,
                absl::StrCat(file, ", line ", i + 1, ", names ", path, ", which is not here"),
                "take it out: on the workers it keeps rankscope from loading");
        }
      }
    }
  }

  void CheckNcclFiles() {
    std::vector<std::string> files = {"/etc/nccl.conf"};
    if (const std::string named = machine_.Environment("NCCL_CONF_FILE"); !named.empty()) {
      files.push_back(named);
    } else if (const std::string home = machine_.Environment("HOME"); !home.empty()) {
      files.push_back(home + "/.nccl.conf");
    }
    for (const std::string& file : files) {
      for (const absl::string_view line : absl::StrSplit(machine_.Read(file), '\n')) {
        if (absl::StartsWith(line, "NCCL_PROFILER_PLUGIN=") || absl::StartsWith(line, "RANKSCOPE_") ||
            absl::StartsWith(line, "NCCL_RANKSCOPE_"))
          Add("nccl_conf", CheckStatus::kNote, absl::StrCat(file, " sets ", line, " where the environment doesn't"));
      }
    }
  }

  void CheckKernelSettings() {
    int scope = 0;
    if (absl::SimpleAtoi(machine_.Read("/proc/sys/kernel/yama/ptrace_scope"), &scope) && scope >= 1)
      Add("ptrace", CheckStatus::kNote,
          absl::StrCat("ptrace_scope is ", scope,
                       ": other tools can't look into a running process; rankscope doesn't need to"));
    int paranoid = 0;
    if (absl::SimpleAtoi(machine_.Read("/proc/sys/kernel/perf_event_paranoid"), &paranoid) && paranoid > 2)
      Add("perf", CheckStatus::kNote,
          absl::StrCat("perf_event_paranoid is ", paranoid, ": no perf for users; rankscope doesn't need it"));
    const std::string params = machine_.Read("/proc/driver/nvidia/params");
    if (absl::StrContains(params, "RmProfilingAdminOnly: 1"))
      Add("profiling_admin", CheckStatus::kNote,
          "performance counters are for administrators here (RmProfilingAdminOnly: 1); kernels and copies are traced "
          "all the same "
          "from CUDA 10.2 on");
  }

  // A running process: what it has mapped, and who else is in it.
  void CheckProcess() {
    const std::vector<std::string> files = machine_.MappedFiles(options_.pid);
    if (files.empty()) {
      Add("process", CheckStatus::kProblem,
          absl::StrCat("process ", options_.pid, " is not there, or its maps can't be read"),
          "run doctor as the user of the process");
      return;
    }
    std::string nccl, torch;
    bool ours = false;
    for (const std::string& path : files) {
      const std::string name = FileName(path);
      if (name == "librankscope.so") ours = true;
      if (absl::StartsWith(name, "libnccl.so")) nccl = path;
      if (absl::StartsWith(name, "libtorch_cuda")) torch = path;
      if (absl::StartsWith(name, "libcupti.so"))
        Add("process_cupti", CheckStatus::kOk, "the process has mapped " + path);
      for (const char* tool :
           {"libToolsInjection", "libnvperf", "libcuinj", "libsanitizer-collection", "libInjection", "libnsys"}) {
        if (absl::StartsWith(name, tool))
          Add("process_tool", CheckStatus::kWarning, absl::StrCat("another tool is in the process: ", path),
              "while it has CUPTI there are no kernels from rankscope");
      }
    }
    Add("process_library", ours ? CheckStatus::kOk : CheckStatus::kProblem,
        ours ? absl::StrCat("librankscope.so is in process ", options_.pid)
             : absl::StrCat("librankscope.so is not in process ", options_.pid),
        ours ? "" : "start it with rankscope run, or with the lines of rankscope env");
    if (!nccl.empty()) {
      SayNccl(nccl, machine_.ScanFor(nccl, "NCCL version "));
    } else if (!torch.empty()) {
      const std::string version = machine_.ScanFor(torch, "NCCL version ");
      if (!version.empty()) {
        Add("process_nccl", CheckStatus::kNote,
            absl::StrCat("NCCL ", version, " is linked into ", torch, ": it loads the plugin as any other"));
      }
    }
  }

  const MachineView& machine_;
  const DoctorOptions& options_;
  Diagnosis out_;
  size_t gpus_ = 0;
};

}  // namespace

bool Diagnosis::has_problem() const {
  return std::any_of(checks.begin(), checks.end(),
                     [](const Check& check) { return check.status == CheckStatus::kProblem; });
}

Diagnosis Diagnose(const MachineView& machine, const DoctorOptions& options) {
  return Doctor(machine, options).Run();
}

std::vector<Check> DisturbingSettings(const MachineView& machine) {
  struct Setting {
    const char* name;
    const char* value;  // nullptr = any but 0 and empty
    const char* effect;
  };
  constexpr Setting kSettings[] = {
      {"CUDA_LAUNCH_BLOCKING", nullptr, "every launch waits for its kernel: nothing overlaps"},
      {"TORCH_DISTRIBUTED_DEBUG", "DETAIL", "every collective is checked by others: extra communication"},
      {"TORCH_NCCL_BLOCKING_WAIT", nullptr, "the host waits in every collective"},
      {"NCCL_BLOCKING_WAIT", nullptr, "the host waits in every collective"},
      {"TORCH_NCCL_ENABLE_TIMING", nullptr, "CUDA events around every collective"},
      {"NCCL_DEBUG", "TRACE", "a line of log for every call"},
      {"TORCH_SHOW_CPP_STACKTRACES", nullptr, "stacks are taken where errors are made"},
      {"CUDA_DEVICE_MAX_CONNECTIONS", nullptr,
       "with 1, kernels start in the order of their launches: meant for tensor parallelism, "
       "and it may keep communication from overlapping"},
  };
  std::vector<Check> checks;
  for (const Setting& setting : kSettings) {
    const std::string value = machine.Environment(setting.name);
    if (value.empty() || value == "0") continue;
    if (setting.value != nullptr && !absl::EqualsIgnoreCase(value, setting.value)) continue;
    checks.push_back({absl::StrCat("disturbs_", absl::AsciiStrToLower(setting.name)), CheckStatus::kWarning,
                      absl::StrCat(setting.name, "=", value, ": ", setting.effect),
                      "timings are not those of a run without it"});
  }
  return checks;
}

std::vector<Check> DiagnoseRing(const analysis::RankInfo& rank) {
  std::vector<Check> checks;
  const auto door = [&](schema::Door bit, const char* id, const char* came, const char* missing, const char* todo) {
    const bool used = (rank.doors & bit) != 0;
    checks.push_back({id, used ? CheckStatus::kOk : CheckStatus::kNote, used ? came : missing, used ? "" : todo});
  };
  const bool from_ranges = (rank.doors & schema::kDoorNcclRanges) != 0;
  door(schema::kDoorPlugin, "door_plugin", "NCCL loaded the plugin",
       from_ranges ? "NCCL did not load the plugin: its calls are known by its own NVTX ranges, without their ends"
                   : "NCCL did not load the plugin: no communicator was made, or it is older than 2.23",
       "NCCL_DEBUG=INFO shows how NCCL looks for it; from 2.23 on it has one");
  door(schema::kDoorCuda, "door_cuda", "CUDA started it", "CUDA did not start it",
       "CUDA_INJECTION64_PATH has to be in the process's environment before its first CUDA call");
  door(schema::kDoorNvtx, "door_nvtx", "NVTX ranges came", "no NVTX range came",
       "NVTX_INJECTION64_PATH, or the program has none");
  door(schema::kDoorHook, "door_hook", "the Python hook came", "the Python hook did not come",
       "rankscope run --hook");
  const auto state = static_cast<schema::CuptiState>(rank.cupti.state);
  const bool fine = state == schema::CuptiState::kArmed || state == schema::CuptiState::kOff;
  checks.push_back(
      {"gpu_source", fine ? CheckStatus::kOk : CheckStatus::kWarning, answers::CuptiStateText(rank.cupti),
       state == schema::CuptiState::kYielded || state == schema::CuptiState::kRefused
           ? "use torch.profiler freely: rankscope pauses for it; under nsys there are no kernels from rankscope"
           : ""});
  if (!rank.cupti.library.empty()) {
    checks.push_back(
        {"gpu_library", CheckStatus::kOk,
         absl::StrCat(rank.cupti.library, ", version ", answers::CuptiVersionText(rank.cupti.api_version), ", ",
                      answers::FormatCount(rank.cupti.records), " records in ",
                      answers::FormatCount(rank.cupti.buffers_returned), " buffers, arming took ",
                      answers::FormatDuration(static_cast<int64_t>(rank.cupti.arm_cost_ns))),
         ""});
  }
  return checks;
}

}  // namespace rankscope::tools
