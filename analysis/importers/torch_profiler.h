// A trace of torch.profiler (one rank's) as a rank's events.
//
// Called by `rankscope import`, one file at a time. What becomes what: docs/analysis.md, "Traces of torch.profiler".
// Memory: the events that are kept (80 bytes each) and the names; the file itself is streamed. What is left out is
// counted by reason in RankInfo::losses. Must never: guess a rank, an operation's communicator or a time.
#ifndef RANKSCOPE_ANALYSIS_IMPORTERS_TORCH_PROFILER_H_
#define RANKSCOPE_ANALYSIS_IMPORTERS_TORCH_PROFILER_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "analysis/importers/imported_recording.h"

namespace rankscope::analysis {

// `progress` is told the share of the file that was read. The error is one sentence for the user.
absl::StatusOr<ImportedRank> ImportTorchTrace(const std::string& path, const std::function<void(double)>& progress);

}  // namespace rankscope::analysis

#endif  // RANKSCOPE_ANALYSIS_IMPORTERS_TORCH_PROFILER_H_
