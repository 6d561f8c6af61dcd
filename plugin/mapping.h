// The mapping core: from what NCCL says, in any API version, to the ring's slots and records. One piece of code for
// all versions; tables.cc decodes each version's descriptors into the small structs below and is inlined together
// with it.
//
// Hot path: called on NCCL's launching, proxy and CUDA callback threads, several at once. Never allocates, locks,
// logs, makes a system call, or follows a pointer of NCCL's beyond the call. A parent is found by its handle's
// generation; where it is not ours (PXN: another process's, or garbage) it is only noted.
#ifndef RANKSCOPE_PLUGIN_MAPPING_H_
#define RANKSCOPE_PLUGIN_MAPPING_H_

#include <cstdint>

#include "plugin/communicators.h"
#include "recorder/in_flight.h"
#include "recorder/lane.h"
#include "recorder/session.h"
#include "schema/event_abi.h"

namespace rankscope::plugin {

using recorder::Handle;
using recorder::Lane;
using schema::EventKind;

// A non-zero handle that means nothing: for events that must have one (Group up to NCCL 2.27) and aren't recorded.
inline constexpr uint64_t kIgnoredRole = 0xf;
inline Handle IgnoredHandle() {
  return static_cast<uint64_t>(recorder::g_session.salt & 0xffffu) << 48 | kIgnoredRole;
}

// Which events are wanted; a copy of the configuration, written at start.
inline bool Wanted(uint32_t bits) { return (recorder::g_session.config.nccl_events & bits) != 0; }

struct OperationStart {  // Coll, P2p, CeColl
  uint64_t parent = 0;   // handle of the API event; 0 = none
  uint64_t count = 0;
  uint64_t seq = 0;
  uint32_t names = 0;  // PackNames
  int32_t root_or_peer = -1;
  uint16_t aux = 0;
  uint16_t flags = 0;
  uint8_t func() const { return static_cast<uint8_t>(names); }
};
struct ApiStart {  // CollApi, P2pApi
  uint64_t count = 0;
  uint64_t stream = 0;
  uint32_t names = 0;
  int32_t root = -1;
  bool captured = false;
};
struct ProxyOpStart {
  uint64_t parent = 0;
  int32_t pid = 0;
  int32_t peer = -1, steps = 0, chunk_bytes = 0;
  uint8_t channel = 0;
  bool is_send = false;
};
struct EventStart {  // everything that only has a start, a stop and some numbers
  EventKind kind;
  uint64_t parent = 0;
  uint16_t comm = schema::kCommUnknown;
  uint16_t aux = 0;
  uint16_t flags = 0;
  uint64_t detail[2] = {0, 0};  // goes into the record's payload
  uint64_t third = 0;
};

// ---- starts: the handle to give to NCCL, 0 = none
Handle StartOperation(Lane* lane, Communicator* comm, EventKind kind, const OperationStart& start);
Handle StartApi(Lane* lane, Communicator* comm, EventKind kind, const ApiStart& start);
Handle StartProxyOp(Lane* lane, Communicator* comm, const ProxyOpStart& start);
Handle StartEvent(Lane* lane, const EventStart& start);

// ---- the others; any value for `handle`
void StopEvent(Handle handle);
void RecordProxyOpState(Handle handle, int state, uint64_t bytes, int32_t steps);
void RecordProxyStepState(Handle handle, int state, bool bytes_valid, uint64_t bytes);
void RecordProxyCtrlState(Handle handle, int state, int32_t appended);
void RecordGpuStop(Handle handle, uint64_t gpu_ns);

// The ordinal of a transfer to or from its peer, 0, 1, ...; the first one is flagged.
uint32_t TakePeerOrdinal(Communicator* comm, const OperationStart& start, uint16_t* flags);

// The process id that NCCL's proxy events are compared with; refreshed after a fork.
void RememberProcessId();

}  // namespace rankscope::plugin

#endif  // RANKSCOPE_PLUGIN_MAPPING_H_
