// See callbacks.h.
#include "cupti/callbacks.h"

#include <errno.h>

#include "cupti/name_table.h"
#include "cupti/record_decoder.h"
#include "cupti/subscriber.h"
#include "recorder/session.h"

namespace rankscope::cupti {

using recorder::AddShared;
using recorder::CountLoss;
using recorder::g_session;
using recorder::LoadAcquire;
using recorder::LoadRelaxed;
using schema::EventKind;

namespace {

uint32_t g_ring_in_use = 0;  // 1 + generation of the session whose buffers the pool has

constexpr uint64_t Kinds(EventKind first, EventKind last) {
  return ((uint64_t{2} << static_cast<int>(last)) - 1) & ~((uint64_t{1} << static_cast<int>(first)) - 1);
}

}  // namespace

bool UseRing() {
  if (!recorder::Start()) return false;
  uint32_t in_use = LoadRelaxed(g_ring_in_use);
  if (in_use != 0) return true;  // after a fork nothing of CUPTI is used any more
  if (!__atomic_compare_exchange_n(&g_ring_in_use, &in_use, 1 + g_session.generation, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE))
    return true;
  if (g_session.cupti != nullptr)
    g_source.pool.AddRing(g_session.gpu_buffers, g_session.gpu_buffer_count, g_session.cupti->buffer_state);
  recorder::NoteRecordKinds(Kinds(EventKind::kGpuKernel, EventKind::kGpuMemoryPool));
  return true;
}

void RequestBuffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  AddShared(g_source.requests, 1u);
  uint8_t* out = LoadAcquire(g_source.dead) == 0 ? g_source.pool.Take() : nullptr;
  if (out == nullptr) {
    AddShared(g_source.refused, 1u);
    CountLoss(schema::LossReason::kCuptiNoBuffer);
    // Before 12.9 a refusal may crash in CUPTI (kineto#1534): it gets memory that nobody reads.
    if (g_source.info.api_version < kVersionOf12_9) out = g_source.pool.sacrificial();
  }
  *buffer = out;
  *bytes = out == nullptr ? 0 : kBufferBytes;
  *most_records = 0;
}

void CompleteBuffer(void*, uint32_t, uint8_t* buffer, size_t bytes, size_t valid_bytes) {
  const int saved_errno = errno;
  AddShared(g_source.completions, 1u);
  if (buffer == nullptr || buffer == g_source.pool.sacrificial() || LoadAcquire(g_source.dead) != 0) {
    if (buffer != nullptr && LoadAcquire(g_source.dead) == 0)
      CountLoss(schema::LossReason::kCuptiUnparsedBytes, valid_bytes);
    errno = saved_errno;
    return;
  }
  const int index = g_source.pool.IndexOf(buffer);
  if (index < 0 || !g_source.pool.MarkReturned(index)) {
    AddShared(g_source.unknown_buffers, 1u);
    CountLoss(schema::LossReason::kCuptiUnknownBuffer);
    errno = saved_errno;
    return;
  }
  if (valid_bytes > bytes) valid_bytes = bytes;
  if (valid_bytes > kBufferBytes) valid_bytes = kBufferBytes;
  if (valid_bytes > 0 && UseRing()) {
    recorder::MaybeTakeClockPair(recorder::ReadTicks());
    const DecodeContext context{g_source.info.stride, &g_source.calls, g_source.earliest_ns};
    const DecodeCounts counts = DecodeBuffer(context, buffer, valid_bytes);
    AddShared(g_source.records, counts.records);
    AddShared(g_source.bad_times, counts.bad_times);
  }
  g_source.pool.GiveBack(index);
  errno = saved_errno;
}

}  // namespace rankscope::cupti
