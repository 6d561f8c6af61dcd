// See gpu_clock.h.
#include "cupti/gpu_clock.h"

#include "recorder/clock.h"

namespace rankscope::cupti {
namespace {

using recorder::LoadAcquire;
using recorder::LoadRelaxed;
using recorder::StoreRelaxed;
using recorder::StoreRelease;

// Fixed point with 44 fraction bits: a rate of 0.2 to 5 fits with room for 2^70 of the other unit, and is exact to 7
// ns a day.
constexpr int kFraction = 44;
constexpr uint64_t kCalibrationNs = 5'000'000;

struct Anchor {
  uint64_t ticks = 0;
  uint64_t cupti_ns = 0;
};

// Written by AnchorClock before anything can ask.
Anchor g_anchor;
uint64_t g_ns_per_tick = 0;   // fixed point
uint64_t g_ticks_per_ns = 0;  // fixed point
uint32_t g_mode = 0;          // schema::CuptiClock

// Realtime mode: the newest anchor, under a sequence number that is odd while it is written.
uint64_t g_realtime_sequence = 0;
Anchor g_realtime;

uint64_t Scale(uint64_t value, uint64_t fixed_point) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(value) * fixed_point) >> kFraction);
}

uint64_t Convert(const Anchor& anchor, uint64_t cupti_ns) {
  if (cupti_ns >= anchor.cupti_ns) return anchor.ticks + Scale(cupti_ns - anchor.cupti_ns, g_ticks_per_ns);
  const uint64_t before = Scale(anchor.cupti_ns - cupti_ns, g_ticks_per_ns);
  return before < anchor.ticks ? anchor.ticks - before : 0;
}

Anchor NewestRealtime() {
  for (;;) {
    const uint64_t sequence = LoadAcquire(g_realtime_sequence);
    const Anchor anchor{LoadRelaxed(g_realtime.ticks), LoadRelaxed(g_realtime.cupti_ns)};
    recorder::FenceAcquire();
    if ((sequence & 1) == 0 && LoadRelaxed(g_realtime_sequence) == sequence) return anchor;
  }
}

}  // namespace

void AnchorClock() {
  if (g_ns_per_tick != 0) return;
  recorder::ProcessClock();
  const schema::ClockPair first = recorder::TakeClockPair();
  while (recorder::MonotonicNs() - first.monotonic_ns < kCalibrationNs) {
  }
  const schema::ClockPair last = recorder::TakeClockPair();
  const uint64_t ticks = last.ticks - first.ticks, elapsed_ns = last.monotonic_ns - first.monotonic_ns;
  if (recorder::g_use_monotonic_clock || ticks == 0 || elapsed_ns == 0) {
    g_ns_per_tick = g_ticks_per_ns = uint64_t{1} << kFraction;
  } else {
    g_ns_per_tick = static_cast<uint64_t>((static_cast<unsigned __int128>(elapsed_ns) << kFraction) / ticks);
    g_ticks_per_ns = static_cast<uint64_t>((static_cast<unsigned __int128>(1) << (2 * kFraction)) / g_ns_per_tick);
  }
  g_anchor = {last.ticks, last.realtime_ns};
  g_realtime = g_anchor;
}

uint64_t TimestampNow() { return g_anchor.cupti_ns + Scale(recorder::ReadTicks() - g_anchor.ticks, g_ns_per_tick); }

void SetClockMode(schema::CuptiClock mode) { StoreRelease(g_mode, static_cast<uint32_t>(mode)); }
schema::CuptiClock ClockMode() { return static_cast<schema::CuptiClock>(LoadAcquire(g_mode)); }

uint64_t TakeRealtimeAnchor() {
  const Anchor before = NewestRealtime();
  const schema::ClockPair pair = recorder::TakeClockPair();
  const uint64_t expected_ticks = Convert(before, pair.realtime_ns);
  const uint64_t off_ticks = expected_ticks > pair.ticks ? expected_ticks - pair.ticks : pair.ticks - expected_ticks;
  const uint64_t sequence = LoadRelaxed(g_realtime_sequence);
  StoreRelaxed(g_realtime_sequence, sequence + 1);
  recorder::FenceRelease();
  StoreRelaxed(g_realtime.ticks, pair.ticks);
  StoreRelaxed(g_realtime.cupti_ns, pair.realtime_ns);
  StoreRelease(g_realtime_sequence, sequence + 2);
  const uint64_t off_ns = Scale(off_ticks, g_ns_per_tick);
  return off_ns > pair.uncertainty_ns ? off_ns : pair.uncertainty_ns;
}

uint64_t ToTicks(uint64_t cupti_ns) {
  return ClockMode() == schema::CuptiClock::kRealtime ? Convert(NewestRealtime(), cupti_ns)
                                                      : Convert(g_anchor, cupti_ns);
}

uint64_t CuptiNowNs() {
  return ClockMode() == schema::CuptiClock::kRealtime ? recorder::RealtimeNs() : TimestampNow();
}

}  // namespace rankscope::cupti
