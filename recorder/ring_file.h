// Making the ring's file: where it goes, how big it may be, and its parts.
//
// Called by the starting thread only. Space is reserved before the file is mapped, since a container's /dev/shm is
// often 64 MiB and writing past what is there kills the process with SIGBUS. Where the wanted size does not fit a
// smaller one is taken, then the fallback directory, then none; each is said in one sentence. Nothing is followed
// that could be a trap: the directories are opened without following a link in the last place, must belong to us (or
// to root), and the file must be new.
#ifndef RANKSCOPE_RECORDER_RING_FILE_H_
#define RANKSCOPE_RECORDER_RING_FILE_H_

#include <cstddef>
#include <cstdint>

#include "recorder/config.h"
#include "schema/ring_abi.h"

namespace rankscope::recorder {

inline constexpr uint64_t kSmallestRingBytes = 1ull << 20;
// One of CUPTI's buffers: 500 to 600 kernels. Small ones come back sooner, and an unfinished kernel holds back no
// more than its buffer.
inline constexpr uint64_t kGpuBufferBytes = 128ull << 10;

// Offsets and counts of every section, computed from the size alone.
struct RingGeometry {
  uint64_t file_bytes = 0;  // at most what was asked for
  uint32_t small_lanes = 0, large_lanes = 0;
  uint32_t small_records = 0, large_records = 0;  // powers of two
  uint32_t small_slots = 0, large_slots = 0;      // powers of two
  uint32_t cells_per_lane = 0;
  uint32_t comms = 0, names = 0, clock_pairs = 0;
  uint64_t name_bytes = 0;
  uint32_t streams = 0, gpu_buffers = 0;
  schema::SectionEntry sections[schema::kSectionLimit] = {};
  uint32_t section_count = 0;

  uint32_t lanes() const { return small_lanes + large_lanes; }
};
// `bytes` >= kSmallestRingBytes.
RingGeometry PlanRing(uint64_t bytes);

struct RingMapping {
  void* base = nullptr;  // nullptr = no ring; why was said on stderr
  RingGeometry geometry;
  char path[kPathLimit + 4 * kNameLimit + 64] = {};
};
// Makes <dir>/<job>/<host>.<pid>.ring, mapped and zero.
RingMapping CreateRing(const Config& config, const char* job, const char* host, uint32_t pid);

}  // namespace rankscope::recorder

#endif  // RANKSCOPE_RECORDER_RING_FILE_H_
