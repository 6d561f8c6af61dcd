// See event_mask.h. Facts of the versions: docs/nccl-rules.md.
#include "plugin/event_mask.h"

#include <sys/statvfs.h>

#include <initializer_list>

#include "plugin/nccl_profiler_abi.h"
#include "recorder/config.h"
#include "recorder/log.h"
#include "schema/event_abi.h"

namespace rankscope::plugin {

namespace {

using schema::EventKind;

struct Row {
  uint32_t wanted;  // recorder::NcclEventBits
  uint32_t nccl;    // the event's bit
  EventKind kind;
  int first_version;  // the API version that has the event
  int first_usable;   // the version from which asking for it does no harm
};

constexpr Row kRows[] = {
    {recorder::kEventsGroup, abi::kGroup, EventKind::kGroup, 1, 1},
    {recorder::kEventsColl, abi::kColl, EventKind::kColl, 1, 1},
    {recorder::kEventsP2p, abi::kP2p, EventKind::kP2p, 1, 1},
    {recorder::kEventsApi, abi::kGroupApi, EventKind::kGroupApi, 5, 5},
    {recorder::kEventsApi, abi::kCollApi, EventKind::kCollApi, 5, 5},
    {recorder::kEventsApi, abi::kP2pApi, EventKind::kP2pApi, 5, 5},
    {recorder::kEventsLaunch, abi::kKernelLaunch, EventKind::kKernelLaunch, 5, 5},
    {recorder::kEventsProxyOp, abi::kProxyOp, EventKind::kProxyOp, 1, 1},
    {recorder::kEventsProxyStep, abi::kProxyStep, EventKind::kProxyStep, 1, 1},
    // Up to NCCL 2.26 an idle proxy starts and stops these millions of times a second.
    {recorder::kEventsProxyCtrl, abi::kProxyCtrl, EventKind::kProxyCtrl, 1, 4},
    {recorder::kEventsKernelCh, abi::kKernelCh, EventKind::kKernelChannel, 3, 3},
    {recorder::kEventsNetPlugin, abi::kNetPlugin, EventKind::kNetPlugin, 3, 3},
    {recorder::kEventsCe, abi::kCeColl, EventKind::kCeColl, 6, 6},
    {recorder::kEventsCeDetail, abi::kCeSync, EventKind::kCeSync, 6, 6},
    {recorder::kEventsCeDetail, abi::kCeBatch, EventKind::kCeBatch, 6, 6},
    {recorder::kEventsKernelPhase, abi::kKernelPhase, EventKind::kKernelPhase, 7, 7},
};

constexpr uint64_t Bit(EventKind kind) { return uint64_t{1} << static_cast<int>(kind); }

// From 2.28 on a Group event is one plan, which the API events tell better; nobody needs its handle there.
constexpr int kLastVersionWithUsefulGroup = 4;

}  // namespace

EventChoice ChooseEvents(int api_version, uint32_t events) {
  EventChoice choice;
  for (const Row& row : kRows) {
    if ((events & row.wanted) == 0 || api_version < row.first_version) continue;
    if (row.nccl == abi::kGroup && api_version > kLastVersionWithUsefulGroup) continue;
    if (api_version < row.first_usable) {
      choice.refused = true;
      continue;
    }
    choice.mask |= row.nccl;
    choice.record_kinds |= Bit(row.kind);
  }
  if ((events & recorder::kEventsCompletion) != 0) choice.mask |= abi::kProxyOp;
  // Steps have no states, and up to 2.27 no events, without their operation.
  if ((choice.mask & abi::kProxyStep) != 0) choice.mask |= abi::kProxyOp;
  if ((choice.mask & (abi::kCeSync | abi::kCeBatch)) != 0) choice.mask |= abi::kCeColl;
  if (choice.mask != 0) {
    choice.record_kinds |= Bit(EventKind::kCommInit) | Bit(EventKind::kCommFinalize) | Bit(EventKind::kOpComplete) |
                           Bit(EventKind::kOpEvicted);
  }
  return choice;
}

void WarnAboutEvents(int api_version, uint32_t events) {
  if ((events & recorder::kEventsProxyCtrl) != 0 && api_version < 4) {
    recorder::LogWarning(
        "proxyctrl in RANKSCOPE_NCCL_EVENTS is left out: before NCCL 2.27 an idle proxy calls millions of times a "
        "second");
  }
  if ((events & recorder::kEventsKernelCh) == 0 || api_version < 3) return;
  if (api_version == 3) {
    recorder::LogWarning(
        "kernelch in RANKSCOPE_NCCL_EVENTS: NCCL 2.26 gives no GPU times with it, only when its proxy looked");
  } else if (api_version >= 6) {
    recorder::LogWarning(
        "kernelch in RANKSCOPE_NCCL_EVENTS: from NCCL 2.29 on a broadcast shifts the GPU times that come after it "
        "unless "
        "NCCL_ALLGATHERV_ENABLE=0 is set; from 2.31 on the event costs 4 to 13 %% of operations of 128 KB to 4 MB");
  } else if (api_version == 4) {
    recorder::LogWarning(
        "kernelch in RANKSCOPE_NCCL_EVENTS: with NCCL 2.27 an alltoall can fail with 'Proxy append out of bounds'");
  }
  // It gives every communicator a proxy, whose pool lies in /dev/shm; in a container's 64 MiB NCCL crashes for want
  // of room.
  struct statvfs shm;
  constexpr uint64_t kLittleRoomBytes = 64ull << 20;
  if (statvfs("/dev/shm", &shm) == 0 && uint64_t{shm.f_bavail} * shm.f_frsize < kLittleRoomBytes) {
    recorder::LogWarning(
        "kernelch in RANKSCOPE_NCCL_EVENTS: /dev/shm has less than 64 MiB left, with which NCCL is known to crash; "
        "enlarge it "
        "(docker run --shm-size) or leave kernelch out");
  }
}

void MergeMask(int* activation_mask, uint32_t bits) {
  if (activation_mask == nullptr) return;
  __atomic_fetch_or(activation_mask, static_cast<int>(bits), __ATOMIC_RELAXED);
}

}  // namespace rankscope::plugin
