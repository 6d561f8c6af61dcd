// See host_sample.h.
#include "recorder/host_sample.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "recorder/session.h"

namespace rankscope::recorder {
namespace {

uint64_t g_next_due_ticks = 0;

// The second number of /proc/self/statm, in pages.
uint64_t ResidentBytes() {
  const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[128] = {};
  const ssize_t got = read(fd, text, sizeof(text) - 1);
  close(fd);
  const char* space = got > 0 ? strchr(text, ' ') : nullptr;
  return space == nullptr ? 0 : strtoull(space, nullptr, 10) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

void MaybeSampleHost(uint64_t now_ticks) {
  uint64_t due = LoadRelaxed(g_next_due_ticks);
  if (now_ticks < due) return;
  if (!CompareExchange(g_next_due_ticks, due, now_ticks + g_session.header->ticks_per_second)) return;
  Lane* lane = CurrentLane();
  if (lane == nullptr) return;
  timespec cpu{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const uint64_t cpu_ns = static_cast<uint64_t>(cpu.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(cpu.tv_nsec);
  const uint64_t resident = ResidentBytes();
  const uint64_t now = ReadTicks();
  Commit(lane, {now,
                now,
                PackKind(schema::EventKind::kHostSample, 0, schema::kCommUnknown, 0),
                0,
                {cpu_ns, resident, static_cast<uint64_t>(usage.ru_majflt)}});
}

}  // namespace rankscope::recorder
