// CUPTI's time and ours. CUPTI is asked to take its times from TimestampNow(): nanoseconds that are our ticks,
// anchored once at the wall clock, so that a time converts back to ticks exactly, never steps and never runs
// backwards. Where CUPTI can't be asked (before 11.6, or refused) its CLOCK_REALTIME is converted by anchors that the
// flush thread takes once a second.
//
// TimestampNow runs on any thread, also inside CUPTI's locks: no lock, no call, no allocation. Must never: be
// re-anchored, or be registered twice in a process (CUPTI then mixes the two domains).
#ifndef RANKSCOPE_CUPTI_GPU_CLOCK_H_
#define RANKSCOPE_CUPTI_GPU_CLOCK_H_

#include <cstdint>

#include "schema/ring_abi.h"

namespace rankscope::cupti {

// Chooses the process's clock if that isn't done and anchors ours. Spins for 5 ms the first time, so that the
// anchored clock is within some 10 ppm of the wall clock's rate. Once a process; the arming thread.
void AnchorClock();

uint64_t TimestampNow();

// What CUPTI stamps with from now on.
void SetClockMode(schema::CuptiClock mode);
schema::CuptiClock ClockMode();

// Realtime mode: takes an anchor. `error_ns`: the reading's window, or how far the wall clock had stepped since the
// last anchor if that is more. The flush thread.
uint64_t TakeRealtimeAnchor();

// A time of CUPTI as ticks of the recorder's clock.
uint64_t ToTicks(uint64_t cupti_ns);
// What CUPTI would stamp now.
uint64_t CuptiNowNs();

}  // namespace rankscope::cupti

#endif  // RANKSCOPE_CUPTI_GPU_CLOCK_H_
