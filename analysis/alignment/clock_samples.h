// What a recording's operations say of the hosts' clocks: for each operation that no rank can leave before all have
// come, when each host's ranks came and when they were let go.
//
// Reads the recording's operations once, in bounded memory: where there are too many, of each two neighbours of a
// communicator the shorter is kept, since a short one says more. One thread. Must never: take an operation whose
// match, ends or kind is in doubt.
#ifndef RANKSCOPE_ANALYSIS_ALIGNMENT_CLOCK_SAMPLES_H_
#define RANKSCOPE_ANALYSIS_ALIGNMENT_CLOCK_SAMPLES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "analysis/model.h"

namespace rankscope::alignment {

// A host's part in an operation, on that host's clock.
struct HostPart {
  uint32_t host = 0;
  int64_t arrival_ns = 0;     // of its last rank
  int64_t first_end_ns = 0;   // of its first rank that was let go
  int64_t middle_end_ns = 0;  // the median of its ranks
};

struct SampledOperation {
  uint32_t comm = 0;
  uint32_t first = 0, count = 0;  // its parts
  // The shortest time from a host's last arrival to its end: no more than the transfer took, whatever the clocks say.
  int64_t shortest_ns = 0;
};

struct ClockSamples {
  std::vector<SampledOperation> operations;  // in the order in which they ended
  std::vector<HostPart> parts;
  uint64_t seen = 0;  // operations that qualify
};

struct SampleOptions {
  size_t most_parts = 1u << 21;  // 32 bytes each
  std::function<void(uint64_t events)> progress;
};

// `host_of`: by rank_index.
ClockSamples CollectClockSamples(const analysis::Recording& recording, const std::vector<uint32_t>& host_of,
                                 const SampleOptions& options = {});

}  // namespace rankscope::alignment

#endif  // RANKSCOPE_ANALYSIS_ALIGNMENT_CLOCK_SAMPLES_H_
