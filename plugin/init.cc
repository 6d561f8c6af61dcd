// See init.h.
#include "plugin/init.h"

#include <pthread.h>

#include "plugin/event_mask.h"
#include "plugin/mapping.h"
#include "recorder/session.h"

namespace rankscope::plugin {

using recorder::g_session;
using recorder::LoadRelaxed;
using recorder::StoreRelaxed;

namespace {

pthread_mutex_t g_init_lock = PTHREAD_MUTEX_INITIALIZER;
uint32_t g_described_generation = 0;  // under g_init_lock: the session that the header was filled for
uint32_t g_channels_are_garbage = 0;

constexpr int32_t kFirstNcclWithV5 = 22800;  // as ncclGetVersion counts

// Once a session (a forked child has its own).
void DescribeSession(int api_version, const EventChoice& choice) {
  pthread_mutex_lock(&g_init_lock);
  if (g_described_generation != g_session.generation) {
    g_described_generation = g_session.generation;
    RememberProcessId();
    schema::RingHeader* header = g_session.header;
    StoreRelaxed(header->event_mask, choice.mask);
    recorder::NoteRecordKinds(choice.record_kinds);
    recorder::RememberDoor(schema::kDoorPlugin);
    StoreRelaxed(g_session.identity->nccl_api_version, api_version);
    WarnAboutEvents(api_version, g_session.config.nccl_events);
  }
  pthread_mutex_unlock(&g_init_lock);
}

}  // namespace

bool P2pChannelsAreGarbage() { return LoadRelaxed(g_channels_are_garbage) != 0; }

int OpenCommunicator(int api_version, void** context, int* activation_mask, const CommunicatorIdentity& identity) {
  if (context == nullptr) return 0;
  *context = IgnoredContext();
  if (!recorder::Start()) return 0;
  if (recorder::StartOtherSources != nullptr) recorder::StartOtherSources();
  const EventChoice choice = ChooseEvents(api_version, g_session.config.nccl_events);
  DescribeSession(api_version, choice);
  recorder::RefreshIdentity();
  if (identity.known) recorder::LearnRank(identity.rank, identity.ranks);
  if (api_version == 4 && LoadRelaxed(g_session.identity->nccl_version) >= kFirstNcclWithV5) {
    StoreRelaxed(g_channels_are_garbage, 1u);
  }
  *context = AddCommunicator(api_version, identity);
  if (*context == IgnoredContext()) return 0;
  if (choice.refused) {
    schema::CommEntry* entry = FromContext(*context)->entry;
    recorder::StoreRelease(entry->flags, LoadRelaxed(entry->flags) | schema::kCommMaskRefused);
  }
  MergeMask(activation_mask, choice.mask);
  return 0;
}

}  // namespace rankscope::plugin
