// See clock.h. Runs at start and about once a second; never on the hot path but for ReadTicks, which is inline.
#include "recorder/clock.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "recorder/config.h"

namespace rankscope::recorder {

bool g_use_monotonic_clock = true;

namespace {

#if defined(__x86_64__)
// CPUID 0x80000007, EDX bit 8: "TSC ticks at a constant rate in all states" (Intel SDM 17.17.1, AMD APM 13.2.4).
bool CpuHasInvariantCounter() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0x80000007u, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (edx & (1u << 8)) != 0;
}

// The kernel's clock source: "tsc", and the paravirtual ones that are the counter plus a scale.
bool KernelTrustsCounter() {
  const int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char name[64] = {};
  const ssize_t got = read(fd, name, sizeof(name) - 1);
  close(fd);
  if (got <= 0) return false;
  return strncmp(name, "tsc", 3) == 0 || strncmp(name, "kvm-clock", 9) == 0 ||
         strncmp(name, "hyperv_clocksource_tsc", 22) == 0;
}
#endif

schema::TickSource ChooseSource(bool force_monotonic) {
  if (force_monotonic) return schema::TickSource::kMonotonicNs;
#if defined(__x86_64__)
  if (CpuHasInvariantCounter() && KernelTrustsCounter()) return schema::TickSource::kTsc;
  return schema::TickSource::kMonotonicNs;
#elif defined(__aarch64__)
  return schema::TickSource::kArmCounter;  // the architecture demands a system-wide constant rate (Arm ARM D11.1.2)
#else
  return schema::TickSource::kMonotonicNs;
#endif
}

constexpr uint64_t kRateSpinNs = 200'000;

uint64_t EstimateTicksPerSecond() {
#if defined(__aarch64__)
  uint64_t frequency;
  asm volatile("mrs %0, cntfrq_el0" : "=r"(frequency));
  if (frequency != 0) return frequency;
#endif
  const schema::ClockPair first = TakeClockPair();
  while (MonotonicNs() - first.monotonic_ns < kRateSpinNs) {
  }
  const schema::ClockPair last = TakeClockPair();
  const uint64_t elapsed_ns = last.monotonic_ns - first.monotonic_ns;
  if (elapsed_ns == 0) return 1'000'000'000u;
  return static_cast<uint64_t>(static_cast<double>(last.ticks - first.ticks) * 1e9 / static_cast<double>(elapsed_ns));
}

}  // namespace

ClockDescription DescribeClock(bool force_monotonic) {
  const schema::TickSource source = ChooseSource(force_monotonic);
  g_use_monotonic_clock = source == schema::TickSource::kMonotonicNs;
  return {source, g_use_monotonic_clock ? 1'000'000'000u : EstimateTicksPerSecond()};
}

namespace {
pthread_mutex_t g_clock_lock = PTHREAD_MUTEX_INITIALIZER;
ClockDescription g_clock;     // under g_clock_lock
bool g_clock_chosen = false;  // under g_clock_lock
}  // namespace

ClockDescription ProcessClock() {
  pthread_mutex_lock(&g_clock_lock);
  if (!g_clock_chosen) {
    g_clock = DescribeClock(ReadsMonotonicClock());
    g_clock_chosen = true;
  }
  const ClockDescription clock = g_clock;
  pthread_mutex_unlock(&g_clock_lock);
  return clock;
}

void ForgetClockLock() { g_clock_lock = PTHREAD_MUTEX_INITIALIZER; }

schema::ClockPair TakeClockPair() {
  constexpr int kTries = 5;
  schema::ClockPair best{};
  best.uncertainty_ns = ~0ull;
  for (int i = 0; i < kTries; ++i) {
    // monotonic, ticks, realtime, monotonic: the ticks and the realtime lie between the two monotonic readings.
    const uint64_t before_ns = MonotonicNs();
    const uint64_t ticks = ReadTicks();
    const uint64_t realtime_ns = RealtimeNs();
    const uint64_t after_ns = MonotonicNs();
    const uint64_t window_ns = after_ns - before_ns;
    if (window_ns >= best.uncertainty_ns) continue;
    best.ticks = ticks;
    best.monotonic_ns = before_ns + window_ns / 2;
    best.realtime_ns = realtime_ns;
    best.uncertainty_ns = window_ns;
  }
  if (g_use_monotonic_clock) best.ticks = best.monotonic_ns;
  return best;
}

void ClockPairs::Attach(schema::ClockPair* pairs, uint64_t capacity, uint64_t* count, uint64_t ticks_per_second) {
  pairs_ = pairs;
  capacity_ = capacity;
  count_ = count;
  ticks_per_second_ = ticks_per_second;
  StoreRelaxed(busy_, 0u);
  Append();
}

void ClockPairs::Append() {
  if (pairs_ == nullptr || !CompareExchange(busy_, 0u, 1u)) return;
  const schema::ClockPair reading = TakeClockPair();
  const uint64_t index = LoadRelaxed(*count_);
  const uint64_t position =
      index < schema::kFirstClockPairs
          ? index
          : schema::kFirstClockPairs + (index - schema::kFirstClockPairs) % (capacity_ - schema::kFirstClockPairs);
  schema::ClockPair& entry = pairs_[position];
  StoreRelaxed(entry.commit, 0u);
  FenceRelease();
  StoreRelaxed(entry.ticks, reading.ticks);
  StoreRelaxed(entry.monotonic_ns, reading.monotonic_ns);
  StoreRelaxed(entry.realtime_ns, reading.realtime_ns);
  StoreRelaxed(entry.uncertainty_ns, reading.uncertainty_ns);
  StoreRelease(entry.commit, index + 1);
  StoreRelease(*count_, index + 1);
  // The first 64 pairs a second apart, then ten: the rotating part then spans hours.
  const uint64_t interval_s = index < schema::kFirstClockPairs ? 1 : 10;
  StoreRelaxed(next_due_ticks_, reading.ticks + interval_s * ticks_per_second_);
  StoreRelease(busy_, 0u);
}

}  // namespace rankscope::recorder
