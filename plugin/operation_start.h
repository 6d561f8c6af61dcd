// The hottest code of all: the start of a collective and of the call that asks for it, inlined into each version's
// startEvent.
//
// Two ways lead through it. The fast one is a function without calls: it looks whether everything is as usual (a
// lane, the counter as clock, a known communicator, names seen before, a free slot), and has done nothing when it
// finds that something isn't; then the slow one (StartOperation, StartApi in mapping.cc) does the same with every
// case handled. What they write is one piece of code. Called on launching and CUDA callback threads. Must never:
// allocate, lock, log, make a system call, or follow `parent`.
#ifndef RANKSCOPE_PLUGIN_OPERATION_START_H_
#define RANKSCOPE_PLUGIN_OPERATION_START_H_

#include <cstdint>

#include "plugin/mapping.h"
#include "plugin/slot_words.h"

namespace rankscope::plugin {

// The ordinal of a launch: of the function on the communicator, or of the peer and direction for point-to-point.
template <EventKind kKind>
inline uint32_t TakeLaunchOrdinal(Communicator* comm, const OperationStart& start, uint16_t* flags) {
  using recorder::LoadRelaxed;
  using recorder::StoreRelaxed;
  const uint32_t func = start.func() & (schema::kFunctionLimit - 1);
  schema::CommEntry* entry = comm->entry;
  const uint64_t launched = LoadRelaxed(entry->launched_by_func[func]);
  StoreRelaxed(entry->launched_by_func[func], launched + 1);
  if constexpr (kKind == EventKind::kColl) StoreRelaxed(entry->last_seq_by_func[func], start.seq + 1);
  if constexpr (kKind == EventKind::kP2p) return TakePeerOrdinal(comm, start, flags);
  return static_cast<uint32_t>(launched);
}

// Writes the slot and makes it visible. `joined_tag` is the tag of the API event's slot that the launch joins, else
// 0.
template <EventKind kKind>
inline __attribute__((always_inline)) Handle PublishOperation(Lane* lane, Communicator* comm,
                                                              const OperationStart& start,
                                                              const recorder::NewSlot& taken, uint16_t flags,
                                                              uint64_t joined_tag, uint64_t now_ticks) {
  using recorder::MakePair;
  using recorder::StorePair;
  using recorder::StoreRelaxed;
  uint32_t ordinal = schema::kOrdinalUnknown;
  uint16_t comm_slot = schema::kCommUnknown;
  if (__builtin_expect(comm != nullptr, 1)) {
    ordinal = TakeLaunchOrdinal<kKind>(comm, start, &flags);
    comm_slot = comm->slot;
  }
  uint64_t* words = WordsOf(taken.slot);
  uint64_t op_id;
  uint16_t lane_index = lane->index;
  uint8_t state = schema::kSlotOpen | schema::kSlotIssued | schema::kSlotIsOperation;
  if (joined_tag != 0) {
    op_id = recorder::LoadRelaxed(words[kWordOperation]);
    lane_index = static_cast<uint16_t>((joined_tag >> 16) & 0xff);
    state |= recorder::TagState(joined_tag) & schema::kSlotApiOpen;
    StoreRelaxed(words[kWordBegin], now_ticks);
  } else {
    op_id = recorder::NextOperation(lane);
    StorePair(words + kWordIssue, MakePair(now_ticks, now_ticks));
    StoreRelaxed(words[kWordThread], lane->thread_word);
  }
  StorePair(words + kWordKind, MakePair(recorder::PackKind(kKind, flags, comm_slot, start.aux), op_id));
  StorePair(words + kWordCount, MakePair(start.count, Pair32(start.seq, ordinal)));
  StoreRelaxed(words[kWordNames], NamesWord(start.names, start.root_or_peer));
  recorder::StoreRelease(taken.slot->tag, recorder::MakeTag(taken.generation, lane_index, kKind, state));
  return recorder::MakeHandle(taken.generation, taken.index, recorder::HandleRole::kLaunch);
}

// Writes an API event's slot and makes it visible.
inline __attribute__((always_inline)) Handle PublishApi(Lane* lane, Communicator* comm, EventKind kind,
                                                        const ApiStart& start, const recorder::NewSlot& taken,
                                                        uint16_t flags, uint64_t now_ticks) {
  using recorder::MakePair;
  using recorder::StorePair;
  using recorder::StoreRelaxed;
  if (start.captured) flags |= schema::kFlagGraphCaptured;
  uint32_t ordinal = schema::kOrdinalUnknown;
  uint16_t comm_slot = schema::kCommUnknown;
  if (__builtin_expect(comm != nullptr, 1)) {
    uint64_t& calls = comm->entry->api_by_func[start.names & (schema::kFunctionLimit - 1)];
    const uint64_t before = recorder::LoadRelaxed(calls);
    StoreRelaxed(calls, before + 1);
    ordinal = static_cast<uint32_t>(before);
    comm_slot = comm->slot;
  }
  uint64_t* words = WordsOf(taken.slot);
  StorePair(words + kWordIssue, MakePair(now_ticks, now_ticks));
  StorePair(words + kWordKind,
            MakePair(recorder::PackKind(kind, flags, comm_slot, 0), recorder::NextOperation(lane)));
  StorePair(words + kWordCount, MakePair(start.count, Pair32(start.stream >> 4, ordinal)));
  StoreRelaxed(words[kWordNames], NamesWord(start.names, start.root));
  StoreRelaxed(words[kWordThread], (lane->thread_word & kMaxU32) | uint64_t{ordinal} << 32);
  recorder::StoreRelease(taken.slot->tag, recorder::MakeTag(taken.generation, lane->index, kind,
                                                            schema::kSlotApiOpen | schema::kSlotIsOperation));
  return recorder::MakeHandle(taken.generation, taken.index, recorder::HandleRole::kApi);
}

// Takes the API event's slot for the launch that joins it: kind 0 while it is rewritten, so that readers leave it
// out; handles still resolve.
inline recorder::NewSlot TakeOver(InFlightSlot* slot, uint64_t tag) {
  const uint32_t generation = recorder::TagGeneration(tag);
  recorder::StoreRelaxed(slot->tag, uint64_t{generation} << 32);
  recorder::FenceRelease();
  return {slot, static_cast<uint32_t>(slot - recorder::g_session.slots), generation};
}

// The fast way. 0 = something is unusual, nothing was done. `start` is only complete in `names` for the names that
// the lane has decoded before, which the caller has looked up. kHasParent: API v5 on, where the launch joins its
// call.
template <bool kHasParent>
inline __attribute__((always_inline)) Handle TryStartCollective(Lane* lane, Communicator* comm,
                                                                const OperationStart& start) {
  if ((comm->settled & kLaunchSettled) == 0) return 0;
  const uint64_t now_ticks = recorder::ReadCounter();
  if (recorder::g_session.clock_pairs.Due(now_ticks)) return 0;
  if constexpr (kHasParent) {
    const recorder::Resolved api = recorder::Resolve(start.parent);
    if (api.slot == nullptr || recorder::RoleOf(start.parent) != recorder::HandleRole::kApi) return 0;
    const uint16_t api_flags = recorder::LoadRelaxed(api.slot->flags);
    if (recorder::TagKind(api.tag) != EventKind::kCollApi || (api_flags & schema::kFlagGraphCaptured) != 0) return 0;
    const auto flags = static_cast<uint16_t>(start.flags | (api_flags & schema::kFlagHasApi));
    return PublishOperation<EventKind::kColl>(lane, comm, start, TakeOver(api.slot, api.tag), flags, api.tag,
                                              now_ticks);
  } else {
    if (!recorder::NextSlotIsFree(lane)) return 0;
    return PublishOperation<EventKind::kColl>(lane, comm, start, recorder::TakeFreeSlot(lane), start.flags, 0,
                                              now_ticks);
  }
}

inline __attribute__((always_inline)) Handle TryStartApi(Lane* lane, Communicator* comm, EventKind kind,
                                                         const ApiStart& start) {
  if ((comm->settled & kApiSettled) == 0) return 0;
  const uint64_t now_ticks = recorder::ReadCounter();
  if (recorder::g_session.clock_pairs.Due(now_ticks) || !recorder::NextSlotIsFree(lane)) return 0;
  return PublishApi(lane, comm, kind, start, recorder::TakeFreeSlot(lane), schema::kFlagHasApi, now_ticks);
}

}  // namespace rankscope::plugin

#endif  // RANKSCOPE_PLUGIN_OPERATION_START_H_
