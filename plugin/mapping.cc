// See mapping.h.
#include "plugin/mapping.h"

#include <unistd.h>

#include "plugin/operation_start.h"
#include "plugin/slot_words.h"

namespace rankscope::plugin {

using recorder::AddShared;
using recorder::AddSingleWriter;
using recorder::CountLoss;
using recorder::HandleRole;
using recorder::LoadRelaxed;
using recorder::RecordWords;
using recorder::Resolved;
using recorder::StoreRelaxed;
using recorder::StoreRelease;
using schema::InFlightSlot;
using schema::LossReason;

namespace {

int32_t g_process_id = 0;  // written in init only

uint32_t Saturate32(uint64_t value) {
  return value > kMaxU32 ? static_cast<uint32_t>(kMaxU32) : static_cast<uint32_t>(value);
}

// log2 of an element's bytes, by the low four bits of a DataType.
constexpr uint8_t kElementShift[16] = {0, 0, 0, 2, 2, 3, 3, 1, 2, 3, 1, 0, 0, 0, 0, 0};
static_assert([] {
  for (int type = 0; type < schema::kDataTypeLimit; ++type) {
    if (1u << kElementShift[type] != schema::DataTypeBytes(static_cast<schema::DataType>(type))) return false;
  }
  return schema::kDataTypeLimit <= 16;
}());
uint64_t BytesOf(uint64_t count, uint64_t names) { return count << kElementShift[(names >> 8) & 0xf]; }

void CountUnresolved(Handle handle, const Resolved& resolved) {
  if (handle == 0 || (handle & 0xf) == kIgnoredRole) return;  // NCCL stops NULL and what we asked it to forget
  CountLoss(resolved.stale ? LossReason::kStaleHandle : LossReason::kForeignHandle);
}

// The API event's slot, if this launch is the one that it stands for.
InFlightSlot* JoinableApi(Handle parent, uint64_t* tag, uint16_t* flags, bool is_p2p) {
  const Resolved api = recorder::Resolve(parent);
  if (api.slot == nullptr || recorder::RoleOf(parent) != HandleRole::kApi) {
    *flags |= schema::kFlagNoParent;
    return nullptr;
  }
  const uint16_t api_flags = LoadRelaxed(api.slot->flags);
  if ((api_flags & schema::kFlagGraphCaptured) != 0) {
    *flags |= schema::kFlagGraphReplay;
    return nullptr;
  }
  const EventKind kind = recorder::TagKind(api.tag);
  // A handle that NCCL did not clear may be offered to a later, unrelated launch (reference, 3.3); and a
  // point-to-point call may stand for one launch a peer. Only the first launch of the right sort joins.
  if (kind != (is_p2p ? EventKind::kP2pApi : EventKind::kCollApi)) {
    if (kind == EventKind::kColl || kind == EventKind::kP2p || kind == EventKind::kCeColl)
      *flags |= schema::kFlagHasApi;
    return nullptr;
  }
  *flags |= api_flags & schema::kFlagHasApi;
  *tag = api.tag;
  return api.slot;
}

template <EventKind kKind>
Handle StartOperationOf(Lane* lane, Communicator* comm, const OperationStart& start) {
  const uint64_t now_ticks = recorder::ReadTicks();
  recorder::MaybeTakeClockPair(now_ticks);
  uint16_t flags = start.flags;
  if (kKind != EventKind::kP2p && comm != nullptr && (comm->settled & kLaunchSettled) == 0) {
    comm->settled |= kLaunchSettled;
    flags |= schema::kFlagFirstOfComm;
  }
  uint64_t tag = 0;
  if (start.parent != 0) {
    if (InFlightSlot* slot = JoinableApi(start.parent, &tag, &flags, kKind == EventKind::kP2p)) {
      return PublishOperation<kKind>(lane, comm, start, TakeOver(slot, tag), flags, tag, now_ticks);
    }
  }
  return PublishOperation<kKind>(lane, comm, start, recorder::TakeSlot(lane), flags, 0, now_ticks);
}

// The parent operation of a network or kernel event, and its child count; nullptr where there is none of ours.
InFlightSlot* AdoptChild(Handle parent) {
  if (recorder::RoleOf(parent) != HandleRole::kLaunch) return nullptr;
  const Resolved resolved = recorder::Resolve(parent);
  if (resolved.slot == nullptr) return nullptr;
  AddShared(resolved.slot->children_started, 1u);
  return resolved.slot;
}

void AddCompletion(Lane* lane, InFlightSlot* op, uint64_t bytes, uint64_t duration_ticks) {
  schema::TotalCell* cell = recorder::CellOf(lane, LoadRelaxed(op->func), bytes);
  const uint64_t before = LoadRelaxed(op->detail[0]);  // 1 + the duration counted already, 0 = none
  StoreRelaxed(op->detail[0], duration_ticks + 1);
  if (before != 0) {
    AddSingleWriter(cell->completed, ~0ull);
    AddSingleWriter(cell->duration_ticks, ~(before - 1) + 1);
    AddSingleWriter(cell->duration_histogram[schema::DurationBucket(before - 1)], 0xffffffffu);
  }
  AddSingleWriter(cell->completed, 1u);
  AddSingleWriter(cell->duration_ticks, duration_ticks);
  AddSingleWriter(cell->duration_histogram[schema::DurationBucket(duration_ticks)], 1u);
  if (duration_ticks > LoadRelaxed(cell->duration_max_ticks)) StoreRelaxed(cell->duration_max_ticks, duration_ticks);
}

// A child of an operation stopped: the last one makes it complete.
void ReleaseChild(Handle parent, uint64_t now_ticks, schema::CompletionSource source) {
  const Resolved resolved = recorder::Resolve(parent);
  if (resolved.slot == nullptr) return;
  InFlightSlot* op = resolved.slot;
  const uint32_t stopped = AddShared(op->children_stopped, 1u) + 1;
  StoreRelaxed(op->last_progress_ticks, now_ticks);
  if (stopped != LoadRelaxed(op->children_started)) return;
  if ((LoadRelaxed(op->flags) & schema::kFlagTrackingLost) != 0) return;
  Lane* lane = recorder::CurrentLane();
  if (lane == nullptr) return;
  uint64_t* words = WordsOf(op);
  const uint64_t begin_ticks = LoadRelaxed(op->begin_ticks);
  const uint64_t bytes = BytesOf(LoadRelaxed(op->count), LoadRelaxed(words[kWordNames]));
  RecordWords out;
  out.begin_ticks = begin_ticks;
  out.end_ticks = now_ticks;
  out.kind_flags_comm_aux =
      (LoadRelaxed(words[kWordKind]) & ~uint64_t{0xffff}) | static_cast<uint64_t>(EventKind::kOpComplete);
  out.op_id = LoadRelaxed(op->op_id);
  out.payload[0] = LoadRelaxed(op->issue_ticks);
  out.payload[1] = Pair32(stopped, static_cast<uint64_t>(source) | static_cast<uint64_t>(LoadRelaxed(op->func)) << 8);
  out.payload[2] = bytes;
  if (!recorder::StillHolds(op, resolved.tag)) return;
  AddCompletion(lane, op, bytes, now_ticks > begin_ticks ? now_ticks - begin_ticks : 0);
  recorder::Commit(lane, out);
}

constexpr EventKind ApiKindOf(EventKind kind) {
  return kind == EventKind::kP2p || kind == EventKind::kP2pApi ? EventKind::kP2pApi : EventKind::kCollApi;
}

// Adds a stop to its totals' cell and commits its record, which is the slot's own words.
template <HandleRole kRole>
inline __attribute__((always_inline)) void RecordStop(Lane* lane, InFlightSlot* slot, EventKind kind,
                                                      schema::TotalCell* cell, uint64_t bytes, uint64_t now_ticks) {
  constexpr bool kApi = kRole == HandleRole::kApi;
  const uint64_t* words = WordsOf(slot);
  if (kApi) {
    if (cell != nullptr) AddSingleWriter(cell->api_calls, 1u);
  } else {
    AddSingleWriter(cell->launched, 1u);
    AddSingleWriter(cell->bytes, bytes);
  }
  recorder::CommitWith(lane, kind, [&](uint64_t* out) {
    recorder::StorePair(out + 1, recorder::MakePair(LoadRelaxed(words[kApi ? kWordIssue : kWordBegin]), now_ticks));
    recorder::StorePair(out + 3, recorder::LoadPair(words + kWordKind));
    recorder::StorePair(out + 5, recorder::LoadPair(words + kWordCount));
    StoreRelaxed(out[7], LoadRelaxed(words[kWordNames]));
    // A call that is stopped after its launch joined it: the slot says launch, the record must not.
    if (kApi) StoreRelaxed(reinterpret_cast<uint16_t*>(out)[12], static_cast<uint16_t>(kind));
  });
}

// The stop of an operation's host call or launch, from any thread.
template <HandleRole kRole>
void StopOperation(Lane* lane, InFlightSlot* slot, uint64_t tag, uint64_t now_ticks) {
  constexpr bool kApi = kRole == HandleRole::kApi;
  constexpr uint8_t kOpenBit = kApi ? schema::kSlotApiOpen : schema::kSlotOpen;
  if (!recorder::StillHolds(slot, tag)) {
    CountLoss(LossReason::kStaleHandle);
    return;
  }
  // Call and launch may be stopped by two threads at once.
  const uint8_t before =
      __atomic_fetch_and(reinterpret_cast<uint8_t*>(&slot->tag), static_cast<uint8_t>(~kOpenBit), __ATOMIC_RELAXED);
  if ((before & kOpenBit) == 0) {
    CountLoss(LossReason::kRepeatedStop);
    return;
  }
  const EventKind kind = kApi ? ApiKindOf(recorder::TagKind(tag)) : recorder::TagKind(tag);
  const uint64_t names = LoadRelaxed(WordsOf(slot)[kWordNames]);
  const uint64_t bytes = BytesOf(LoadRelaxed(slot->count), names);
  const bool counts = !kApi || (LoadRelaxed(slot->flags) & schema::kFlagGraphCaptured) == 0;
  schema::TotalCell* cell = counts ? recorder::CellOf(lane, static_cast<uint32_t>(names & 0xff), bytes) : nullptr;
  RecordStop<kRole>(lane, slot, kind, cell, bytes, now_ticks);
}

// The fast way of a stop: a function without calls, for the thread that owns the slot's lane, so that nobody else can
// be at the slot. False = something is unusual, nothing was done.
template <HandleRole kRole>
inline __attribute__((always_inline)) bool TryStopOperation(Lane* lane, Handle handle) {
  constexpr bool kApi = kRole == HandleRole::kApi;
  constexpr uint64_t kOpenBit = kApi ? schema::kSlotApiOpen : schema::kSlotOpen;
  const Resolved resolved = recorder::Resolve(handle);
  if (__builtin_expect(resolved.slot == nullptr, 0)) return false;
  InFlightSlot* slot = resolved.slot;
  const uint64_t tag = resolved.tag;
  constexpr uint64_t kOpenBits = schema::kSlotApiOpen | schema::kSlotOpen;
  if (__builtin_expect(((tag >> 16) & 0xff) != lane->index || (tag & kOpenBits) != kOpenBit, 0)) return false;
  const EventKind kind = recorder::TagKind(tag);
  const uint64_t names = LoadRelaxed(WordsOf(slot)[kWordNames]);
  const uint64_t bytes = BytesOf(LoadRelaxed(slot->count), names);
  schema::TotalCell* cell = recorder::KnownCell(lane, static_cast<uint32_t>(names & 0xff), bytes);
  if (__builtin_expect(cell == nullptr, 0)) return false;
  if (kApi && ((LoadRelaxed(slot->flags) & schema::kFlagGraphCaptured) != 0 || kind != ApiKindOf(kind))) return false;
  const uint64_t now_ticks = recorder::ReadCounter();
  recorder::StoreState(slot, static_cast<uint8_t>(tag & ~kOpenBit));
  RecordStop<kRole>(lane, slot, kind, cell, bytes, now_ticks);
  return true;
}

// The payload of a plain event's record, from its slot.
void FillPayload(EventKind kind, InFlightSlot* slot, RecordWords* out) {
  uint64_t* words = WordsOf(slot);
  const uint64_t names = LoadRelaxed(words[kWordNames]);
  switch (kind) {
    case EventKind::kProxyOp:
      out->payload[0] = Pair32(names >> 32, LoadRelaxed(slot->seq));
      out->payload[1] = Pair32(LoadRelaxed(slot->ordinal), LoadRelaxed(slot->detail[0]));
      out->payload[2] = LoadRelaxed(slot->count);
      break;
    case EventKind::kProxyStep:
      out->payload[0] = Pair32(LoadRelaxed(slot->seq), LoadRelaxed(slot->count));
      out->payload[1] = Pair32(LoadRelaxed(slot->ordinal), LoadRelaxed(slot->detail[1]));
      out->payload[2] = Pair32(LoadRelaxed(slot->detail[1]) >> 32, LoadRelaxed(slot->detail[0]));
      break;
    default:
      out->payload[0] = LoadRelaxed(slot->detail[0]);
      out->payload[1] = LoadRelaxed(slot->detail[1]);
      out->payload[2] = LoadRelaxed(slot->stream);
      break;
  }
}

bool IsGpuStamp(EventKind kind) { return kind == EventKind::kKernelChannel || kind == EventKind::kKernelPhase; }

// GPU stamps are used only if they can be true (reference, 3.7): set, and not reversed.
bool StampsAreSane(const RecordWords& out) {
  return out.payload[0] != 0 && out.payload[1] != 0 && out.payload[1] >= out.payload[0];
}

void StopPlainEvent(Lane* lane, InFlightSlot* slot, uint64_t tag, uint64_t now_ticks) {
  const uint8_t state = recorder::LoadState(slot);
  if ((state & schema::kSlotOpen) == 0) {
    CountLoss(LossReason::kRepeatedStop);
    return;
  }
  const EventKind kind = recorder::TagKind(tag);
  RecordWords out;
  out.begin_ticks = LoadRelaxed(slot->begin_ticks);
  out.end_ticks = now_ticks;
  out.kind_flags_comm_aux = LoadRelaxed(WordsOf(slot)[kWordKind]);
  out.op_id = LoadRelaxed(slot->op_id);
  const Handle parent = LoadRelaxed(slot->parent);
  FillPayload(kind, slot, &out);
  if (!recorder::StillHolds(slot, tag)) {
    CountLoss(LossReason::kStaleHandle);
    return;
  }
  recorder::StoreState(slot, state & static_cast<uint8_t>(~schema::kSlotOpen));
  if (IsGpuStamp(kind) && !StampsAreSane(out)) {
    out.kind_flags_comm_aux |= uint64_t{schema::kFlagBadStamp} << 16;
    if (out.payload[0] != 0 || out.payload[1] != 0) CountLoss(LossReason::kBadGpuStamp);
  }
  if (kind != EventKind::kProxyOp || Wanted(recorder::kEventsProxyOp)) recorder::Commit(lane, out);
  if (parent == 0) return;
  if (kind == EventKind::kProxyOp) ReleaseChild(parent, now_ticks, schema::CompletionSource::kProxy);
  if (kind == EventKind::kKernelChannel) ReleaseChild(parent, now_ticks, schema::CompletionSource::kKernelChannel);
}

// The slot of an open event of `kind`, or nullptr (counted).
InFlightSlot* OpenEvent(Handle handle, EventKind kind) {
  const Resolved resolved = recorder::Resolve(handle);
  if (resolved.slot == nullptr) {
    CountUnresolved(handle, resolved);
    return nullptr;
  }
  if (recorder::TagKind(resolved.tag) != kind || (recorder::TagState(resolved.tag) & schema::kSlotOpen) == 0) {
    CountLoss(LossReason::kStaleHandle);
    return nullptr;
  }
  return resolved.slot;
}

}  // namespace

void RememberProcessId() { g_process_id = static_cast<int32_t>(getpid()); }

Handle StartOperation(Lane* lane, Communicator* comm, EventKind kind, const OperationStart& start) {
  switch (kind) {
    case EventKind::kP2p:
      return StartOperationOf<EventKind::kP2p>(lane, comm, start);
    case EventKind::kCeColl:
      return StartOperationOf<EventKind::kCeColl>(lane, comm, start);
    default:
      return StartOperationOf<EventKind::kColl>(lane, comm, start);
  }
}

Handle StartApi(Lane* lane, Communicator* comm, EventKind kind, const ApiStart& start) {
  const uint64_t now_ticks = recorder::ReadTicks();
  recorder::MaybeTakeClockPair(now_ticks);
  uint16_t flags = schema::kFlagHasApi;
  if (comm != nullptr && (comm->settled & kApiSettled) == 0) {
    comm->settled |= kApiSettled;
    flags |= schema::kFlagFirstOfComm;
  }
  return PublishApi(lane, comm, kind, start, recorder::TakeSlot(lane), flags, now_ticks);
}

uint32_t TakePeerOrdinal(Communicator* comm, const OperationStart& start, uint16_t* flags) {
  const auto peer = static_cast<uint32_t>(start.root_or_peer);
  if (peer >= comm->peer_limit) {
    CountLoss(LossReason::kPeerOutOfRange);
    return schema::kOrdinalUnknown;
  }
  const bool sends = start.func() == static_cast<uint8_t>(schema::Function::kSend);
  uint32_t& ordinal = (sends ? comm->sent : comm->received)[peer];
  const uint32_t mine = LoadRelaxed(ordinal);
  StoreRelaxed(ordinal, mine + 1);
  // The first transfer between two ranks connects them.
  if (mine == 0) *flags |= schema::kFlagFirstOfComm;
  return mine;
}

Handle StartProxyOp(Lane* lane, Communicator* comm, const ProxyOpStart& start) {
  // With PXN this is another process's operation, and its parent and context are that process's numbers.
  const bool foreign = start.pid != g_process_id;
  if (foreign) CountLoss(LossReason::kForeignProxy);
  InFlightSlot* op = foreign ? nullptr : AdoptChild(start.parent);
  const recorder::NewSlot taken = recorder::TakeSlot(lane);
  InFlightSlot* slot = taken.slot;
  uint64_t* words = WordsOf(slot);
  const uint64_t now_ticks = recorder::ReadTicks();
  uint16_t flags = 0;
  if (foreign) flags |= schema::kFlagForeign;
  if (!foreign && op == nullptr) flags |= schema::kFlagNoParent;
  uint16_t comm_slot = schema::kCommUnknown;
  if (op != nullptr) {
    comm_slot = LoadRelaxed(op->comm);
  } else if (!foreign && comm != nullptr) {
    comm_slot = comm->slot;
  }
  StoreRelaxed(slot->issue_ticks, now_ticks);
  StoreRelaxed(slot->begin_ticks, now_ticks);
  StoreRelaxed(words[kWordKind],
               recorder::PackKind(EventKind::kProxyOp, flags, comm_slot,
                                  static_cast<uint16_t>(start.channel | (start.is_send ? 0x100 : 0))));
  StoreRelaxed(slot->op_id, op != nullptr ? LoadRelaxed(op->op_id) : 0u);
  StoreRelaxed(slot->count, 0u);
  StoreRelaxed(words[kWordSeqOrdinal],
               Pair32(static_cast<uint32_t>(start.steps), static_cast<uint32_t>(start.chunk_bytes)));
  StoreRelaxed(words[kWordNames], NamesWord(0, start.peer));
  StoreRelaxed(slot->parent, op != nullptr ? start.parent : 0u);
  StoreRelaxed(slot->detail[0], static_cast<uint64_t>(static_cast<uint32_t>(start.pid)));
  StoreRelaxed(slot->detail[1], 0u);
  StoreRelaxed(words[kWordThread], lane->thread_word);
  StoreRelease(slot->tag, recorder::MakeTag(taken.generation, lane->index, EventKind::kProxyOp, schema::kSlotOpen));
  return recorder::MakeHandle(taken.generation, taken.index, HandleRole::kEvent);
}

Handle StartEvent(Lane* lane, const EventStart& start) {
  const bool completes = start.kind == EventKind::kKernelChannel;
  InFlightSlot* op = completes ? AdoptChild(start.parent) : nullptr;
  uint64_t op_id = 0;
  uint16_t comm = start.comm, flags = start.flags, aux = start.aux;
  if (op != nullptr) {
    op_id = LoadRelaxed(op->op_id);
    comm = LoadRelaxed(op->comm);
  } else if (start.parent != 0) {
    const Resolved parent = recorder::Resolve(start.parent);
    if (parent.slot != nullptr) {
      op_id = LoadRelaxed(parent.slot->op_id);
      if (start.kind == EventKind::kProxyStep || start.kind == EventKind::kNetPlugin) {
        comm = LoadRelaxed(parent.slot->comm);
        aux = LoadRelaxed(parent.slot->aux);
        flags |= LoadRelaxed(parent.slot->flags) & schema::kFlagForeign;
      }
    } else {
      flags |= schema::kFlagNoParent;
    }
  }
  const recorder::NewSlot taken = recorder::TakeSlot(lane);
  InFlightSlot* slot = taken.slot;
  uint64_t* words = WordsOf(slot);
  const uint64_t now_ticks = recorder::ReadTicks();
  StoreRelaxed(slot->issue_ticks, now_ticks);
  StoreRelaxed(slot->begin_ticks, now_ticks);
  StoreRelaxed(slot->op_id, op_id);
  StoreRelaxed(slot->count, 0u);
  StoreRelaxed(words[kWordSeqOrdinal], start.kind == EventKind::kProxyStep ? Pair32(start.detail[0], 0) : 0u);
  StoreRelaxed(words[kWordNames], NamesWord(0, -1));
  StoreRelaxed(words[kWordKind], recorder::PackKind(start.kind, flags, comm, aux));
  StoreRelaxed(slot->parent, op != nullptr ? start.parent : 0u);
  const bool step = start.kind == EventKind::kProxyStep;
  StoreRelaxed(slot->detail[0], step ? uint64_t{aux} >> 8 & 1 : start.detail[0]);
  StoreRelaxed(slot->detail[1], step ? 0u : start.detail[1]);
  StoreRelaxed(slot->stream, start.third);
  StoreRelaxed(words[kWordThread], lane->thread_word);
  StoreRelease(slot->tag, recorder::MakeTag(taken.generation, lane->index, start.kind, schema::kSlotOpen));
  return recorder::MakeHandle(taken.generation, taken.index, HandleRole::kEvent);
}

namespace {

__attribute__((noinline)) void StopEventWithCare(Handle handle) {
  const Resolved resolved = recorder::Resolve(handle);
  if (__builtin_expect(resolved.slot == nullptr || (handle & 0xf) == kIgnoredRole, 0)) {
    CountUnresolved(handle, resolved);
    return;
  }
  Lane* lane = recorder::CurrentLane();
  const uint64_t now_ticks = recorder::ReadTicks();
  if (__builtin_expect(lane == nullptr, 0)) {
    // This thread can't record, but what it stopped is no longer open.
    recorder::StoreState(resolved.slot, recorder::TagState(resolved.tag) &
                                            static_cast<uint8_t>(~(schema::kSlotOpen | schema::kSlotApiOpen)));
    return;
  }
  switch (recorder::RoleOf(handle)) {
    case HandleRole::kLaunch:
      return StopOperation<HandleRole::kLaunch>(lane, resolved.slot, resolved.tag, now_ticks);
    case HandleRole::kApi:
      return StopOperation<HandleRole::kApi>(lane, resolved.slot, resolved.tag, now_ticks);
    case HandleRole::kEvent:
      return StopPlainEvent(lane, resolved.slot, resolved.tag, now_ticks);
  }
  CountLoss(LossReason::kForeignHandle);
}

}  // namespace

void StopEvent(Handle handle) {
  Lane* lane = recorder::t_lane;
  if (__builtin_expect(lane != nullptr && lane->fast_events != 0, 1)) {
    if (recorder::RoleOf(handle) == HandleRole::kLaunch) {
      if (TryStopOperation<HandleRole::kLaunch>(lane, handle)) return;
    } else if (recorder::RoleOf(handle) == HandleRole::kApi) {
      if (TryStopOperation<HandleRole::kApi>(lane, handle)) return;
    }
  }
  StopEventWithCare(handle);
}

void RecordProxyOpState(Handle handle, int state, uint64_t bytes, int32_t steps) {
  InFlightSlot* slot = OpenEvent(handle, EventKind::kProxyOp);
  if (slot == nullptr) return;
  if (bytes > LoadRelaxed(slot->count)) StoreRelaxed(slot->count, bytes);
  StoreRelaxed(slot->detail[1], static_cast<uint64_t>(static_cast<uint32_t>(state)) |
                                    static_cast<uint64_t>(static_cast<uint32_t>(steps)) << 32);
}

void RecordProxyStepState(Handle handle, int state, bool bytes_valid, uint64_t bytes) {
  InFlightSlot* slot = OpenEvent(handle, EventKind::kProxyStep);
  if (slot == nullptr) return;
  constexpr int kFirstStepState = 8, kPeerWait = 20;
  const int bit = state == kPeerWait ? 7 : state - kFirstStepState;
  const uint64_t detail = LoadRelaxed(slot->detail[0]);
  const uint64_t seen = detail >> 8 & 0xff;
  const uint32_t elapsed = Saturate32(recorder::ReadTicks() - LoadRelaxed(slot->begin_ticks));
  // Three times in the order in which the states come; a repeated state (SendPeerWait may) keeps its first.
  if ((seen >> bit & 1) == 0) {
    switch (__builtin_popcountll(seen)) {
      case 0:
        StoreRelaxed(slot->ordinal, elapsed);
        break;
      case 1:
        StoreRelaxed(slot->detail[1], elapsed | (LoadRelaxed(slot->detail[1]) & ~uint64_t{kMaxU32}));
        break;
      case 2:
        StoreRelaxed(slot->detail[1], (LoadRelaxed(slot->detail[1]) & kMaxU32) | uint64_t{elapsed} << 32);
        break;
      default:
        break;
    }
  }
  StoreRelaxed(slot->detail[0], detail | uint64_t{1} << (8 + bit));
  if (bytes_valid) StoreRelaxed(slot->count, Saturate32(bytes));
}

void RecordProxyCtrlState(Handle handle, int state, int32_t appended) {
  InFlightSlot* slot = OpenEvent(handle, EventKind::kProxyCtrl);
  if (slot == nullptr) return;
  StoreRelaxed(slot->detail[0], Pair32(static_cast<uint32_t>(state), static_cast<uint32_t>(appended)));
}

void RecordGpuStop(Handle handle, uint64_t gpu_ns) {
  const Resolved resolved = recorder::Resolve(handle);
  if (resolved.slot == nullptr) {
    CountUnresolved(handle, resolved);
    return;
  }
  if (!IsGpuStamp(recorder::TagKind(resolved.tag)) || (recorder::TagState(resolved.tag) & schema::kSlotOpen) == 0) {
    CountLoss(LossReason::kStaleHandle);
    return;
  }
  StoreRelaxed(resolved.slot->detail[1], gpu_ns);
}

}  // namespace rankscope::plugin
