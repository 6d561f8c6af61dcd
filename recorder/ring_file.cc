// See ring_file.h.
#include "recorder/ring_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "recorder/log.h"

namespace rankscope::recorder {
namespace {

constexpr uint64_t kAlignment = 64;
// A process never takes more than this share of the free space: NCCL needs /dev/shm too, and a node has many ranks.
constexpr uint64_t kFreeSpaceShare = 16;
constexpr int kNameTries = 100;

uint64_t AlignUp(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
uint32_t FloorPowerOfTwo(uint64_t value) { return value == 0 ? 0u : 1u << (63 - __builtin_clzll(value)); }

// Sizes by tier: a ring of 16 MiB or more is meant for a whole node's worth of threads, one of 1 MiB for a crowded
// container.
void ChooseTier(RingGeometry* plan, uint64_t bytes) {
  if (bytes >= 16ull << 20) {
    plan->small_lanes = 56, plan->large_lanes = 5, plan->small_records = 1024, plan->small_slots = 256;
    plan->cells_per_lane = 48, plan->comms = 512, plan->names = 4096, plan->clock_pairs = 1024;
    plan->streams = 256, plan->gpu_buffers = 16;
  } else if (bytes >= 4ull << 20) {
    plan->small_lanes = 28, plan->large_lanes = 4, plan->small_records = 512, plan->small_slots = 128;
    plan->cells_per_lane = 32, plan->comms = 256, plan->names = 2048, plan->clock_pairs = 512;
    plan->streams = 128, plan->gpu_buffers = 0;
  } else {
    plan->small_lanes = 13, plan->large_lanes = 3, plan->small_records = 256, plan->small_slots = 64;
    plan->cells_per_lane = 16, plan->comms = 64, plan->names = 512, plan->clock_pairs = 256;
    plan->streams = 64, plan->gpu_buffers = 0;
  }
  plan->name_bytes = plan->names * 32ull;
}

void AddSection(RingGeometry* plan, schema::Section id, size_t entry_bytes, uint64_t count) {
  plan->sections[plan->section_count++] = {static_cast<uint32_t>(id), static_cast<uint32_t>(entry_bytes),
                                           plan->file_bytes, count};
  plan->file_bytes = AlignUp(plan->file_bytes + entry_bytes * count);
}

void LayOut(RingGeometry* plan) {
  using schema::Section;
  plan->section_count = 0;
  plan->file_bytes = schema::kHeaderRegionBytes;
  const uint64_t small = plan->small_lanes, large = plan->large_lanes;
  AddSection(plan, Section::kIdentity, sizeof(schema::ProcessIdentity), 1);
  AddSection(plan, Section::kClockPairs, sizeof(schema::ClockPair), plan->clock_pairs);
  AddSection(plan, Section::kNames, sizeof(schema::NameEntry), plan->names);
  AddSection(plan, Section::kNameBytes, 1, plan->name_bytes);
  AddSection(plan, Section::kComms, sizeof(schema::CommEntry), plan->comms);
  AddSection(plan, Section::kLosses, sizeof(uint64_t), schema::kLossReasonLimit);
  AddSection(plan, Section::kCupti, sizeof(schema::CuptiInfo), 1);
  AddSection(plan, Section::kStreams, sizeof(schema::StreamEntry), plan->streams);
  AddSection(plan, Section::kLanes, sizeof(schema::LaneHeader), plan->lanes());
  AddSection(plan, Section::kSlots, sizeof(schema::InFlightSlot),
             small * plan->small_slots + large * plan->large_slots);
  AddSection(plan, Section::kTotals, sizeof(schema::TotalCell), uint64_t{plan->lanes()} * plan->cells_per_lane);
  AddSection(plan, Section::kRecords, sizeof(schema::EventRecord),
             small * plan->small_records + large * plan->large_records);
  AddSection(plan, Section::kGpuBuffers, kGpuBufferBytes, plan->gpu_buffers);
}

// A directory that nobody else can play tricks in. -1: said why.
int OpenDirectory(int parent, const char* name, const char* shown) {
  if (mkdirat(parent, name, 0700) != 0 && errno != EEXIST) {
    LogWarning("can't make the directory %s: %s", shown, strerror(errno));
    return -1;
  }
  const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) {
    const bool link = errno == ELOOP || errno == ENOTDIR;
    LogWarning("%s is %s; rings need a directory of their own", shown,
               link ? "a symbolic link or not a directory" : strerror(errno));
    return -1;
  }
  struct stat status;
  if (fstat(fd, &status) != 0) {
    LogWarning("can't look at %s: %s", shown, strerror(errno));
  } else if (status.st_uid != geteuid() && status.st_uid != 0) {
    LogWarning("%s belongs to user %u, not to user %u of this process; set RANKSCOPE_DIR to a directory of your own",
               shown, static_cast<unsigned>(status.st_uid), static_cast<unsigned>(geteuid()));
  } else if ((status.st_mode & 0022) != 0 && (status.st_mode & S_ISVTX) == 0) {
    LogWarning("%s can be written by others (mode %03o); make it 0700 or set RANKSCOPE_DIR", shown,
               static_cast<unsigned>(status.st_mode & 0777));
  } else {
    return fd;
  }
  close(fd);
  return -1;
}

uint64_t LimitByFreeSpace(int directory, uint64_t wanted) {
  struct statvfs space;
  if (fstatvfs(directory, &space) != 0) return wanted;
  uint64_t share = static_cast<uint64_t>(space.f_bavail) * space.f_frsize / kFreeSpaceShare;
  if (share < kSmallestRingBytes) share = kSmallestRingBytes;
  return share < wanted ? share : wanted;
}

// A new file for the ring; a name that is taken (a reused pid) gets a number. -1: errno says why.
int CreateFile(int directory, const char* host, uint32_t pid, char* name, size_t name_bytes) {
  for (int attempt = 0; attempt < kNameTries; ++attempt) {
    if (attempt == 0) {
      snprintf(name, name_bytes, "%s.%u.ring", host, pid);
    } else {
      snprintf(name, name_bytes, "%s.%u.%d.ring", host, pid, attempt);
    }
    const int fd = openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

// Reserves the space for good, halving until it fits. 0: no room, errno says why.
uint64_t Reserve(int fd, uint64_t wanted) {
  for (uint64_t bytes = wanted; bytes >= kSmallestRingBytes; bytes /= 2) {
    const uint64_t file_bytes = PlanRing(bytes).file_bytes;
    const int error = posix_fallocate(fd, 0, static_cast<off_t>(file_bytes));
    if (error == 0) return bytes;
    errno = error;
    if (error != ENOSPC && error != EDQUOT && error != EFBIG) return 0;
    if (ftruncate(fd, 0) != 0) return 0;
  }
  errno = ENOSPC;
  return 0;
}

// The ring in the open directory `job_fd`. False: said why.
bool CreateIn(int job_fd, const char* job_path, uint64_t wanted_bytes, const char* host, uint32_t pid,
              RingMapping* ring) {
  char name[kNameLimit * 2 + 48];
  const int fd = CreateFile(job_fd, host, pid, name, sizeof(name));
  if (fd < 0) {
    LogWarning("can't make the ring %s/%s: %s", job_path, name, strerror(errno));
    return false;
  }
  snprintf(ring->path, sizeof(ring->path), "%s/%s", job_path, name);
  const uint64_t bytes = Reserve(fd, LimitByFreeSpace(job_fd, wanted_bytes));
  void* base = MAP_FAILED;
  if (bytes != 0) {
    ring->geometry = PlanRing(bytes);
    base = mmap(nullptr, ring->geometry.file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  }
  if (base == MAP_FAILED) {
    LogWarning("no room for a ring of at least %llu KiB in %s: %s",
               static_cast<unsigned long long>(kSmallestRingBytes >> 10), job_path, strerror(errno));
    unlinkat(job_fd, name, 0);
    close(fd);
    return false;
  }
  close(fd);
  if (bytes < wanted_bytes) {
    LogWarning("%s has little room: the ring has %llu KiB instead of %llu KiB, so its history is shorter", job_path,
               static_cast<unsigned long long>(bytes >> 10), static_cast<unsigned long long>(wanted_bytes >> 10));
  }
  ring->base = base;
  return true;
}

bool CreateUnder(const char* dir, const char* job, uint64_t bytes, const char* host, uint32_t pid,
                 RingMapping* ring) {
  const int top = OpenDirectory(AT_FDCWD, dir, dir);
  if (top < 0) return false;
  char job_path[kPathLimit + kNameLimit + 2];
  snprintf(job_path, sizeof(job_path), "%s/%s", dir, job);
  const int job_fd = OpenDirectory(top, job, job_path);
  close(top);
  if (job_fd < 0) return false;
  const bool made = CreateIn(job_fd, job_path, bytes, host, pid, ring);
  close(job_fd);
  return made;
}

}  // namespace

RingGeometry PlanRing(uint64_t bytes) {
  RingGeometry plan;
  ChooseTier(&plan, bytes);
  // Everything but the large lanes first, then the large lanes take what is left; a slot for every 16 records.
  RingGeometry fixed = plan;
  fixed.large_slots = fixed.large_records = 0;
  LayOut(&fixed);
  constexpr uint64_t kBytesPerRecord = sizeof(schema::EventRecord) + sizeof(schema::InFlightSlot) / 16;
  const uint64_t left = bytes > fixed.file_bytes ? bytes - fixed.file_bytes : 0;
  plan.large_records = FloorPowerOfTwo(left / plan.large_lanes / kBytesPerRecord);
  if (plan.large_records < plan.small_records) plan.large_records = plan.small_records;
  plan.large_slots = plan.large_records / 16 > 4096 ? 4096 : plan.large_records / 16;
  if (plan.large_slots < plan.small_slots) plan.large_slots = plan.small_slots;
  LayOut(&plan);
  return plan;
}

RingMapping CreateRing(const Config& config, const char* job, const char* host, uint32_t pid) {
  RingMapping ring;
  if (CreateUnder(config.dir, job, config.ring_bytes, host, pid, &ring)) return ring;
  if (config.fallback_dir[0] != '\0') {
    LogWarning("trying RANKSCOPE_FALLBACK_DIR, %s", config.fallback_dir);
    if (CreateUnder(config.fallback_dir, job, config.ring_bytes, host, pid, &ring)) return ring;
  }
  return ring;
}

}  // namespace rankscope::recorder
