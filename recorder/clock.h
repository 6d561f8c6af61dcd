// The process's one clock: ticks, and the pairs that tie them to CLOCK_MONOTONIC and CLOCK_REALTIME.
//
// ReadTicks() is called on the hot path by every thread; it is one instruction where the counter is invariant. Pairs
// are taken at start and then about once a second by whichever thread's event finds one due (MaybeTakeClockPair): two
// or three vDSO reads, never a lock: a thread that finds another one at it goes on.
#ifndef RANKSCOPE_RECORDER_CLOCK_H_
#define RANKSCOPE_RECORDER_CLOCK_H_

#include <cstdint>
#include <ctime>

#include "recorder/atomic_word.h"
#include "schema/ring_abi.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace rankscope::recorder {

struct ClockDescription {
  schema::TickSource source;
  uint64_t ticks_per_second;
};

inline uint64_t MonotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}
inline uint64_t RealtimeNs() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

// True where the counter must not be used; decided once by DescribeClock, read on the hot path.
extern bool g_use_monotonic_clock;

// The hardware counter itself: only where it was chosen (Lane::fast_events says so).
inline uint64_t ReadCounter() {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return MonotonicNs();
#endif
}

inline uint64_t ReadTicks() {
  if (__builtin_expect(g_use_monotonic_clock, 0)) return MonotonicNs();
  return ReadCounter();
}

// Chooses the source and estimates its rate; spins for at most 300 us. Not on the hot path.
// The counter is taken where the CPU says that it is invariant and the kernel itself keeps time by it (then the
// kernel has proved that the CPUs agree); RANKSCOPE_CLOCK=monotonic forces CLOCK_MONOTONIC.
ClockDescription DescribeClock(bool force_monotonic);

// The process's clock, described once: RANKSCOPE_CLOCK is read, then DescribeClock. Any thread; not on the hot path.
ClockDescription ProcessClock();
// In a forked child: another thread may have held its lock.
void ForgetClockLock();

// Takes a triple of readings now: up to five tries, the narrowest window wins.
schema::ClockPair TakeClockPair();

// The clock pairs of a ring. `pairs` has `capacity` entries; any thread may call Append.
class ClockPairs {
 public:
  constexpr ClockPairs() = default;
  void Attach(schema::ClockPair* pairs, uint64_t capacity, uint64_t* count, uint64_t ticks_per_second);
  // Stores one more pair unless another thread is storing one.
  void Append();
  bool Due(uint64_t now_ticks) const { return now_ticks >= LoadRelaxed(next_due_ticks_); }

 private:
  schema::ClockPair* pairs_ = nullptr;
  uint64_t capacity_ = 0;
  uint64_t* count_ = nullptr;
  uint64_t ticks_per_second_ = 0;
  uint64_t next_due_ticks_ = ~0ull;
  uint32_t busy_ = 0;
};

}  // namespace rankscope::recorder

#endif  // RANKSCOPE_RECORDER_CLOCK_H_
