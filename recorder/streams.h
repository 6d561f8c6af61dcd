// CUDA's stream handles and the numbers that CUPTI gives them: what ties a launch that NCCL tells of to the kernel
// that CUPTI tells of. NoteStream runs on launching threads; a stream that was seen before costs a look at one or two
// words, a new one a call of the resolver (cupti/ sets it). Entries are never taken away: a handle that is used again
// for another stream keeps its first number.
#ifndef RANKSCOPE_RECORDER_STREAMS_H_
#define RANKSCOPE_RECORDER_STREAMS_H_

#include <cstdint>

namespace rankscope::recorder {

// The number of a stream, false if it can't be had now. Called without any lock of ours.
using StreamResolver = bool (*)(uint64_t handle, uint32_t* stream_id, uint32_t* context_id);
void SetStreamResolver(StreamResolver resolver);

// Any thread, the ring active.
void NoteStream(uint64_t handle);

}  // namespace rankscope::recorder

#endif  // RANKSCOPE_RECORDER_STREAMS_H_
