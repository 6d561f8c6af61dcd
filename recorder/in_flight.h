// The in-flight table: handles, and the slots behind them.
//
// A handle is what NCCL keeps of an event: a number, never a pointer, since NCCL keeps handles longer than it should
// and passes them to other processes: salt of the process (16 bits) | generation (24) | slot (20) | what the handle
// stands for (4). It resolves only in the process that made it and only while the slot still holds that event. Never
// 0: the salt isn't. All functions are for the hot path, on any thread.
#ifndef RANKSCOPE_RECORDER_IN_FLIGHT_H_
#define RANKSCOPE_RECORDER_IN_FLIGHT_H_

#include <bit>
#include <cstdint>

#include "recorder/lane.h"
#include "recorder/session.h"
#include "schema/ring_abi.h"

namespace rankscope::recorder {

static_assert(std::endian::native == std::endian::little, "the state byte of a slot's tag is its first byte");

// What a handle stands for; one slot may be reached by two (an operation by its API event and its launch).
enum class HandleRole : uint64_t {
  kEvent = 1,   // any event that isn't part of an operation's slot
  kApi = 2,     // CollApi or P2pApi
  kLaunch = 3,  // Coll, P2p, CeColl
};

using Handle = uint64_t;

inline constexpr uint32_t kGenerationMask = (1u << 24) - 1;
inline constexpr uint32_t kSlotIndexLimit = 1u << 20;

inline Handle MakeHandle(uint32_t generation, uint32_t slot, HandleRole role) {
  return static_cast<uint64_t>(g_session.salt & 0xffffu) << 48 |
         static_cast<uint64_t>(generation & kGenerationMask) << 24 | static_cast<uint64_t>(slot) << 4 |
         static_cast<uint64_t>(role);
}
constexpr uint32_t TagGeneration(uint64_t tag) { return static_cast<uint32_t>(tag >> 32); }
constexpr uint8_t TagState(uint64_t tag) { return static_cast<uint8_t>(tag); }
constexpr schema::EventKind TagKind(uint64_t tag) { return static_cast<schema::EventKind>((tag >> 8) & 0xff); }
constexpr uint64_t MakeTag(uint32_t generation, uint16_t lane, schema::EventKind kind, uint8_t state) {
  return static_cast<uint64_t>(generation) << 32 | static_cast<uint64_t>(lane & 0xffu) << 16 |
         static_cast<uint64_t>(kind) << 8 | state;
}
constexpr HandleRole RoleOf(Handle handle) { return static_cast<HandleRole>(handle & 0xf); }

struct Resolved {
  schema::InFlightSlot* slot = nullptr;  // nullptr: foreign, garbage, or gone
  uint64_t tag = 0;
  bool stale = false;  // ours, but the slot went on
};

inline Resolved Resolve(Handle handle) {
  Resolved result;
  if ((handle >> 48) != (g_session.salt & 0xffffu)) return result;
  const uint64_t index = (handle >> 4) & (kSlotIndexLimit - 1);
  if (index >= g_session.slot_count) return result;
  schema::InFlightSlot* slot = &g_session.slots[index];
  const uint64_t tag = LoadAcquire(slot->tag);
  if ((TagGeneration(tag) & kGenerationMask) != ((handle >> 24) & kGenerationMask)) {
    result.stale = true;
    return result;
  }
  result.slot = slot;
  result.tag = tag;
  return result;
}

// True if the slot still holds what it held when `tag` was loaded: to be asked after reading its fields.
inline bool StillHolds(const schema::InFlightSlot* slot, uint64_t tag) {
  FenceAcquire();
  return TagGeneration(LoadRelaxed(slot->tag)) == TagGeneration(tag);
}

// The state byte alone is written after the start, so that a late writer can never bring back an old generation.
inline uint8_t LoadState(const schema::InFlightSlot* slot) {
  return LoadRelaxed(*reinterpret_cast<const uint8_t*>(&slot->tag));
}
inline void StoreState(schema::InFlightSlot* slot, uint8_t state) {
  StoreRelaxed(*reinterpret_cast<uint8_t*>(&slot->tag), state);
}

struct NewSlot {
  schema::InFlightSlot* slot;
  uint32_t index;
  uint32_t generation;
};

// True while the slot must not be taken silently: its host call is open, or children that it counted have not
// stopped.
inline bool StillUnderWay(const schema::InFlightSlot* slot, uint64_t tag) {
  return (TagState(tag) & (schema::kSlotOpen | schema::kSlotApiOpen)) != 0 ||
         LoadRelaxed(slot->children_started) != LoadRelaxed(slot->children_stopped);
}

// Slow path: the slot in turn is under way or had children. Looks a little further for a free one, else evicts the
// oldest, with a record and a count.
NewSlot TakeUsedSlot(Lane* lane);

// True if the next slot in turn can be had at once.
inline bool NextSlotIsFree(const Lane* lane) {
  const schema::InFlightSlot* slot = &lane->slots[lane->next_slot & lane->slot_mask];
  const uint64_t children = LoadRelaxed(*reinterpret_cast<const uint64_t*>(&slot->children_started));
  return ((LoadRelaxed(slot->tag) & (schema::kSlotOpen | schema::kSlotApiOpen)) | children) == 0;
}

// The lane's next slot, which NextSlotIsFree; not yet visible to readers (kind 0), and to be published by the
// caller's store of its tag. Its children, last_progress_ticks and detail[0] are zero.
inline NewSlot TakeFreeSlot(Lane* lane) {
  const uint64_t position = lane->next_slot & lane->slot_mask;
  schema::InFlightSlot* slot = &lane->slots[position];
  lane->next_slot++;
  const uint32_t generation = TagGeneration(LoadRelaxed(slot->tag)) + 1;
  StoreRelaxed(slot->tag, static_cast<uint64_t>(generation) << 32);
  FenceRelease();
  return {slot, lane->first_slot + static_cast<uint32_t>(position), generation};
}

inline NewSlot TakeSlot(Lane* lane) {
  if (__builtin_expect(!NextSlotIsFree(lane), 0)) return TakeUsedSlot(lane);
  return TakeFreeSlot(lane);
}

// A new operation id: unique in the process, and close together in time so that columns of them stay narrow.
inline uint64_t NextOperation(Lane* lane) {
  const uint64_t count = LoadRelaxed(lane->header->op_count) + 1;
  StoreRelaxed(lane->header->op_count, count);
  return count << 8 | lane->index;
}

}  // namespace rankscope::recorder

#endif  // RANKSCOPE_RECORDER_IN_FLIGHT_H_
