// Operations without a profiler plugin: NCCL before 2.23 (PyTorch before 2.7) has none, but marks each call of its
// interface by an NVTX range. Its calls become CollApi and P2pApi events here, so that all that is known of calls
// works as with a plugin: ordinals, counters, the slots that `hang` reads. Where a plugin came, this file does
// nothing.
//
// What a range says is less: begin and end of the call, bytes; the communicator only from NCCL 2.25 on. Before, a
// process with one communicator has its calls put to that one; in a process with several, they are of no known
// communicator, which the answers count. Called at a range's end on the thread that called NCCL. Must never block but
// for a communicator's first call, and never allocate but there.
#include <pthread.h>

#include "plugin/communicators.h"
#include "plugin/mapping.h"
#include "plugin/slot_words.h"
#include "recorder/lane.h"
#include "recorder/nccl_call.h"
#include "recorder/session.h"

namespace rankscope::plugin {
namespace {

using recorder::g_session;
using recorder::LoadAcquire;
using recorder::LoadRelaxed;
using recorder::NcclCall;
using recorder::StoreRelaxed;
using recorder::StoreRelease;

// A communicator that ranges have named. `context` is what AddCommunicator gave.
struct RangeCommunicator {
  uint32_t hash;
  void* context;
};

pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;  // for all that changes; never held across a call out
constinit RangeCommunicator g_known[kCommunicatorLimit] = {};
constinit uint32_t g_known_count = 0;  // published with release
constinit uint32_t g_generation = 0;   // of the session that the table belongs to
// Communicators without a hash: how often one was made, and what the last one said of itself.
constinit uint32_t g_unnamed = 0;
constinit uint64_t g_unnamed_ranks = 0;  // ranks << 32 | rank

// Under g_lock. A forked child of a recording process has its own communicators.
void EnterSession() {
  if (g_generation == g_session.generation) return;
  StoreRelease(g_known_count, 0u);
  g_unnamed = 0;
  g_unnamed_ranks = 0;
  StoreRelease(g_generation, g_session.generation);
  recorder::RememberDoor(schema::kDoorNcclRanges);
  recorder::NoteRecordKinds(uint64_t{1} << static_cast<int>(EventKind::kCollApi) |
                            uint64_t{1} << static_cast<int>(EventKind::kP2pApi));
}

void* Find(uint32_t hash) {
  if (LoadAcquire(g_generation) != g_session.generation) return nullptr;
  const uint32_t count = LoadAcquire(g_known_count);
  for (uint32_t i = 0; i < count; ++i) {
    if (LoadRelaxed(g_known[i].hash) == hash) return LoadRelaxed(g_known[i].context);
  }
  return nullptr;
}

// Under g_lock. The newest of a hash counts: NCCL may give a hash again after the communicator is gone.
void* Add(uint32_t hash, uint64_t ranks_and_rank) {
  uint32_t place = 0;
  while (place < g_known_count && g_known[place].hash != hash) ++place;
  if (place == kCommunicatorLimit) {
    recorder::CountLoss(schema::LossReason::kCommTableFull);
    return nullptr;
  }
  const auto ranks = static_cast<int32_t>(ranks_and_rank >> 32);
  const int32_t rank = ranks > 0 ? static_cast<int32_t>(ranks_and_rank) : -1;
  CommunicatorIdentity identity;
  identity.ranks = ranks;
  void* context = AddCommunicator(0, identity);
  if (Communicator* comm = FromContext(context)) {
    LearnIdentity(comm, hash, nullptr, rank);
    if (ranks > 0) {
      StoreRelaxed(comm->entry->ranks, ranks);
      StoreRelease(comm->entry->flags, LoadRelaxed(comm->entry->flags) | schema::kCommSizeKnown);
    }
  }
  StoreRelaxed(g_known[place].hash, hash);
  StoreRelaxed(g_known[place].context, context);
  if (place == g_known_count) StoreRelease(g_known_count, place + 1);
  return context;
}

void NoteCommunicator(const NcclCall& call) {
  const auto ranks = static_cast<int32_t>(call.value >> 32);
  const auto rank = static_cast<int32_t>(call.value);
  pthread_mutex_lock(&g_lock);
  EnterSession();
  if (call.communicator != 0) {
    Add(call.communicator, call.value);
  } else {
    ++g_unnamed;
    g_unnamed_ranks = call.value;
  }
  pthread_mutex_unlock(&g_lock);
  if (recorder::StartOtherSources != nullptr) recorder::StartOtherSources();
  recorder::RefreshIdentity();
  if (ranks > 0 && rank >= 0 && rank < ranks) recorder::LearnRank(rank, ranks);
}

// Several without a hash: which of them a call is for is not known.
bool IsAmbiguous(uint32_t hash) {
  return hash == 0 && LoadRelaxed(g_unnamed) > 1 && LoadAcquire(g_generation) == g_session.generation;
}

Communicator* CommunicatorOf(uint32_t hash) {
  if (IsAmbiguous(hash)) return nullptr;
  void* context = Find(hash);
  if (__builtin_expect(context == nullptr, 0)) {
    pthread_mutex_lock(&g_lock);
    EnterSession();
    context = Find(hash);
    if (context == nullptr) context = Add(hash, hash == 0 ? g_unnamed_ranks : 0);
    pthread_mutex_unlock(&g_lock);
  }
  return FromContext(context);
}

void EndCommunicator(uint32_t hash) {
  if (IsAmbiguous(hash)) return;
  void* context = Find(hash);
  Communicator* comm = FromContext(context);
  // Finalize and destroy come one after the other.
  if (comm == nullptr || (LoadRelaxed(comm->entry->flags) & schema::kCommFinalized) != 0) return;
  FinalizeCommunicator(context);
}

void RecordCall(const NcclCall& call) {
  if (!Wanted(recorder::kEventsApi)) return;
  Lane* lane = recorder::CurrentLane();
  if (lane == nullptr) return;  // counted there
  const auto func = static_cast<schema::Function>(call.what);
  const bool point_to_point = func == schema::Function::kSend || func == schema::Function::kRecv;
  ApiStart start;
  start.count = call.value;
  start.names = PackNames(call.what, static_cast<uint8_t>(schema::DataType::kInt8));
  const Handle handle = StartApi(lane, CommunicatorOf(call.communicator),
                                 point_to_point ? EventKind::kP2pApi : EventKind::kCollApi, start);
  // The call began before its range's end, which is now.
  const recorder::Resolved slot = recorder::Resolve(handle);
  if (slot.slot != nullptr) {
    recorder::StorePair(WordsOf(slot.slot) + kWordIssue, recorder::MakePair(call.begin_ticks, call.begin_ticks));
  }
  StopEvent(handle);
}

}  // namespace
}  // namespace rankscope::plugin

namespace rankscope::recorder {

void TakeNcclCall(const NcclCall& call) {
  if ((LoadRelaxed(g_session.header->doors) & schema::kDoorPlugin) != 0) return;
  switch (call.what) {
    case kNcclCallNone:
      return;
    case kNcclCallCommInit:
      return plugin::NoteCommunicator(call);
    case kNcclCallCommEnd:
      return plugin::EndCommunicator(call.communicator);
    default:
      return plugin::RecordCall(call);
  }
}

}  // namespace rankscope::recorder
