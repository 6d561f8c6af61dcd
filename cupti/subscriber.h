// rankscope as a guest of CUPTI: when it comes, what it asks for, when it steps aside.
//
// Arming happens once a process: from the CUDA driver's call of InitializeInjection, or from the first NCCL
// communicator where CUDA was there before us. The subscriber slot is taken only to see whether it is free, and given
// back at once, so that torch.profiler keeps its GPU rows. Every failure says one sentence and ends it; nothing is
// tried again in a loop. docs/design.md
// ("The GPU source") has the rules. Must never: call cuptiFinalize, put anything into a CUDA stream, call CUPTI from
// a callback (but for stepping over records) or with a lock held that a callback takes.
#ifndef RANKSCOPE_CUPTI_SUBSCRIBER_H_
#define RANKSCOPE_CUPTI_SUBSCRIBER_H_

#include "cupti/buffer_pool.h"
#include "cupti/cupti_calls.h"
#include "schema/ring_abi.h"

namespace rankscope::cupti {

enum class Entrance { kCuda, kPlugin };

// Arms CUPTI if that has not been tried. Any thread; errno is kept.
void Arm(Entrance entrance);

// ---- shared by the files of cupti/ -------------------------------------------------------------------------
// Counters are added to by callbacks on any thread; the rest is written by the arming thread, then by the flush
// thread alone.
struct Source {
  uint32_t state = 0;  // schema::CuptiState; kNone until Arm has finished
  uint32_t dead = 0;   // 1 in a forked child: nothing is called any more
  Calls calls;
  BufferPool pool;
  schema::CuptiInfo info{};  // what the ring will say
  uint64_t earliest_ns = 0;
  uint64_t wanted_kinds = 0;
  uint64_t requests = 0, completions = 0, refused = 0, unknown_buffers = 0, records = 0, bad_times = 0;
  uint32_t communicator_seen = 0;
  uint64_t resume_after_ns = 0;
};
extern Source g_source;

inline schema::CuptiState State() { return static_cast<schema::CuptiState>(recorder::LoadAcquire(g_source.state)); }
inline void SetState(schema::CuptiState state) {
  recorder::StoreRelease(g_source.state, static_cast<uint32_t>(state));
}

// Registers the buffer callbacks and turns the wanted kinds on; the code of the first call that failed. The arming
// thread, then the flush thread.
Result RegisterAndEnable(const char** failing);
void DisableKinds();
// True if nobody holds the subscriber slot (it is given back at once). `result` gets the code if it is taken or can't
// be asked.
bool SlotIsFree(Result* result);
void SayFailure(const char* call, Result result);

// The setting's list as a set of activity kinds.
bool ParseGpuEvents(const char* text, uint64_t* kinds, char* unknown, size_t unknown_bytes);

}  // namespace rankscope::cupti

#endif  // RANKSCOPE_CUPTI_SUBSCRIBER_H_
