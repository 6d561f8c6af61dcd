// Where rings lie on this node, and which paths a user means.
//
// Used by `run`, `ls` and whatever reads recordings. Repeats two rules of the recorder (its default directory, its
// safe names), because the two sides meet in schema/ only; ring_directory_test.cc compares them.
#ifndef RANKSCOPE_TOOLS_RING_DIRECTORY_H_
#define RANKSCOPE_TOOLS_RING_DIRECTORY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rankscope::tools {

// Value of RANKSCOPE_<name>, else of NCCL_RANKSCOPE_<name>, else empty.
std::string SettingFromEnvironment(absl::string_view name);

// RANKSCOPE_DIR, else /dev/shm/rankscope-<uid>.
std::string RingDirectory();

// A job's name as the recorder makes it safe for a folder: other characters than letters, digits, '.', '_', '-'
// become
// '_', a leading dot too; cut at 127.
std::string SafeJobName(absl::string_view text);

// Paths as given; a name that is no path here but a job in the ring directory means that job's folder.
std::vector<std::string> ResolvePaths(const std::vector<std::string>& paths);

// What `hang`, `dump` and `report` look at when nothing is named: the only job in the ring directory, or the only one
// of which a process lives. An error says what there is to choose from.
absl::StatusOr<std::string> TheOnlyJob();

}  // namespace rankscope::tools

#endif  // RANKSCOPE_TOOLS_RING_DIRECTORY_H_
