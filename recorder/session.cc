// See session.h.
#include "recorder/session.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "recorder/in_flight.h"
#include "recorder/lane_table.h"
#include "recorder/log.h"
#include "recorder/ring_file.h"

namespace rankscope::recorder {

constinit Session g_session;

namespace {

pthread_mutex_t g_start_lock = PTHREAD_MUTEX_INITIALIZER;
enum class Outcome : uint32_t { kNotTried, kRecording, kOff };
Outcome g_outcome = Outcome::kNotTried;  // under g_start_lock
bool g_fork_handlers_installed = false;  // under g_start_lock
uint32_t g_doors = 0;                    // schema::Door

// In the child: forget the ring (it is the parent's), the lanes, and the lock that another thread may have held.
void AfterForkInChild() {
  if (Active()) StoreRelaxed(g_session.forked, 1u);
  StoreRelease(g_session.active, 0u);
  t_lane = nullptr;
  ForgetLanes();
  g_outcome = Outcome::kNotTried;
  g_start_lock = PTHREAD_MUTEX_INITIALIZER;
  ForgetClockLock();
}

template <typename T>
T* SectionAt(void* base, const RingGeometry& geometry, schema::Section id, uint64_t* count = nullptr) {
  for (uint32_t i = 0; i < geometry.section_count; ++i) {
    const schema::SectionEntry& section = geometry.sections[i];
    if (section.id != static_cast<uint32_t>(id)) continue;
    if (count != nullptr) *count = section.count;
    return reinterpret_cast<T*>(static_cast<char*>(base) + section.offset);
  }
  return nullptr;
}

uint32_t RandomSalt() {
  uint32_t salt = 0;
  if (getrandom(&salt, sizeof(salt), GRND_NONBLOCK) != sizeof(salt)) {
    salt = static_cast<uint32_t>(ReadTicks() * 2654435761u) ^ static_cast<uint32_t>(getpid());
  }
  // Neither half zero: handles use the low half, contexts both.
  if ((salt & 0xffffu) == 0) salt |= 0x5a5au;
  if ((salt >> 16) == 0) salt |= 0xa5a50000u;
  return salt;
}

void FillHeader(const RingMapping& ring, const ClockDescription& clock) {
  auto* header = static_cast<schema::RingHeader*>(ring.base);
  const RingGeometry& geometry = ring.geometry;
  header->byte_order = schema::kByteOrderMark;
  header->major = schema::kRingMajor;
  header->minor = schema::kRingMinor;
  header->header_bytes = sizeof(schema::RingHeader);
  header->record_bytes = sizeof(schema::EventRecord);
  header->file_bytes = geometry.file_bytes;
  header->section_count = geometry.section_count;
  header->lane_count = geometry.lanes();
  header->small_lane_count = geometry.small_lanes;
  header->cells_per_lane = geometry.cells_per_lane;
  header->tick_source = static_cast<uint32_t>(clock.source);
  header->ticks_per_second = clock.ticks_per_second;
  header->start_ticks = ReadTicks();
  memcpy(header->sections, geometry.sections, sizeof(header->sections));
}

void PointInto(const RingMapping& ring) {
  using schema::Section;
  void* base = ring.base;
  const RingGeometry& geometry = ring.geometry;
  uint64_t count = 0;
  g_session.header = static_cast<schema::RingHeader*>(base);
  g_session.identity = SectionAt<schema::ProcessIdentity>(base, geometry, Section::kIdentity);
  g_session.names = SectionAt<schema::NameEntry>(base, geometry, Section::kNames);
  g_session.name_bytes = SectionAt<char>(base, geometry, Section::kNameBytes);
  g_session.comms = SectionAt<schema::CommEntry>(base, geometry, Section::kComms);
  StoreRelease(g_session.losses, SectionAt<uint64_t>(base, geometry, Section::kLosses));
  g_session.cupti = SectionAt<schema::CuptiInfo>(base, geometry, Section::kCupti);
  g_session.streams = SectionAt<schema::StreamEntry>(base, geometry, Section::kStreams);
  g_session.gpu_buffers = SectionAt<char>(base, geometry, Section::kGpuBuffers);
  g_session.lane_headers = SectionAt<schema::LaneHeader>(base, geometry, Section::kLanes);
  g_session.slots = SectionAt<schema::InFlightSlot>(base, geometry, Section::kSlots, &count);
  g_session.slot_count = count;
  g_session.cells = SectionAt<schema::TotalCell>(base, geometry, Section::kTotals);
  g_session.records = SectionAt<schema::EventRecord>(base, geometry, Section::kRecords);
  g_session.name_capacity = geometry.names;
  g_session.name_bytes_capacity = geometry.name_bytes;
  g_session.comm_capacity = geometry.comms;
  g_session.lane_count = geometry.lanes();
  g_session.stream_capacity = geometry.streams;
  g_session.gpu_buffer_count = geometry.gpu_buffers;
  g_session.map_bytes = geometry.file_bytes;
}

bool StartLocked() {
  g_session.config = ReadConfig();
  const Config& config = g_session.config;
  if (config.disabled) {
    LogInfo("RANKSCOPE_DISABLE is set: nothing is recorded");
    return false;
  }
  if (!g_fork_handlers_installed) {
    if (pthread_atfork(nullptr, nullptr, AfterForkInChild) != 0) {
      LogWarning(
          "can't install a fork handler, without which a forked child could write into this ring; nothing is "
          "recorded");
      return false;
    }
    g_fork_handlers_installed = true;
  }
  const ClockDescription clock = ProcessClock();
  static schema::ProcessIdentity identity;
  memset(&identity, 0, sizeof(identity));
  DescribeProcess(&identity);
  ReadEnvironmentIdentity(&identity);
  DescribeAccelerator(&identity);
  char job[kNameLimit];
  if (config.job[0] != '\0') {
    memcpy(job, config.job, sizeof(job));
  } else {
    JobFromEnvironment(job, sizeof(job));
  }
  snprintf(identity.job, sizeof(identity.job), "%s", job);
  char host[kNameLimit];
  CopySafeName(identity.host[0] != '\0' ? identity.host : "host", host, sizeof(host));

  const RingMapping ring = CreateRing(config, job, host, identity.pid);
  if (ring.base == nullptr) {
    LogWarning("recording is off in process %u; the training goes on", identity.pid);
    return false;
  }
  FillHeader(ring, clock);
  PointInto(ring);
  memcpy(g_session.identity, &identity, sizeof(identity));
  g_session.salt = RandomSalt();
  g_session.generation++;
  uint64_t pair_capacity = 0;
  auto* pairs = SectionAt<schema::ClockPair>(ring.base, ring.geometry, schema::Section::kClockPairs, &pair_capacity);
  g_session.clock_pairs.Attach(pairs, pair_capacity, &g_session.header->clock_pair_count, clock.ticks_per_second);
  SetUpLanes(ring.geometry);
  StoreRelaxed(g_session.header->state, static_cast<uint32_t>(schema::RingState::kRecording));
  StoreRelease(g_session.header->magic, schema::kRingMagic);
  StoreRelaxed(g_session.forked, 0u);
  StoreRelease(g_session.active, 1u);
  OrShared(g_session.header->doors, LoadRelaxed(g_doors));
  LogInfo("recording to %s (%llu KiB)", ring.path, static_cast<unsigned long long>(ring.geometry.file_bytes >> 10));
  return true;
}

}  // namespace

void RememberDoor(schema::Door door) {
  OrShared(g_doors, static_cast<uint32_t>(door));
  if (Active()) OrShared(g_session.header->doors, static_cast<uint32_t>(door));
}

bool Start() {
  if (Active()) return true;
  const int saved_errno = errno;
  pthread_mutex_lock(&g_start_lock);
  if (g_outcome == Outcome::kNotTried) g_outcome = StartLocked() ? Outcome::kRecording : Outcome::kOff;
  const bool recording = g_outcome == Outcome::kRecording;
  pthread_mutex_unlock(&g_start_lock);
  errno = saved_errno;
  return recording;
}

void RefreshIdentity() {
  if (!Active()) return;
  const int saved_errno = errno;
  pthread_mutex_lock(&g_start_lock);
  ReadEnvironmentIdentity(g_session.identity);
  DescribeAccelerator(g_session.identity);
  pthread_mutex_unlock(&g_start_lock);
  errno = saved_errno;
}

void LearnRank(int32_t rank, int32_t ranks) {
  if (!Active()) return;
  pthread_mutex_lock(&g_start_lock);
  LearnRankFromCommunicator(g_session.identity, rank, ranks);
  pthread_mutex_unlock(&g_start_lock);
}

}  // namespace rankscope::recorder
