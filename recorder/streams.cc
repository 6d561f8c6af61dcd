// See streams.h.
#include "recorder/streams.h"

#include "recorder/session.h"

namespace rankscope::recorder {
namespace {

StreamResolver g_resolver = nullptr;
uint32_t g_taken = 0;  // entries given out in the ring of g_generation
uint32_t g_generation = 0;
thread_local constinit uint64_t t_last_handle = 0;
thread_local constinit uint32_t t_last_generation = 0;

bool IsKnown(uint64_t handle) {
  const uint32_t taken = LoadAcquire(g_taken);
  for (uint32_t i = 0; i < taken && i < g_session.stream_capacity; ++i) {
    if (LoadAcquire(g_session.streams[i].commit) != 0 && LoadRelaxed(g_session.streams[i].handle) == handle)
      return true;
  }
  return false;
}

}  // namespace

void SetStreamResolver(StreamResolver resolver) { StoreRelease(g_resolver, resolver); }

void NoteStream(uint64_t handle) {
  const StreamResolver resolver = LoadAcquire(g_resolver);
  if (resolver == nullptr || g_session.streams == nullptr) return;
  const uint32_t generation = g_session.generation;
  if (t_last_handle == handle && t_last_generation == generation) return;
  if (LoadRelaxed(g_generation) != generation) {
    StoreRelaxed(g_taken, 0u);
    StoreRelaxed(g_generation, generation);
  }
  if (!IsKnown(handle)) {
    uint32_t stream_id = 0, context_id = 0;
    if (!resolver(handle, &stream_id, &context_id)) return;
    const uint32_t index = AddShared(g_taken, 1u);
    if (index >= g_session.stream_capacity) {
      StoreRelaxed(g_taken, g_session.stream_capacity);
      return;
    }
    schema::StreamEntry& entry = g_session.streams[index];
    StoreRelaxed(entry.handle, handle);
    StoreRelaxed(entry.stream_id, stream_id);
    StoreRelaxed(entry.context_id, context_id);
    StoreRelease(entry.commit, uint64_t{index} + 1);
  }
  t_last_handle = handle;
  t_last_generation = generation;
}

}  // namespace rankscope::recorder
