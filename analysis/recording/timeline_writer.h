// A recording into one timeline file (*.rsc): chunks of one rank and kind each, an index, a trailer.
//
// Called by `rankscope merge` and `run`, on one thread. Memory is bounded by the chunks that are being filled. Must
// never: replace a good file with half a one (it writes beside it, then renames), or leave its temporary file behind
// after an error.
#ifndef RANKSCOPE_ANALYSIS_RECORDING_TIMELINE_WRITER_H_
#define RANKSCOPE_ANALYSIS_RECORDING_TIMELINE_WRITER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "analysis/model.h"

namespace rankscope::analysis {

struct WriteOptions {
  uint32_t chunk_events = 0;             // most events in a chunk; 0 = by the number of ranks
  std::function<void(double)> progress;  // told the share done, 0 to 1, now and then
};
struct WriteResult {
  uint64_t events = 0;
  uint64_t bytes = 0;
};

absl::StatusOr<WriteResult> WriteTimeline(const Recording& recording, const std::string& path,
                                          const WriteOptions& options = {});

}  // namespace rankscope::analysis

#endif  // RANKSCOPE_ANALYSIS_RECORDING_TIMELINE_WRITER_H_
