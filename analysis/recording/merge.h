// Many ordered sources of events into one ordered stream: the k-way merge.
//
// Called by Recording::Events on the reading thread. Memory is a block of events per source, whatever the number of
// events. Must never: hold a source's events longer than its block, or reorder the events of one source (but where it
// is asked to: SortWithin).
#ifndef RANKSCOPE_ANALYSIS_RECORDING_MERGE_H_
#define RANKSCOPE_ANALYSIS_RECORDING_MERGE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "analysis/model.h"

namespace rankscope::analysis {

// Equal times keep the order of `sources`. A source whose times step back is taken as if its time had stood still.
std::unique_ptr<EventStream> MergeSources(std::vector<std::unique_ptr<EventSource>> sources);

// A source whose events are out of order, put into the order of their end as far as `window` events reach: CUPTI's
// records come buffer by buffer, up to some seconds late. Holds `window` events at most.
std::unique_ptr<EventSource> SortWithin(std::unique_ptr<EventSource> source, size_t window);

}  // namespace rankscope::analysis

#endif  // RANKSCOPE_ANALYSIS_RECORDING_MERGE_H_
