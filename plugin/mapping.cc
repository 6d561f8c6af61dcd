// See mapping.h.
#include "plugin/mapping.h"

#include <unistd.h>

namespace rankscope::plugin {

using recorder::AddShared;
using recorder::AddSingleWriter;
using recorder::CountLoss;
using recorder::g_session;
using recorder::HandleRole;
using recorder::LoadRelaxed;
using recorder::NewSlot;
using recorder::RecordWords;
using recorder::Resolved;
using recorder::StoreRelaxed;
using recorder::StoreRelease;
using schema::InFlightSlot;
using schema::LossReason;

namespace {

int32_t g_process_id = 0;  // written in init only

constexpr uint32_t kMaxU32 = 0xffffffffu;
uint32_t Saturate32(uint64_t value) { return value > kMaxU32 ? kMaxU32 : static_cast<uint32_t>(value); }

// Slots are written and read in 64-bit words where fields lie side by side; the layout is pinned here.
static_assert(offsetof(InFlightSlot, seq) == 40 && offsetof(InFlightSlot, func) == 48 &&
              offsetof(InFlightSlot, comm) == 56);
static_assert(offsetof(InFlightSlot, children_started) == 80 && offsetof(InFlightSlot, thread_id) == 112);
enum SlotWord { kWordSeqOrdinal = 5, kWordNames = 6, kWordComm = 7, kWordChildren = 10, kWordThread = 14 };

uint64_t* WordsOf(InFlightSlot* slot) { return reinterpret_cast<uint64_t*>(slot); }

constexpr uint64_t Pair32(uint64_t low, uint64_t high) { return (low & kMaxU32) | high << 32; }
constexpr uint64_t PackNames(uint8_t func, uint8_t dtype, uint8_t algo, uint8_t proto, int32_t root_or_peer) {
  return uint64_t{func} | uint64_t{dtype} << 8 | uint64_t{algo} << 16 | uint64_t{proto} << 24 |
         static_cast<uint64_t>(static_cast<uint32_t>(root_or_peer)) << 32;
}
constexpr uint64_t PackComm(uint16_t comm, uint16_t flags, uint16_t aux) {
  return uint64_t{comm} | uint64_t{flags} << 16 | uint64_t{aux} << 32;
}
// The record's kind word from a slot's comm word.
constexpr uint64_t KindWord(EventKind kind, uint64_t comm_word) {
  return static_cast<uint64_t>(kind) | (comm_word & 0xffff0000u) | (comm_word & 0xffffu) << 32 |
         ((comm_word >> 32) & 0xffffu) << 48;
}

uint64_t BytesOf(uint64_t count, uint8_t dtype) {
  return count * schema::DataTypeBytes(static_cast<schema::DataType>(dtype));
}

void CountUnresolved(Handle handle, const Resolved& resolved) {
  if (handle == 0 || (handle & 0xf) == kIgnoredRole) return;  // NCCL stops NULL and what we asked it to forget
  CountLoss(resolved.stale ? LossReason::kStaleHandle : LossReason::kForeignHandle);
}

// The ordinal of a launch: of the function on the communicator, or of the peer and direction for point-to-point.
uint32_t TakeLaunchOrdinal(Communicator* comm, const OperationStart& start, uint16_t* flags) {
  const int func = start.func & (schema::kFunctionLimit - 1);
  schema::CommEntry* entry = comm->entry;
  const uint64_t launched = LoadRelaxed(entry->launched_by_func[func]);
  StoreRelaxed(entry->launched_by_func[func], launched + 1);
  if (start.kind != EventKind::kP2p) {
    if (start.kind == EventKind::kColl) StoreRelaxed(entry->last_seq_by_func[func], start.seq + 1);
    if (__builtin_expect(!comm->launch_seen, 0)) {
      comm->launch_seen = true;
      *flags |= schema::kFlagFirstOfComm;
    }
    return static_cast<uint32_t>(launched);
  }
  const auto peer = static_cast<uint32_t>(start.root_or_peer);
  if (peer >= comm->peer_limit) {
    CountLoss(LossReason::kPeerOutOfRange);
    return schema::kOrdinalUnknown;
  }
  const bool sends = start.func == static_cast<uint8_t>(schema::Function::kSend);
  uint32_t& ordinal = (sends ? comm->sent : comm->received)[peer];
  const uint32_t mine = LoadRelaxed(ordinal);
  StoreRelaxed(ordinal, mine + 1);
  // The first transfer between two ranks connects them.
  if (mine == 0) *flags |= schema::kFlagFirstOfComm;
  return mine;
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

Handle PublishOperation(Lane* lane, Communicator* comm, const OperationStart& start, InFlightSlot* slot,
                        uint32_t index, uint32_t generation, uint64_t now_ticks, uint16_t flags, bool joined,
                        uint64_t old_tag) {
  const uint32_t ordinal = comm != nullptr ? TakeLaunchOrdinal(comm, start, &flags) : schema::kOrdinalUnknown;
  uint64_t* words = WordsOf(slot);
  uint16_t lane_index = lane->index;
  if (joined) {
    lane_index = static_cast<uint16_t>((old_tag >> 16) & 0xff);
  } else {
    StoreRelaxed(slot->issue_ticks, now_ticks);
    StoreRelaxed(slot->op_id, recorder::NextOperation(lane));
    StoreRelaxed(slot->last_progress_ticks, 0u);
    StoreRelaxed(words[kWordChildren], 0u);
    StoreRelaxed(words[kWordThread], Pair32(LoadRelaxed(lane->header->owner_thread_id), schema::kOrdinalUnknown));
  }
  StoreRelaxed(slot->begin_ticks, now_ticks);
  StoreRelaxed(slot->count, start.count);
  StoreRelaxed(words[kWordSeqOrdinal], Pair32(start.seq, ordinal));
  StoreRelaxed(words[kWordNames], PackNames(start.func, start.dtype, start.algo, start.proto, start.root_or_peer));
  StoreRelaxed(words[kWordComm], PackComm(comm != nullptr ? comm->slot : schema::kCommUnknown, flags, start.aux));
  StoreRelaxed(slot->end_ticks, 0u);
  StoreRelaxed(slot->detail[0], 0u);
  const uint8_t state = static_cast<uint8_t>(schema::kSlotOpen | schema::kSlotIssued | schema::kSlotIsOperation |
                                             (joined ? recorder::TagState(old_tag) & schema::kSlotApiOpen : 0));
  StoreRelease(slot->tag, recorder::MakeTag(generation, lane_index, start.kind, state));
  return recorder::MakeHandle(generation, index, HandleRole::kLaunch);
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
  const uint64_t bytes = BytesOf(LoadRelaxed(op->count), LoadRelaxed(op->dtype));
  RecordWords out;
  out.begin_ticks = begin_ticks;
  out.end_ticks = now_ticks;
  out.kind_flags_comm_aux = KindWord(EventKind::kOpComplete, LoadRelaxed(words[kWordComm]));
  out.op_id = LoadRelaxed(op->op_id);
  out.payload[0] = LoadRelaxed(op->issue_ticks);
  out.payload[1] = Pair32(stopped, static_cast<uint64_t>(source) | static_cast<uint64_t>(LoadRelaxed(op->func)) << 8);
  out.payload[2] = bytes;
  if (!recorder::StillHolds(op, resolved.tag)) return;
  AddCompletion(lane, op, bytes, now_ticks > begin_ticks ? now_ticks - begin_ticks : 0);
  recorder::Commit(lane, out);
}

void StopApi(Lane* lane, InFlightSlot* slot, uint64_t tag, uint64_t now_ticks) {
  const uint8_t state = recorder::LoadState(slot);
  if ((state & schema::kSlotApiOpen) == 0) {
    CountLoss(LossReason::kRepeatedStop);
    return;
  }
  uint64_t* words = WordsOf(slot);
  const EventKind kind = recorder::TagKind(tag);
  const bool p2p = kind == EventKind::kP2pApi || kind == EventKind::kP2p;
  const uint64_t names = LoadRelaxed(words[kWordNames]);
  RecordWords out;
  out.begin_ticks = LoadRelaxed(slot->issue_ticks);
  out.end_ticks = now_ticks;
  out.kind_flags_comm_aux = KindWord(p2p ? EventKind::kP2pApi : EventKind::kCollApi, LoadRelaxed(words[kWordComm]));
  out.op_id = LoadRelaxed(slot->op_id);
  const uint64_t count = LoadRelaxed(slot->count);
  out.payload[0] = count;
  out.payload[1] = Pair32(LoadRelaxed(slot->stream) >> 4, LoadRelaxed(slot->api_ordinal));
  out.payload[2] = (names & 0xffffu) | (names & ~uint64_t{kMaxU32});
  if (!recorder::StillHolds(slot, tag)) {
    CountLoss(LossReason::kStaleHandle);
    return;
  }
  recorder::StoreState(slot, state & static_cast<uint8_t>(~schema::kSlotApiOpen));
  if ((out.kind_flags_comm_aux >> 16 & schema::kFlagGraphCaptured) == 0) {
    AddSingleWriter(recorder::CellOf(lane, names & 0xff, BytesOf(count, static_cast<uint8_t>(names >> 8)))->api_calls,
                    1u);
  }
  recorder::Commit(lane, out);
}

void StopLaunch(Lane* lane, InFlightSlot* slot, uint64_t tag, uint64_t now_ticks) {
  const uint8_t state = recorder::LoadState(slot);
  if ((state & schema::kSlotOpen) == 0) {
    CountLoss(LossReason::kRepeatedStop);
    return;
  }
  uint64_t* words = WordsOf(slot);
  const EventKind kind = recorder::TagKind(tag);
  const uint64_t names = LoadRelaxed(words[kWordNames]);
  const uint64_t seq_ordinal = LoadRelaxed(words[kWordSeqOrdinal]);
  RecordWords out;
  out.begin_ticks = LoadRelaxed(slot->begin_ticks);
  out.end_ticks = now_ticks;
  out.kind_flags_comm_aux = KindWord(kind, LoadRelaxed(words[kWordComm]));
  out.op_id = LoadRelaxed(slot->op_id);
  out.payload[0] = LoadRelaxed(slot->count);
  if (__builtin_expect(kind == EventKind::kP2p, 0)) {
    out.payload[1] = names >> 32 | (seq_ordinal & ~uint64_t{kMaxU32});
    out.payload[2] = names & 0xffffu;
  } else {
    out.payload[1] = seq_ordinal;
    out.payload[2] = names;
  }
  if (!recorder::StillHolds(slot, tag)) {
    CountLoss(LossReason::kStaleHandle);
    return;
  }
  recorder::StoreState(slot, state & static_cast<uint8_t>(~schema::kSlotOpen));
  StoreRelaxed(slot->end_ticks, now_ticks);
  schema::TotalCell* cell =
      recorder::CellOf(lane, names & 0xff, BytesOf(out.payload[0], static_cast<uint8_t>(names >> 8)));
  AddSingleWriter(cell->launched, 1u);
  AddSingleWriter(cell->bytes, BytesOf(out.payload[0], static_cast<uint8_t>(names >> 8)));
  recorder::Commit(lane, out);
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
  out.kind_flags_comm_aux = KindWord(kind, LoadRelaxed(WordsOf(slot)[kWordComm]));
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

Handle StartOperation(Lane* lane, Communicator* comm, const OperationStart& start) {
  const uint64_t now_ticks = recorder::ReadTicks();
  recorder::MaybeTakeClockPair(now_ticks);
  uint16_t flags = start.flags;
  if (start.parent != 0) {
    uint64_t tag = 0;
    if (InFlightSlot* slot = JoinableApi(start.parent, &tag, &flags, start.kind == EventKind::kP2p)) {
      const uint32_t generation = recorder::TagGeneration(tag);
      // Kind 0 while it is rewritten: readers leave it out, handles still resolve.
      StoreRelaxed(slot->tag, uint64_t{generation} << 32);
      recorder::FenceRelease();
      const auto index = static_cast<uint32_t>(slot - g_session.slots);
      return PublishOperation(lane, comm, start, slot, index, generation, now_ticks, flags, true, tag);
    }
  }
  const NewSlot taken = recorder::TakeSlot(lane);
  return PublishOperation(lane, comm, start, taken.slot, taken.index, taken.generation, now_ticks, flags, false, 0);
}

Handle StartApi(Lane* lane, Communicator* comm, const ApiStart& start) {
  const uint64_t now_ticks = recorder::ReadTicks();
  recorder::MaybeTakeClockPair(now_ticks);
  uint16_t flags = schema::kFlagHasApi;
  if (start.captured) flags |= schema::kFlagGraphCaptured;
  uint32_t ordinal = schema::kOrdinalUnknown;
  if (comm != nullptr) {
    uint64_t& calls = comm->entry->api_by_func[start.func & (schema::kFunctionLimit - 1)];
    ordinal = static_cast<uint32_t>(LoadRelaxed(calls));
    StoreRelaxed(calls, uint64_t{ordinal} + 1);
    if (__builtin_expect(!comm->api_seen, 0)) {
      comm->api_seen = true;
      flags |= schema::kFlagFirstOfComm;
    }
  }
  const NewSlot taken = recorder::TakeSlot(lane);
  InFlightSlot* slot = taken.slot;
  uint64_t* words = WordsOf(slot);
  StoreRelaxed(slot->issue_ticks, now_ticks);
  StoreRelaxed(slot->begin_ticks, now_ticks);
  StoreRelaxed(slot->op_id, recorder::NextOperation(lane));
  StoreRelaxed(slot->count, start.count);
  StoreRelaxed(words[kWordSeqOrdinal], Pair32(0, ordinal));
  StoreRelaxed(words[kWordNames], PackNames(start.func, start.dtype, 0, 0, start.root));
  StoreRelaxed(words[kWordComm], PackComm(comm != nullptr ? comm->slot : schema::kCommUnknown, flags, 0));
  StoreRelaxed(slot->end_ticks, 0u);
  StoreRelaxed(slot->last_progress_ticks, 0u);
  StoreRelaxed(words[kWordChildren], 0u);
  StoreRelaxed(slot->detail[0], 0u);
  StoreRelaxed(words[kWordThread], Pair32(LoadRelaxed(lane->header->owner_thread_id), ordinal));
  StoreRelaxed(slot->stream, start.stream);
  StoreRelease(slot->tag, recorder::MakeTag(taken.generation, lane->index, start.kind,
                                            schema::kSlotApiOpen | schema::kSlotIsOperation));
  return recorder::MakeHandle(taken.generation, taken.index, HandleRole::kApi);
}

Handle StartProxyOp(Lane* lane, Communicator* comm, const ProxyOpStart& start) {
  // With PXN this is another process's operation, and its parent and context are that process's numbers.
  const bool foreign = start.pid != g_process_id;
  if (foreign) CountLoss(LossReason::kForeignProxy);
  InFlightSlot* op = foreign ? nullptr : AdoptChild(start.parent);
  const NewSlot taken = recorder::TakeSlot(lane);
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
  StoreRelaxed(slot->op_id, op != nullptr ? LoadRelaxed(op->op_id) : 0u);
  StoreRelaxed(slot->count, 0u);
  StoreRelaxed(words[kWordSeqOrdinal],
               Pair32(static_cast<uint32_t>(start.steps), static_cast<uint32_t>(start.chunk_bytes)));
  StoreRelaxed(words[kWordNames], PackNames(0, 0, 0, 0, start.peer));
  StoreRelaxed(words[kWordComm],
               PackComm(comm_slot, flags, static_cast<uint16_t>(start.channel | (start.is_send ? 0x100 : 0))));
  StoreRelaxed(words[kWordChildren], 0u);
  StoreRelaxed(slot->parent, op != nullptr ? start.parent : 0u);
  StoreRelaxed(slot->detail[0], static_cast<uint64_t>(static_cast<uint32_t>(start.pid)));
  StoreRelaxed(slot->detail[1], 0u);
  StoreRelaxed(words[kWordThread], Pair32(LoadRelaxed(lane->header->owner_thread_id), schema::kOrdinalUnknown));
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
  const NewSlot taken = recorder::TakeSlot(lane);
  InFlightSlot* slot = taken.slot;
  uint64_t* words = WordsOf(slot);
  const uint64_t now_ticks = recorder::ReadTicks();
  StoreRelaxed(slot->issue_ticks, now_ticks);
  StoreRelaxed(slot->begin_ticks, now_ticks);
  StoreRelaxed(slot->op_id, op_id);
  StoreRelaxed(slot->count, 0u);
  StoreRelaxed(words[kWordSeqOrdinal], start.kind == EventKind::kProxyStep ? Pair32(start.detail[0], 0) : 0u);
  StoreRelaxed(words[kWordNames], PackNames(0, 0, 0, 0, -1));
  StoreRelaxed(words[kWordComm], PackComm(comm, flags, aux));
  StoreRelaxed(words[kWordChildren], 0u);
  StoreRelaxed(slot->parent, op != nullptr ? start.parent : 0u);
  const bool step = start.kind == EventKind::kProxyStep;
  StoreRelaxed(slot->detail[0], step ? uint64_t{aux} >> 8 & 1 : start.detail[0]);
  StoreRelaxed(slot->detail[1], step ? 0u : start.detail[1]);
  StoreRelaxed(slot->stream, start.third);
  StoreRelaxed(words[kWordThread], Pair32(LoadRelaxed(lane->header->owner_thread_id), schema::kOrdinalUnknown));
  StoreRelease(slot->tag, recorder::MakeTag(taken.generation, lane->index, start.kind, schema::kSlotOpen));
  return recorder::MakeHandle(taken.generation, taken.index, HandleRole::kEvent);
}

void StopEvent(Handle handle) {
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
      return StopLaunch(lane, resolved.slot, resolved.tag, now_ticks);
    case HandleRole::kApi:
      return StopApi(lane, resolved.slot, resolved.tag, now_ticks);
    case HandleRole::kEvent:
      return StopPlainEvent(lane, resolved.slot, resolved.tag, now_ticks);
  }
  CountLoss(LossReason::kForeignHandle);
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
