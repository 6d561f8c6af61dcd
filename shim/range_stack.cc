// See range_stack.h.
#include "shim/range_stack.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "recorder/clock.h"
#include "recorder/lane.h"
#include "recorder/nccl_call.h"

namespace rankscope::shim {

using recorder::CompareExchange;
using recorder::CountLoss;
using recorder::g_session;
using recorder::LoadAcquire;
using recorder::LoadRelaxed;
using recorder::ReadTicks;
using recorder::StoreRelaxed;
using recorder::StoreRelease;
using schema::EventKind;
using schema::LossReason;

thread_local constinit RangeThread* t_ranges = nullptr;

namespace {

constinit RangeThread g_threads[kThreadLimit] = {};
constinit uint32_t g_gave_up = 0;    // it could not be started, or must not be by us: no try on every range
constinit uint32_t g_key_state = 0;  // 0 no key, 1 being made, 2 there
constinit pthread_key_t g_exit_key = 0;

// A started range. `id` is 0 = free, kBusy = being written or read, else what StartRange gave out.
struct StartedRange {
  uint64_t id;
  uint64_t begin_ticks;
  uint64_t value;
  uint32_t name;
  uint32_t detail;
  uint32_t domain;
  uint32_t generation;  // of the session
  uint64_t sequence;    // how often the entry was taken
};
constexpr uint64_t kBusy = 1;
constexpr uint32_t kProbes = 64;
constinit StartedRange g_started[kStartedLimit] = {};

void OnThreadExit(void* value) {
  auto* thread = static_cast<RangeThread*>(value);
  t_ranges = nullptr;
  const uint32_t owner = LoadRelaxed(thread->owner);
  if (owner != g_session.generation || !recorder::Active()) return;  // a fork went between
  uint32_t open = 0;
  for (const uint32_t count : thread->open) open += count;
  if (open != 0) CountLoss(LossReason::kRangeUnbalanced, open);
  StoreRelease(thread->owner, 0u);
}

void MakeExitKey() {
  if (LoadAcquire(g_key_state) != 0 || !CompareExchange(g_key_state, 0u, 1u)) return;
  if (pthread_key_create(&g_exit_key, OnThreadExit) == 0) StoreRelease(g_key_state, 2u);
}

// Takes a stack that is free or another session's.
RangeThread* TakeThread(uint32_t generation) {
  for (RangeThread& thread : g_threads) {
    const uint32_t owner = LoadRelaxed(thread.owner);
    if (owner == generation || !CompareExchange(thread.owner, owner, generation)) continue;
    thread.doors = 0;
    thread.depth = 0;
    memset(thread.open, 0, sizeof(thread.open));
    memset(thread.beyond, 0, sizeof(thread.beyond));
    ForgetNames(&thread.names);
    return &thread;
  }
  return nullptr;
}

// Not on the hot path only where the recorder is off: a load or two then.
bool Recording() {
  if (recorder::Active()) return true;
  if (LoadRelaxed(g_gave_up) != 0) return false;
  // A forked child of a process that records (a dataloader's worker) makes no ring for the sake of ranges; once NCCL
  // or CUDA start the recorder there, its ranges are recorded.
  if (LoadRelaxed(g_session.forked) == 0 && recorder::Start()) return true;
  StoreRelaxed(g_gave_up, 1u);
  return recorder::Active();
}

void WriteRecord(EventKind kind, const OpenRange& range, uint64_t end_ticks, uint16_t flags) {
  recorder::Lane* lane = recorder::CurrentLane();
  if (__builtin_expect(lane == nullptr, 0)) return;  // counted there
  recorder::RecordWords record;
  record.begin_ticks = range.begin_ticks;
  record.end_ticks = end_ticks < range.begin_ticks ? range.begin_ticks : end_ticks;
  record.kind_flags_comm_aux =
      recorder::PackKind(kind, flags, schema::kCommUnknown, static_cast<uint16_t>(range.form));
  record.op_id = 0;
  record.payload[0] = uint64_t{range.name} | uint64_t{DomainNameId(range.domain)} << 32;
  record.payload[1] = range.value;
  const auto source =
      range.phase == schema::Phase::kUnknown ? schema::PhaseSource::kNone : schema::PhaseSource::kHook;
  record.payload[2] = uint64_t{static_cast<uint8_t>(range.phase)} | uint64_t{static_cast<uint8_t>(source)} << 8 |
                      uint64_t{range.depth} << 16 | uint64_t{range.detail} << 32;
  recorder::Commit(lane, record);
  recorder::MaybeTakeClockPair(end_ticks);
}
static_assert(offsetof(schema::RangePayload, domain) == 4 && offsetof(schema::RangePayload, value) == 8 &&
              offsetof(schema::RangePayload, phase) == 16 && offsetof(schema::RangePayload, phase_source) == 17 &&
              offsetof(schema::RangePayload, depth) == 18 && offsetof(schema::RangePayload, detail) == 20);

void TakeOut(RangeThread* thread, uint32_t position) {
  --thread->depth;
  if (__builtin_expect(position == thread->depth, 1)) return;
  memmove(&thread->stack[position], &thread->stack[position + 1], (thread->depth - position) * sizeof(OpenRange));
}

recorder::NcclCall NcclCallIn(const OpenRange& range) {
  recorder::NcclCall call;
  call.what = NcclCallOf(range.traits);
  call.begin_ticks = range.begin_ticks;
  call.value = range.value;
  call.communicator = range.detail;
  return call;
}

// DeepSpeed's decorator pops nothing when an exception passes. Its engine's forward is never called within another of
// its ranges, so whatever of them is still open in this domain was left open, and so was all that was pushed after it
// there.
void CloseLeftOpen(RangeThread* thread, uint32_t domain, uint64_t now_ticks) {
  uint32_t lowest = thread->depth;
  for (uint32_t i = thread->depth; i-- > 0;) {
    const OpenRange& range = thread->stack[i];
    if (range.domain == domain && (range.traits & kNameDeepSpeed) != 0) lowest = i;
  }
  if (lowest == thread->depth) return;
  uint32_t closed = thread->beyond[domain];
  thread->beyond[domain] = 0;
  for (uint32_t i = thread->depth; i-- > lowest;) {
    if (thread->stack[i].domain != domain) continue;
    WriteRecord(EventKind::kRange, thread->stack[i], now_ticks, schema::kFlagStopMissing);
    TakeOut(thread, i);
    ++closed;
  }
  thread->open[domain] -= closed;
  CountLoss(LossReason::kRangeUnbalanced, closed);
}

}  // namespace

RangeThread* OpenRangeThread(schema::Door door) {
  if (!Recording()) return nullptr;
  const int saved_errno = errno;
  const uint32_t generation = g_session.generation;
  RangeThread* thread = t_ranges;
  if (thread == nullptr || LoadRelaxed(thread->owner) != generation) {
    MakeExitKey();
    thread = TakeThread(generation);
    if (thread == nullptr) {
      CountLoss(LossReason::kNoLane);
      return nullptr;
    }
    t_ranges = thread;
    if (LoadAcquire(g_key_state) == 2) pthread_setspecific(g_exit_key, thread);
  }
  if ((thread->doors & door) == 0) {
    thread->doors |= door;
    recorder::RememberDoor(door);
    recorder::NoteRecordKinds(uint64_t{1} << static_cast<int>(EventKind::kRange) |
                              uint64_t{1} << static_cast<int>(EventKind::kMark));
  }
  errno = saved_errno;
  return thread;
}

int PushRange(RangeThread* thread, uint32_t domain, NameInfo name, const RangeExtra& extra, schema::RangeForm form) {
  if (__builtin_expect((name.traits & kNameEngineForward) != 0, 0) && thread->open[domain] != 0) {
    CloseLeftOpen(thread, domain, ReadTicks());
  }
  const uint32_t level = thread->open[domain]++;
  if (__builtin_expect(thread->depth >= kStackDepth || thread->beyond[domain] != 0, 0)) {
    ++thread->beyond[domain];
    CountLoss(LossReason::kRangeTooDeep);
    return static_cast<int>(level);
  }
  OpenRange& range = thread->stack[thread->depth];
  range.value = extra.value;
  range.name = name.id;
  range.detail = extra.detail;
  range.domain = static_cast<uint8_t>(domain);
  range.depth = static_cast<uint8_t>(thread->depth);
  range.traits = name.traits;
  range.phase = name.phase;
  range.form = form;
  ++thread->depth;
  range.begin_ticks = ReadTicks();
  return static_cast<int>(level);
}

int PopRange(uint32_t domain, const RangeExtra& extra) {
  const uint64_t now_ticks = ReadTicks();
  RangeThread* thread = RunningRangeThread();
  if (__builtin_expect(thread == nullptr, 0)) {
    if (recorder::Active()) CountLoss(LossReason::kRangeUnbalanced);
    return -1;
  }
  if (__builtin_expect(thread->open[domain] == 0, 0)) {
    CountLoss(LossReason::kRangeUnbalanced);
    return -1;
  }
  const uint32_t level = --thread->open[domain];
  if (__builtin_expect(thread->beyond[domain] != 0, 0)) {
    --thread->beyond[domain];
    return static_cast<int>(level);
  }
  uint32_t position = thread->depth - 1;
  while (__builtin_expect(thread->stack[position].domain != domain, 0)) --position;  // open[domain] says it is there
  OpenRange& range = thread->stack[position];
  if (extra.present) {
    range.value = extra.value;
    range.detail = extra.detail;
  }
  WriteRecord(EventKind::kRange, range, now_ticks, 0);
  recorder::NcclCall call;
  if (__builtin_expect(domain == kDomainNccl, 0)) call = NcclCallIn(range);
  TakeOut(thread, position);
  if (__builtin_expect(call.what != recorder::kNcclCallNone, 0) && recorder::TakeNcclCall != nullptr) {
    recorder::TakeNcclCall(call);
  }
  return static_cast<int>(level);
}

uint64_t StartRange(RangeThread* thread, uint32_t domain, NameInfo name, const RangeExtra& extra) {
  // Threads begin their search at different places, and each goes on from where it was.
  uint32_t at = thread->next_started != 0 ? thread->next_started : static_cast<uint32_t>(thread - g_threads) * 8;
  for (uint32_t i = 0; i < kProbes; ++i, ++at) {
    StartedRange& entry = g_started[at % kStartedLimit];
    const uint64_t id = LoadRelaxed(entry.id);
    // Entries of an earlier session (the parent's, in a forked child) are free.
    if (id == kBusy || (id != 0 && LoadRelaxed(entry.generation) == g_session.generation)) continue;
    if (!CompareExchange(entry.id, id, kBusy)) continue;
    StoreRelaxed(entry.generation, g_session.generation);
    entry.value = extra.value;
    entry.name = name.id;
    entry.detail = extra.detail;
    entry.domain = domain;
    entry.begin_ticks = ReadTicks();
    const uint64_t mine = ++entry.sequence * kStartedLimit + at % kStartedLimit;
    StoreRelease(entry.id, mine);
    thread->next_started = at + 1;
    return mine;
  }
  CountLoss(LossReason::kRangeTableFull);
  return 0;
}

void EndRange(uint64_t id, const RangeExtra& extra) {
  const uint64_t now_ticks = ReadTicks();
  if (id == 0 || !recorder::Active()) return;  // not kept, and counted then
  StartedRange& entry = g_started[id % kStartedLimit];
  if (id == kBusy || !CompareExchange(entry.id, id, kBusy)) {
    CountLoss(LossReason::kRangeUnbalanced);
    return;
  }
  const bool ours = LoadRelaxed(entry.generation) == g_session.generation;
  OpenRange range = {};
  range.begin_ticks = entry.begin_ticks;
  range.value = extra.present ? extra.value : entry.value;
  range.name = entry.name;
  range.detail = extra.present ? extra.detail : entry.detail;
  range.domain = static_cast<uint8_t>(entry.domain);
  range.form = schema::RangeForm::kStartEnd;
  StoreRelease(entry.id, 0u);
  if (ours) {
    WriteRecord(EventKind::kRange, range, now_ticks, 0);
  } else {
    CountLoss(LossReason::kRangeUnbalanced);
  }
}

void MarkInstant(RangeThread* thread, uint32_t domain, NameInfo name, const RangeExtra& extra,
                 schema::RangeForm form) {
  OpenRange mark = {};
  mark.begin_ticks = ReadTicks();
  mark.value = extra.value;
  mark.name = name.id;
  mark.detail = extra.detail;
  mark.domain = static_cast<uint8_t>(domain);
  mark.depth = static_cast<uint8_t>(thread->depth);
  mark.phase = name.phase;
  mark.form = form;
  WriteRecord(EventKind::kMark, mark, mark.begin_ticks, 0);
}

}  // namespace rankscope::shim
