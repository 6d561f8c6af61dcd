// Ranges of the host's time: stacks per thread and domain, ranges that start on one thread and end on another, marks.
// NVTX (nvtx_injection.cc) and the Python hook (hook_entry.cc) bring them; one record is written when a range ends.
//
// All functions run inside the training's own calls, on any thread: no lock, no allocation, no system call after a
// thread's first range; errno is kept. The ring is made with the process's first range. What is unbalanced is
// repaired and counted (docs/design.md).
#ifndef RANKSCOPE_SHIM_RANGES_H_
#define RANKSCOPE_SHIM_RANGES_H_

#include <cstdint>

#include "schema/event_abi.h"
#include "schema/ring_abi.h"
#include "shim/range_names.h"

namespace rankscope::shim {

// What a range says.
struct RangeText {
  const char* ascii = nullptr;  // one of the three, or none
  const wchar_t* wide = nullptr;
  Handle* registered = nullptr;
  Handle* domain = nullptr;  // nullptr = NVTX's default domain
  uint64_t value = 0;
  uint32_t detail = 0;
  schema::Phase phase = schema::Phase::kUnknown;
  schema::PhaseSource phase_source = schema::PhaseSource::kNone;
  schema::RangeForm form = schema::RangeForm::kPushPop;
};

// True if ranges are recorded in this process: starts the recorder with the first. `door` is noted.
bool Recording(schema::Door door);

// The depth before the push, as NVTX gives it; -1 where it isn't kept.
int PushRange(const RangeText& text);
// The depth after the pop; -1 where nothing was open in that domain (counted).
int PopRange(const Handle* domain);
// An id, 0 where it isn't kept (counted). EndRange may be on another thread; an id that isn't open is counted.
uint64_t StartRange(const RangeText& text);
void EndRange(uint64_t id);
void Mark(const RangeText& text);

}  // namespace rankscope::shim

#endif  // RANKSCOPE_SHIM_RANGES_H_
