// See communicators.h. Called from NCCL's init and finalize, and once a communicator from its first event; never on
// the hot path.
#include "plugin/communicators.h"

#include <stdlib.h>

namespace rankscope::plugin {

using recorder::AddShared;
using recorder::g_session;
using recorder::LoadRelaxed;
using recorder::StoreRelaxed;
using recorder::StoreRelease;

constinit Communicator g_communicators[kCommunicatorLimit];

namespace {

constexpr uint64_t kContextMark = 0xc5;
// Peers for which point-to-point ordinals are kept where NCCL doesn't say how many there are (API v1..v3).
constexpr uint32_t kPeersWhenUnknown = 16384;

void CommitInstant(schema::EventKind kind, uint16_t slot, uint64_t now_ticks) {
  recorder::Lane* lane = recorder::CurrentLane();
  if (lane == nullptr) return;
  recorder::RecordWords words{};
  words.begin_ticks = words.end_ticks = now_ticks;
  words.kind_flags_comm_aux = recorder::PackKind(kind, 0, slot, 0);
  recorder::Commit(lane, words);
}

// Anonymous pages: zero, untouched until a peer is used.
void MakeOrdinals(Communicator* comm, int32_t ranks) {
  comm->peer_limit = ranks > 0 ? static_cast<uint32_t>(ranks) : kPeersWhenUnknown;
  comm->sent = static_cast<uint32_t*>(calloc(comm->peer_limit, sizeof(uint32_t)));
  comm->received = static_cast<uint32_t*>(calloc(comm->peer_limit, sizeof(uint32_t)));
  if (comm->sent == nullptr || comm->received == nullptr) comm->peer_limit = 0;
}

}  // namespace

void* IgnoredContext() { return reinterpret_cast<void*>(kContextMark); }

void* AddCommunicator(int api_version, const CommunicatorIdentity& identity) {
  const uint32_t slot = AddShared(g_session.header->comm_count, 1u);
  if (slot >= g_session.comm_capacity || slot >= kCommunicatorLimit) {
    recorder::CountLoss(schema::LossReason::kCommTableFull);
    return IgnoredContext();
  }
  Communicator* comm = &g_communicators[slot];
  schema::CommEntry* entry = &g_session.comms[slot];
  comm->slot = static_cast<uint16_t>(slot);
  comm->api_version = static_cast<uint8_t>(api_version);
  comm->identity_pending = !identity.known;
  comm->settled = 0;
  MakeOrdinals(comm, identity.ranks);
  const uint64_t now_ticks = recorder::ReadTicks();
  entry->hash = identity.hash;
  entry->rank = identity.rank;
  entry->ranks = identity.ranks;
  entry->nodes = identity.nodes;
  entry->flags = identity.known ? schema::kCommIdentityKnown | schema::kCommSizeKnown : 0u;
  entry->name = recorder::InternName(identity.name, schema::NameKind::kComm);
  entry->api_version = static_cast<uint32_t>(api_version);
  entry->init_ticks = now_ticks;
  const int32_t device = LoadRelaxed(g_session.identity->device);
  entry->device = device >= 0 ? static_cast<uint32_t>(device) + 1 : 0;
  StoreRelease(entry->commit, uint64_t{slot} + 1);
  StoreRelease(comm->entry, entry);
  CommitInstant(schema::EventKind::kCommInit, comm->slot, now_ticks);
  return reinterpret_cast<void*>(static_cast<uint64_t>(g_session.salt) << 32 | (uint64_t{slot} + 1) << 8 |
                                 kContextMark);
}

void FinalizeCommunicator(void* context) {
  Communicator* comm = FromContext(context);
  if (comm == nullptr) return;
  const uint64_t now_ticks = recorder::ReadTicks();
  StoreRelaxed(comm->entry->finalize_ticks, now_ticks);
  StoreRelease(comm->entry->flags, LoadRelaxed(comm->entry->flags) | schema::kCommFinalized);
  CommitInstant(schema::EventKind::kCommFinalize, comm->slot, now_ticks);
}

void LearnIdentity(Communicator* comm, uint64_t hash, const char* name, int32_t rank) {
  comm->identity_pending = false;
  schema::CommEntry* entry = comm->entry;
  StoreRelaxed(entry->hash, hash);
  StoreRelaxed(entry->rank, rank);
  if (name != nullptr) StoreRelaxed(entry->name, recorder::InternName(name, schema::NameKind::kComm));
  // A newer NCCL behind an old table gives no hash at all (reference, 1.7): then the rank is known, the communicator
  // is not.
  const uint32_t flag = hash != 0 ? schema::kCommIdentityKnown : schema::kCommIdentityMissing;
  StoreRelease(entry->flags, LoadRelaxed(entry->flags) | flag);
}

}  // namespace rankscope::plugin
