// See other_client.h.
#include "cupti/other_client.h"

#include "cupti/subscriber.h"
#include "recorder/clock.h"
#include "recorder/other_client.h"

namespace rankscope::cupti {
namespace {

using recorder::LoadAcquire;
using recorder::LoadRelaxed;
using recorder::StoreRelease;

constexpr uint64_t kQuietNs = 1'000'000'000;

constinit uint32_t g_present = 0, g_flushed = 0, g_finalized = 0;
constinit uint64_t g_kinds = 0;  // that it has turned on
constinit uint64_t g_last_ns = 0;

}  // namespace

OtherClient SeenOtherClient(uint64_t now_ns) {
  if (LoadAcquire(g_finalized) != 0) return OtherClient::kFinalized;
  if (LoadAcquire(g_present) == 0) return OtherClient::kNone;
  const bool over = LoadAcquire(g_flushed) != 0 && LoadRelaxed(g_kinds) == 0;
  const uint64_t last_ns = LoadRelaxed(g_last_ns);
  return over && now_ns > last_ns && now_ns - last_ns >= kQuietNs ? OtherClient::kGone : OtherClient::kPresent;
}

uint64_t OtherClientLastNs() { return LoadRelaxed(g_last_ns); }

void ForgetOtherClient() { StoreRelease(g_present, 0u); }

}  // namespace rankscope::cupti

namespace rankscope::recorder {

void NoteOtherClient(OtherClientCall call, uint32_t kind) {
  using cupti::g_source;
  if (LoadAcquire(g_source.dead) != 0) return;
  StoreRelaxed(cupti::g_last_ns, MonotonicNs());
  const uint64_t bit = kind < 64 ? uint64_t{1} << kind : 0;
  switch (call) {
    case OtherClientCall::kRegister:
      // What CUPTI holds of ours comes to us while it still knows us.
      if (cupti::State() == schema::CuptiState::kArmed && LoadAcquire(cupti::g_present) == 0)
        g_source.calls.flush_all(0);
      StoreRelaxed(cupti::g_kinds, uint64_t{0});
      StoreRelaxed(cupti::g_flushed, 0u);
      StoreRelease(cupti::g_present, 1u);
      break;
    case OtherClientCall::kEnable:
      OrShared(cupti::g_kinds, bit);
      StoreRelease(cupti::g_flushed, 0u);
      break;
    case OtherClientCall::kDisable:
      AndShared(cupti::g_kinds, ~bit);
      break;
    case OtherClientCall::kFlushed:
      StoreRelease(cupti::g_flushed, 1u);
      break;
    case OtherClientCall::kFinalize:
      StoreRelease(cupti::g_finalized, 1u);
      break;
  }
}

}  // namespace rankscope::recorder
