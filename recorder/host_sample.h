// CPU time and memory of the process, at most once a second. Some system calls: only from threads and calls that make
// some anyway (rankscope's own thread, an interposed read or write), never on the hot path.
#ifndef RANKSCOPE_RECORDER_HOST_SAMPLE_H_
#define RANKSCOPE_RECORDER_HOST_SAMPLE_H_

#include <cstdint>

namespace rankscope::recorder {

// Records a sample on the calling thread's lane if one is due. The ring must be active.
void MaybeSampleHost(uint64_t now_ticks);

}  // namespace rankscope::recorder

#endif  // RANKSCOPE_RECORDER_HOST_SAMPLE_H_
