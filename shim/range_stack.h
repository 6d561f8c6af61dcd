// Ranges and marks on their way into the ring: per-thread stacks of pushed ranges, and one table of started ones.
//
// Called on any thread, inside the user's hot path. One kRange record is written at a range's end; an open range is
// known to its thread alone. Stacks lie in a static pool and are found by one thread-local pointer (a dlopened
// library must fit into the little static TLS that the loader keeps free). NVTX's stacks are per thread and domain:
// one stack of ours holds all domains of a thread, and a pop takes the newest range of its domain. Nothing here
// allocates, locks or calls into the system, except a thread's first range (it may start the recorder) and its end.
// Must never throw, print, or keep a caller's pointer.
#ifndef RANKSCOPE_SHIM_RANGE_STACK_H_
#define RANKSCOPE_SHIM_RANGE_STACK_H_

#include <cstdint>

#include "recorder/atomic_word.h"
#include "recorder/session.h"
#include "schema/event_abi.h"
#include "shim/range_names.h"

namespace rankscope::shim {

inline constexpr uint32_t kStackDepth = 64;      // pushed ranges that are kept of a thread
inline constexpr uint32_t kStartedLimit = 1024;  // started ranges that are kept of a process
inline constexpr uint32_t kThreadLimit = 128;    // threads with ranges at once

struct OpenRange {
  uint64_t begin_ticks;
  uint64_t value;
  uint32_t name;
  uint32_t detail;
  uint8_t domain;
  uint8_t depth;  // ranges that were open around it
  uint8_t traits;
  schema::Phase phase;
  schema::RangeForm form;
};

struct RangeThread {
  uint32_t owner;  // 0 = free; else the session's generation: one of an earlier session (fork) may be taken over
  uint32_t doors;  // Door bits that this thread has noted
  uint32_t depth;  // entries of stack
  uint32_t next_started;
  uint32_t open[kDomainLimit];    // pushed and not popped, by domain
  uint32_t beyond[kDomainLimit];  // those of them that are not kept: always the domain's newest
  OpenRange stack[kStackDepth];
  NameCache names;
};
extern thread_local constinit RangeThread* t_ranges;

// What a range carries besides its name.
struct RangeExtra {
  uint64_t value = 0;
  uint32_t detail = 0;
  bool present = false;  // at a range's end: replaces what its begin said
};

// The calling thread's stack, if the recorder records; starts it if nothing else did. nullptr else.
RangeThread* OpenRangeThread(schema::Door door);
inline RangeThread* RangeThreadFor(schema::Door door) {
  RangeThread* thread = t_ranges;
  if (__builtin_expect(thread != nullptr && recorder::Active() &&
                           recorder::LoadRelaxed(thread->owner) == recorder::g_session.generation &&
                           (thread->doors & door) != 0,
                       1)) {
    return thread;
  }
  return OpenRangeThread(door);
}
// The same for the end of a range, which starts nothing.
inline RangeThread* RunningRangeThread() {
  RangeThread* thread = t_ranges;
  if (thread == nullptr || !recorder::Active() ||
      recorder::LoadRelaxed(thread->owner) != recorder::g_session.generation)
    return nullptr;
  return thread;
}

// All of these give what NVTX wants to hear: the level of the range in its domain, or a negative number.
int PushRange(RangeThread* thread, uint32_t domain, NameInfo name, const RangeExtra& extra, schema::RangeForm form);
int PopRange(uint32_t domain, const RangeExtra& extra);
// The id of the range; 0 where it is not kept (counted).
uint64_t StartRange(RangeThread* thread, uint32_t domain, NameInfo name, const RangeExtra& extra);
void EndRange(uint64_t id, const RangeExtra& extra);
void MarkInstant(RangeThread* thread, uint32_t domain, NameInfo name, const RangeExtra& extra,
                 schema::RangeForm form);

}  // namespace rankscope::shim

#endif  // RANKSCOPE_SHIM_RANGE_STACK_H_
