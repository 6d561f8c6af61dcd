// A lane: the part of the ring that one thread writes, and the hot path's only data structure.
//
// Each thread that records owns one lane at a time, found through one thread-local pointer. Committing a record and
// handing out an in-flight slot touch memory of the lane alone: no lock, no locked instruction, no system call, no
// allocation. A thread's first event claims a lane (a system call for the thread's id; once), a thread's end gives it
// back; a thread that fills a small lane moves to a large one if one is free.
#ifndef RANKSCOPE_RECORDER_LANE_H_
#define RANKSCOPE_RECORDER_LANE_H_

#include <cstdint>

#include "recorder/atomic_word.h"
#include "schema/ring_abi.h"

namespace rankscope::recorder {

inline constexpr int kLaneLimit = 64;

// The owner thread's private view of its lane; lives in the library's own memory, never in the ring.
struct alignas(64) Lane {
  schema::EventRecord* records = nullptr;
  schema::InFlightSlot* slots = nullptr;
  schema::LaneHeader* header = nullptr;
  schema::TotalCell* cells = nullptr;
  uint64_t record_mask = 0;
  uint64_t next_slot = 0;  // slots handed out
  uint64_t slot_mask = 0;
  uint64_t thread_word = 0;  // the owner's thread id | kOrdinalUnknown << 32, as slots hold it
  uint32_t first_slot = 0;   // index of slots[0] in the ring's slot section
  uint32_t cell_limit = 0;
  uint32_t cells_used = 0;
  uint32_t fast_events = 0;  // NcclEventBits that the fast path may record: those wanted, if ticks are the counter's
  uint16_t index = 0;
  bool large = false;
  uint32_t in_use = 0;           // 0 free, 1 owned; the only field that other threads touch
  uint64_t promote_at_head = 0;  // small lanes: head at which to look for a large lane
  // (Function, size class) -> 1 + cell, 0 = none yet.
  uint8_t cell_of[schema::kFunctionLimit][65] = {};
};

// The calling thread's lane, claimed if need be; nullptr when there is none to be had (counted), when the recorder is
// off, or in a forked child. Async-signal-unsafe on a thread's first call, a thread-local load afterwards.
extern thread_local constinit Lane* t_lane;
Lane* ClaimLane();
inline Lane* CurrentLane() {
  Lane* lane = t_lane;
  if (__builtin_expect(lane == nullptr, 0)) return ClaimLane();
  return lane;
}

// The same for a thread that brings many records at a time: a large lane if one is free.
Lane* LargeLane();

// Slow path of Commit: the lane is small and full once. Moves the thread to a large lane if one is free.
void TryPromote(Lane* lane);

// What a record says but for its commit word.
struct RecordWords {
  uint64_t begin_ticks;
  uint64_t end_ticks;
  uint64_t kind_flags_comm_aux;  // as laid out in schema::EventRecord: kind | flags << 16 | comm << 32 | aux << 48
  uint64_t op_id;
  uint64_t payload[3];
};

constexpr uint64_t PackKind(schema::EventKind kind, uint16_t flags, uint16_t comm, uint16_t aux) {
  return static_cast<uint64_t>(kind) | static_cast<uint64_t>(flags) << 16 | static_cast<uint64_t>(comm) << 32 |
         static_cast<uint64_t>(aux) << 48;
}

inline constexpr uint64_t kPrefetchRecords = 8;

// Appends one record; see schema/ring_abi.h for the protocol. `write` stores words 1 to 7 of it.
template <typename Write>
inline __attribute__((always_inline)) void CommitWith(Lane* lane, schema::EventKind kind, Write write) {
  schema::LaneHeader* header = lane->header;
  const uint64_t index = LoadRelaxed(header->head);
  auto* out = reinterpret_cast<uint64_t*>(&lane->records[index & lane->record_mask]);
  // The lines of records to come are on their way while this one is written: the ring is larger than the caches.
  __builtin_prefetch(&lane->records[(index + kPrefetchRecords) & lane->record_mask], 1);
  StoreRelaxed(out[0], 0u);
  FenceRelease();
  write(out);
  StoreRelease(out[0], index + 1);
  StoreRelease(header->head, index + 1);
  AddSingleWriter(header->committed_by_kind[static_cast<uint32_t>(kind) & (schema::kEventKindLimit - 1)], 1u);
  if (__builtin_expect(index + 1 == lane->promote_at_head, 0)) TryPromote(lane);
}
inline void Commit(Lane* lane, const RecordWords& words) {
  CommitWith(lane, static_cast<schema::EventKind>(words.kind_flags_comm_aux & 0xffffu), [&](uint64_t* out) {
    StorePair(out + 1, MakePair(words.begin_ticks, words.end_ticks));
    StorePair(out + 3, MakePair(words.kind_flags_comm_aux, words.op_id));
    StorePair(out + 5, MakePair(words.payload[0], words.payload[1]));
    StoreRelaxed(out[7], words.payload[2]);
  });
}

// The totals' cell of (function, bytes); cell 0 of the lane collects what finds no room.
schema::TotalCell* ClaimCell(Lane* lane, uint32_t func, uint32_t size_class);
inline schema::TotalCell* KnownCell(Lane* lane, uint32_t func, uint64_t bytes) {
  const uint8_t cell = lane->cell_of[func & (schema::kFunctionLimit - 1)][schema::SizeClass(bytes)];
  return __builtin_expect(cell == 0, 0) ? nullptr : &lane->cells[cell - 1];
}
inline schema::TotalCell* CellOf(Lane* lane, uint32_t func, uint64_t bytes) {
  if (schema::TotalCell* known = KnownCell(lane, func, bytes)) return known;
  return ClaimCell(lane, func & (schema::kFunctionLimit - 1), schema::SizeClass(bytes));
}

}  // namespace rankscope::recorder

#endif  // RANKSCOPE_RECORDER_LANE_H_
