// The slow paths of lanes: claiming, promoting, giving back, evicting. See lane.h and in_flight.h.
// Each runs once a thread or on a rare branch of the hot path, never allocates and never waits.
#include "recorder/lane.h"

#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder/in_flight.h"
#include "recorder/lane_table.h"
#include "recorder/session.h"

namespace rankscope::recorder {

thread_local constinit Lane* t_lane = nullptr;

namespace {

constinit Lane g_lanes[kLaneLimit];
pthread_key_t g_exit_key;                           // its destructor gives a thread's lane back
bool g_exit_key_made = false;                       // written at start only
thread_local constinit uint32_t t_skip_claims = 0;  // events until a thread without a lane looks again

constexpr uint32_t kSkipClaims = 1024;

void Release(Lane* lane) {
  StoreRelaxed(lane->header->owner_thread_id, 0u);
  StoreRelease(lane->in_use, 0u);
}

void OnThreadExit(void* value) {
  t_lane = nullptr;
  // After a fork the lanes are another session's.
  if (value != nullptr && Active()) Release(static_cast<Lane*>(value));
}

void AddTenant(Lane* lane) {
  schema::LaneHeader* header = lane->header;
  char name[17] = {};
  prctl(PR_GET_NAME, name, 0, 0, 0);
  const auto thread_id = static_cast<uint32_t>(syscall(SYS_gettid));
  const uint32_t count = LoadRelaxed(header->tenant_count);
  schema::LaneTenant& tenant = header->tenants[count % schema::kLaneTenants];
  StoreRelaxed(tenant.first_record, LoadRelaxed(header->head));
  StoreRelaxed(tenant.thread_id, thread_id);
  StoreRelaxed(tenant.name, InternName(name, schema::NameKind::kThread));
  StoreRelaxed(header->pthread_low[count % schema::kLaneTenants], static_cast<uint32_t>(pthread_self()));
  StoreRelease(header->tenant_count, count + 1);
  StoreRelaxed(header->owner_thread_id, thread_id);
  lane->thread_word = uint64_t{thread_id} | uint64_t{schema::kOrdinalUnknown} << 32;
}

// Where the next search for a free lane begins, of small lanes and of large ones: behind the lane taken last. What a
// thread left behind, by its end or for a larger lane, is thus overwritten as late as can be; taking the first free
// lane would give a thread's newest records to the next thread that starts. A lost update moves a search, no more.
constinit uint32_t g_search_from[2] = {};

Lane* TryTake(bool large) {
  const uint32_t small = g_session.header->small_lane_count;
  const uint32_t first = large ? small : 0;
  const uint32_t count = large ? g_session.lane_count - small : small;
  const uint32_t from = LoadRelaxed(g_search_from[large]);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t at = (from + i) % count;
    Lane* lane = &g_lanes[first + at];
    if (LoadRelaxed(lane->in_use) != 0 || !CompareExchange(lane->in_use, 0u, 1u)) continue;
    StoreRelaxed(g_search_from[large], at + 1);
    return lane;
  }
  return nullptr;
}

void Occupy(Lane* lane) {
  AddTenant(lane);
  lane->promote_at_head = lane->large ? ~0ull : LoadRelaxed(lane->header->head) + lane->record_mask + 1;
  t_lane = lane;
  if (g_exit_key_made) pthread_setspecific(g_exit_key, lane);
}

}  // namespace

void SetUpLanes(const RingGeometry& geometry) {
  if (!g_exit_key_made) g_exit_key_made = pthread_key_create(&g_exit_key, OnThreadExit) == 0;
  uint64_t slot = 0, record = 0;
  for (uint32_t i = 0; i < geometry.lanes(); ++i) {
    const bool large = i >= geometry.small_lanes;
    const uint32_t records = large ? geometry.large_records : geometry.small_records;
    const uint32_t slots = large ? geometry.large_slots : geometry.small_slots;
    schema::LaneHeader* header = &g_session.lane_headers[i];
    header->first_record = record;
    header->record_count = records;
    header->first_slot = slot;
    header->slot_count = slots;
    Lane& lane = g_lanes[i];
    memset(lane.cell_of, 0, sizeof(lane.cell_of));
    lane.records = g_session.records + record;
    lane.slots = g_session.slots + slot;
    lane.header = header;
    lane.cells = g_session.cells + uint64_t{i} * geometry.cells_per_lane;
    lane.next_slot = 0;
    lane.record_mask = records - 1;
    lane.slot_mask = slots - 1;
    lane.first_slot = static_cast<uint32_t>(slot);
    lane.cell_limit = geometry.cells_per_lane;
    lane.cells_used = 0;
    lane.index = static_cast<uint16_t>(i);
    lane.large = large;
    lane.fast_events = g_use_monotonic_clock ? 0 : g_session.config.nccl_events;
    lane.in_use = 0;
    record += records;
    slot += slots;
  }
}

void ForgetLanes() {
  StoreRelaxed(g_search_from[0], 0u);
  StoreRelaxed(g_search_from[1], 0u);
  for (Lane& lane : g_lanes) lane.in_use = 0;
  t_skip_claims = 0;
  if (g_exit_key_made) pthread_setspecific(g_exit_key, nullptr);
}

Lane* ClaimLane() {
  if (!Active()) return nullptr;
  if (t_skip_claims > 0) {
    --t_skip_claims;
    CountLoss(schema::LossReason::kNoLane);
    return nullptr;
  }
  Lane* lane = TryTake(false);
  if (lane == nullptr) lane = TryTake(true);
  if (lane == nullptr) {
    t_skip_claims = kSkipClaims;
    CountLoss(schema::LossReason::kNoLane);
    return nullptr;
  }
  Occupy(lane);
  return lane;
}

Lane* LargeLane() {
  if (!Active()) return nullptr;
  if (t_lane != nullptr) {
    if (!t_lane->large) TryPromote(t_lane);
    return t_lane;
  }
  if (Lane* lane = TryTake(true)) {
    Occupy(lane);
    return lane;
  }
  return ClaimLane();
}

void TryPromote(Lane* lane) {
  lane->promote_at_head = ~0ull;
  Lane* larger = TryTake(true);
  if (larger == nullptr) return;
  Occupy(larger);
  Release(lane);
}

schema::TotalCell* ClaimCell(Lane* lane, uint32_t func, uint32_t size_class) {
  // Cell 0 is what finds no room; it is there from the first overflow on.
  uint32_t cell = lane->cells_used + 1;
  const bool full = cell >= lane->cell_limit;
  if (full) {
    cell = 0;
    CountLoss(schema::LossReason::kTotalsFull);
  } else {
    lane->cells_used = cell;
    lane->cell_of[func][size_class] = static_cast<uint8_t>(cell + 1);
  }
  schema::TotalCell* out = &lane->cells[cell];
  StoreRelaxed(out->key, schema::kTotalCellUsed | (full ? 0u : func << 8 | size_class));
  return out;
}

namespace {

// Nothing of the slot's last holder is left that a new one would count on; see TakeSlot.
void CleanSlot(schema::InFlightSlot* slot) {
  StoreRelaxed(slot->children_started, 0u);
  StoreRelaxed(slot->children_stopped, 0u);
  StoreRelaxed(slot->last_progress_ticks, 0u);
  StoreRelaxed(slot->detail[0], 0u);
}

// Records what is about to be forgotten, so that a hang's first victim stays known.
void RecordEviction(Lane* lane, schema::InFlightSlot* slot, uint64_t tag) {
  const auto* words = reinterpret_cast<const uint64_t*>(slot);
  if ((TagState(tag) & schema::kSlotIsOperation) != 0) {
    RecordWords record;
    record.begin_ticks = LoadRelaxed(slot->begin_ticks);
    record.end_ticks = ReadTicks();
    record.kind_flags_comm_aux =
        (LoadRelaxed(words[3]) & ~uint64_t{0xffff}) | static_cast<uint64_t>(schema::EventKind::kOpEvicted);
    record.op_id = LoadRelaxed(words[4]);
    for (int i = 0; i < 3; ++i) record.payload[i] = LoadRelaxed(words[5 + i]);
    Commit(lane, record);
    return;
  }
  // A network event that is forgotten: its operation can no longer be known to be finished.
  const Resolved parent = Resolve(LoadRelaxed(slot->parent));
  if (parent.slot != nullptr) {
    StoreRelaxed(parent.slot->flags,
                 static_cast<uint16_t>(LoadRelaxed(parent.slot->flags) | schema::kFlagTrackingLost));
  }
}

}  // namespace

NewSlot TakeUsedSlot(Lane* lane) {
  constexpr uint64_t kLookAhead = 16;
  for (uint64_t i = 0; i < kLookAhead; ++i) {
    schema::InFlightSlot* candidate = &lane->slots[(lane->next_slot + i) & lane->slot_mask];
    if (StillUnderWay(candidate, LoadRelaxed(candidate->tag))) continue;
    CleanSlot(candidate);
    lane->next_slot += i;
    return TakeSlot(lane);
  }
  // All of them are under way: the oldest goes.
  schema::InFlightSlot* slot = &lane->slots[lane->next_slot & lane->slot_mask];
  const uint64_t tag = LoadRelaxed(slot->tag);
  // Not the moment to move to a larger lane: the caller goes on with this one.
  const uint64_t promote_at_head = lane->promote_at_head;
  lane->promote_at_head = ~0ull;
  RecordEviction(lane, slot, tag);
  const uint64_t head = LoadRelaxed(lane->header->head);
  lane->promote_at_head = promote_at_head <= head ? head + 1 : promote_at_head;
  CountLoss(schema::LossReason::kEvicted);
  StoreRelaxed(slot->tag, tag & ~uint64_t{0xff});
  CleanSlot(slot);
  return TakeSlot(lane);
}

}  // namespace rankscope::recorder
