// The one recorder of the process: it starts when the first source (NCCL's plugin today) has something to record,
// makes the ring, and is found running by the others. Starting happens on the calling thread, under a lock that is
// never held across a call into NCCL or CUDA; nothing here is on the hot path but Active() and the g_session fields
// that it guards.
//
// It never stops: the library stays mapped, events may come until the process is gone. In a forked child it is off
// until a source starts it again there, and then it makes a ring of the child's own.
#ifndef RANKSCOPE_RECORDER_SESSION_H_
#define RANKSCOPE_RECORDER_SESSION_H_

#include <cstdint>

#include "recorder/clock.h"
#include "recorder/config.h"
#include "recorder/identity.h"
#include "recorder/lane.h"
#include "schema/ring_abi.h"

namespace rankscope::recorder {

// Pointers into the mapped ring, written once by Start before `active` is set. Trivially destructible: events may
// arrive while static destructors run.
struct Session {
  uint32_t active = 0;  // 1 = recording
  uint32_t forked = 0;  // 1 = a forked child of a process that records, in which nothing has started it again
  uint32_t salt = 0;    // random per process: tells our handles from another process's (PXN)
  schema::RingHeader* header = nullptr;
  schema::ProcessIdentity* identity = nullptr;
  schema::NameEntry* names = nullptr;
  char* name_bytes = nullptr;
  schema::CommEntry* comms = nullptr;
  uint64_t* losses = nullptr;
  schema::CuptiInfo* cupti = nullptr;
  schema::StreamEntry* streams = nullptr;
  char* gpu_buffers = nullptr;  // gpu_buffer_count of kGpuBufferBytes each
  schema::LaneHeader* lane_headers = nullptr;
  schema::InFlightSlot* slots = nullptr;
  schema::TotalCell* cells = nullptr;
  schema::EventRecord* records = nullptr;
  uint64_t slot_count = 0;
  uint32_t name_capacity = 0;
  uint64_t name_bytes_capacity = 0;
  uint32_t comm_capacity = 0;
  uint32_t lane_count = 0;
  uint32_t stream_capacity = 0;
  uint32_t gpu_buffer_count = 0;
  uint64_t map_bytes = 0;
  uint32_t generation = 0;  // grows with each Start in this address space (fork): stale lanes are told by it
  ClockPairs clock_pairs;
  Config config;
};
extern Session g_session;

inline bool Active() { return LoadAcquire(g_session.active) != 0; }

// Starts the recorder if it isn't running; true if it records. Any thread; says once on stderr why it doesn't.
bool Start();

// Notes the way by which rankscope came into the process: in the ring that is there, or in the one that will be.
void RememberDoor(schema::Door door);

// Called with a communicator: the sources that may have come too early, or not at all, have a look. Weak: tests link
// a part.
void StartOtherSources() __attribute__((weak));

// Notes kinds of events that this process writes as records; bit k is kind k.
inline void NoteRecordKinds(uint64_t kinds) {
  if (g_session.header == nullptr) return;
  OrShared(g_session.header->record_kinds_lo, static_cast<uint32_t>(kinds));
  OrShared(g_session.header->record_kinds_hi, static_cast<uint32_t>(kinds >> 32));
}

// Re-reads the launcher's variables (Python may have set them since) and what NCCL knows of this process.
void RefreshIdentity();
// NCCL told the largest truth so far: `rank` of `ranks`.
void LearnRank(int32_t rank, int32_t ranks);

// Any thread, also while another one starts the recorder.
inline void CountLoss(schema::LossReason reason, uint64_t count = 1) {
  uint64_t* losses = LoadAcquire(g_session.losses);
  if (losses != nullptr) AddShared(losses[static_cast<int>(reason)], count);
}

// The id of `text` in the ring's name table (1-based), 0 for an empty text or a full table (counted). Any thread,
// without a lock; not for the hot path: it looks through the table.
uint32_t InternName(const char* text, schema::NameKind kind);

// Takes a clock pair if one is due. Cheap to call: a load and a compare.
inline void MaybeTakeClockPair(uint64_t now_ticks) {
  if (__builtin_expect(g_session.clock_pairs.Due(now_ticks), 0)) g_session.clock_pairs.Append();
}

}  // namespace rankscope::recorder

#endif  // RANKSCOPE_RECORDER_SESSION_H_
