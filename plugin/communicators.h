// The communicators of this process, as the plugin knows them: what stands behind the context that NCCL hands back.
//
// A context is a number like a handle is: salt of the process (32 bits) | slot + 1 | a mark. It resolves only in the
// process that made it; slots are never reused, so a context that comes after its finalize (shared proxies) still
// finds its place. Entries are made by init (any thread, several at once) and then written by the threads that launch
// on the communicator, which NCCL's users must not do at the same time; counters are single-writer words of the ring.
#ifndef RANKSCOPE_PLUGIN_COMMUNICATORS_H_
#define RANKSCOPE_PLUGIN_COMMUNICATORS_H_

#include <cstdint>

#include "recorder/session.h"
#include "schema/ring_abi.h"

namespace rankscope::plugin {

inline constexpr uint32_t kCommunicatorLimit = 512;

// What came at least once on a communicator; until then the slow path looks after first-of-communicator marks and
// identities.
enum SettledBits : uint8_t { kLaunchSettled = 1, kApiSettled = 2 };

struct alignas(64) Communicator {
  schema::CommEntry* entry = nullptr;  // in the ring; stored last with release
  uint32_t* sent = nullptr;            // point-to-point ordinals by peer; private memory, never freed
  uint32_t* received = nullptr;
  uint32_t peer_limit = 0;
  uint16_t slot = 0;
  uint8_t api_version = 0;
  uint8_t settled = 0;            // SettledBits
  bool identity_pending = false;  // API v1..v3: identity comes with the first operation
  bool api_seen = false;          // an API event came (first-of-communicator mark)
  bool launch_seen = false;
};

struct CommunicatorIdentity {
  bool known = false;  // false for API v1..v3
  uint64_t hash = 0;
  const char* name = nullptr;
  int32_t rank = -1, ranks = 0, nodes = 0;
};

// The value that init returns where the recorder is off or full: never NULL, resolves to nothing.
void* IgnoredContext();

// Makes a communicator's entry and returns its context; IgnoredContext() when the table is full.
void* AddCommunicator(int api_version, const CommunicatorIdentity& identity);
void FinalizeCommunicator(void* context);

// API v1..v3: what the first Coll or P2p event says of its communicator.
void LearnIdentity(Communicator* comm, uint64_t hash, const char* name, int32_t rank);

extern Communicator g_communicators[kCommunicatorLimit];

// nullptr: NULL, foreign or garbage.
inline Communicator* FromContext(const void* context) {
  const auto value = reinterpret_cast<uint64_t>(context);
  if ((value >> 32) != recorder::g_session.salt) return nullptr;
  const uint64_t slot = ((value >> 8) & 0xffffff) - 1;
  if (slot >= kCommunicatorLimit) return nullptr;
  Communicator* comm = &g_communicators[slot];
  return recorder::LoadAcquire(comm->entry) == nullptr ? nullptr : comm;
}

}  // namespace rankscope::plugin

#endif  // RANKSCOPE_PLUGIN_COMMUNICATORS_H_
