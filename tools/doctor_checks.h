// What keeps a machine, or a process, from being recorded, and what to do: the checks of `rankscope doctor`, as data.
// One thread; everything is looked at through a MachineView.
#ifndef RANKSCOPE_TOOLS_DOCTOR_CHECKS_H_
#define RANKSCOPE_TOOLS_DOCTOR_CHECKS_H_

#include <string>
#include <vector>

#include "analysis/model.h"
#include "tools/machine_view.h"

namespace rankscope::tools {

enum class CheckStatus { kOk, kNote, kWarning, kProblem };

struct Check {
  std::string id;  // stable, for programs: "driver"
  CheckStatus status = CheckStatus::kOk;
  std::string what;
  std::string todo;  // "" = nothing
};

struct Diagnosis {
  bool nccl = false, gpu = false, ranges = false;  // what can be recorded here
  std::string nccl_why, gpu_why, ranges_why;       // where it can't
  std::vector<Check> checks;
  bool has_problem() const;
};

struct DoctorOptions {
  std::string library;  // librankscope.so; "" = not found
  std::string library_error;
  uint64_t ring_bytes = 32ull << 20;
  std::string directory;  // of the rings
  int pid = 0;            // a process to look at; 0 = none
};

// The machine as it is for a job that would be started from this environment; with a pid, that process.
Diagnosis Diagnose(const MachineView& machine, const DoctorOptions& options);

// What a ring says of its process: the doors, the GPU source.
std::vector<Check> DiagnoseRing(const analysis::RankInfo& rank);

// Settings of an environment that make a run's timings unlike a normal run's.
std::vector<Check> DisturbingSettings(const MachineView& machine);

}  // namespace rankscope::tools

#endif  // RANKSCOPE_TOOLS_DOCTOR_CHECKS_H_
