// A lane: the part of the ring that one thread writes, and the hot path's only data structure.
//
// Each thread that records owns one lane at a time, found through one thread-local pointer. Committing a record and handing
// out an in-flight slot touch memory of the lane alone: no lock, no locked instruction, no system call, no allocation.
// A thread's first event claims a lane (a system call for the thread's id; once), a thread's end gives it back; a thread that fills a
// small lane moves to a large one if one is free.
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
  uint64_t head = 0;          // records committed; header->head follows it
  uint64_t record_mask = 0;
  uint64_t next_slot = 0;     // slots handed out
  uint64_t slot_mask = 0;
  uint64_t next_op = 0;
  uint32_t first_slot = 0;    // index of slots[0] in the ring's slot section
  uint32_t cell_limit = 0;
  uint32_t cells_used = 0;
  uint16_t index = 0;
  bool large = false;
  uint32_t in_use = 0;            // 0 free, 1 owned; the only field that other threads touch
  uint64_t promote_at_head = 0;   // small lanes: head at which to look for a large lane
  // (Function, size class) -> 1 + cell, 0 = none yet.
  uint8_t cell_of[schema::kFunctionLimit][65] = {};
};

// The calling thread's lane, claimed if need be; nullptr when there is none to be had (counted), when the recorder is off, or
// in a forked child. Async-signal-unsafe on a thread's first call, a thread-local load afterwards.
extern thread_local constinit Lane* t_lane;
Lane* ClaimLane();
inline Lane* CurrentLane() {
  Lane* lane = t_lane;
  if (__builtin_expect(lane == nullptr, 0)) return ClaimLane();
  return lane;
}

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

// Appends one record; see schema/ring_abi.h for the protocol.
inline void Commit(Lane* lane, const RecordWords& words) {
  const uint64_t index = lane->head;
  auto* out = reinterpret_cast<uint64_t*>(&lane->records[index & lane->record_mask]);
  StoreRelaxed(out[0], 0u);
  FenceRelease();
  StoreRelaxed(out[1], words.begin_ticks);
  StoreRelaxed(out[2], words.end_ticks);
  StoreRelaxed(out[3], words.kind_flags_comm_aux);
  StoreRelaxed(out[4], words.op_id);
  StoreRelaxed(out[5], words.payload[0]);
  StoreRelaxed(out[6], words.payload[1]);
  StoreRelaxed(out[7], words.payload[2]);
  StoreRelease(out[0], index + 1);
  lane->head = index + 1;
  StoreRelease(lane->header->head, index + 1);
  AddSingleWriter(lane->header->committed_by_kind[words.kind_flags_comm_aux & (schema::kEventKindLimit - 1)], 1u);
  if (__builtin_expect(index + 1 == lane->promote_at_head, 0)) TryPromote(lane);
}

// The totals' cell of (function, bytes); cell 0 of the lane collects what finds no room.
schema::TotalCell* ClaimCell(Lane* lane, uint32_t func, uint32_t size_class);
inline schema::TotalCell* CellOf(Lane* lane, uint32_t func, uint64_t bytes) {
  const uint32_t size_class = schema::SizeClass(bytes);
  const uint8_t cell = lane->cell_of[func & (schema::kFunctionLimit - 1)][size_class];
  if (__builtin_expect(cell == 0, 0)) return ClaimCell(lane, func & (schema::kFunctionLimit - 1), size_class);
  return &lane->cells[cell - 1];
}

}  // namespace rankscope::recorder

#endif  // RANKSCOPE_RECORDER_LANE_H_
