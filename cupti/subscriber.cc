// See subscriber.h.
#include "cupti/subscriber.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cupti/callbacks.h"
#include "cupti/flush_thread.h"
#include "cupti/gpu_clock.h"
#include "recorder/config.h"
#include "recorder/log.h"
#include "recorder/session.h"
#include "recorder/streams.h"

namespace rankscope::cupti {

using recorder::LoadAcquire;
using recorder::LogWarning;
using recorder::StoreRelease;
using schema::CuptiState;

constinit Source g_source;

namespace {

constexpr uint64_t Bit(uint32_t kind) { return uint64_t{1} << kind; }
constexpr uint64_t kDefaultKinds = Bit(kKindConcurrentKernel) | Bit(kKindMemcpy) | Bit(kKindMemcpy2) |
                                   Bit(kKindMemset) | Bit(kKindSynchronization) | Bit(kKindMemory2) |
                                   Bit(kKindMemoryPool) | Bit(kKindGraphTrace) | Bit(kKindOverhead);

struct EventWord {
  const char* name;
  uint64_t kinds;
};
constexpr EventWord kEventWords[] = {
    {"default", kDefaultKinds},
    {"none", 0},
    {"kernel", Bit(kKindConcurrentKernel)},
    {"memcpy", Bit(kKindMemcpy) | Bit(kKindMemcpy2)},
    {"memset", Bit(kKindMemset)},
    {"sync", Bit(kKindSynchronization)},
    {"memory", Bit(kKindMemory2) | Bit(kKindMemoryPool)},
    {"graph", Bit(kKindGraphTrace)},
    {"overhead", Bit(kKindOverhead)},
    // Two to three records a launch: not by default.
    {"api", Bit(kKindDriver) | Bit(kKindRuntime)},
};

uint32_t g_tried = 0;      // whoever sets it arms; the others don't wait
bool g_exclusive = false;  // written by the arming thread
char g_holder[64];

void AfterForkInChild() {
  StoreRelease(g_source.dead, 1u);
  recorder::SetStreamResolver(nullptr);
}

void NoCallback(void*, uint32_t, uint32_t, const void*) {}

bool Resolve(uint64_t handle, uint32_t* stream_id, uint32_t* context_id) {
  if (State() != CuptiState::kArmed || LoadAcquire(g_source.dead) != 0) return false;
  *context_id = 0;  // the current context's; its number isn't needed where a process has one
  return g_source.calls.get_stream_id(nullptr, reinterpret_cast<void*>(handle), 0, stream_id) == kSuccess;
}

CuptiState Fail(const char* call, Result result) {
  g_source.info.result = result;
  snprintf(g_source.info.failing_call, sizeof(g_source.info.failing_call), "%s", call);
  SayFailure(call, result);
  return CuptiState::kFailed;
}

void ReadAttributes() {
  schema::CuptiInfo& info = g_source.info;
  const Calls& calls = g_source.calls;
  if (calls.get_attribute == nullptr) return;
  const auto read = [&](uint32_t attribute, uint64_t* out) {
    size_t value = 0, bytes = sizeof(value);
    if (calls.get_attribute(attribute, &bytes, &value) == kSuccess) *out = value;
  };
  read(kDeviceBufferSize, &info.device_buffer_bytes);
  read(kDeviceBufferPoolLimit, &info.device_buffer_limit);
  read(kDeviceBufferPreAllocateValue, &info.device_buffer_preallocated);
  if (info.api_version < kVersionOf12_3 || calls.set_attribute == nullptr) return;
  uint8_t per_thread = 0;
  size_t bytes = sizeof(per_thread);
  if (calls.get_attribute(kPerThreadActivityBuffer, &bytes, &per_thread) != kSuccess) return;
  if (per_thread == 0) {
    // Threads that share a buffer contend for it on every launch (kineto#1037).
    uint8_t on = 1;
    if (calls.set_attribute(kPerThreadActivityBuffer, &bytes, &on) == kSuccess) per_thread = 1;
  }
  info.per_thread_buffers = 1u + per_thread;
}

void ReadSettings() {
  g_source.wanted_kinds = kDefaultKinds;
  if (const char* value = recorder::SettingValue("GPU_EVENTS")) {
    char unknown[64] = {};
    if (!ParseGpuEvents(value, &g_source.wanted_kinds, unknown, sizeof(unknown))) {
      LogWarning(
          "RANKSCOPE_GPU_EVENTS: '%s' is not a GPU event's name; the default is taken (docs/environment.md has the "
          "names)",
          unknown);
      g_source.wanted_kinds = kDefaultKinds;
    }
  }
  uint64_t seconds = 600;
  if (const char* value = recorder::SettingValue("CUPTI_RESUME_S")) {
    if (!recorder::ParseBytes(value, &seconds) || seconds == 0 || seconds > 1000000) {
      LogWarning("RANKSCOPE_CUPTI_RESUME_S=%.40s is not a number of seconds from 1 to 1000000; 600 is taken", value);
      seconds = 600;
    }
  }
  g_source.resume_after_ns = seconds * 1'000'000'000;
}

void ChooseClock() {
  AnchorClock();
  const bool ours = g_source.calls.register_timestamp_callback != nullptr &&
                    g_source.calls.register_timestamp_callback(TimestampNow) == kSuccess;
  SetClockMode(ours ? schema::CuptiClock::kOurs : schema::CuptiClock::kRealtime);
  g_source.info.clock = static_cast<uint32_t>(ClockMode());
  if (!ours) {
    g_source.info.clock_error_ns = TakeRealtimeAnchor();
    return;
  }
  // One reading of CUPTI's between two of ours says how well the two agree.
  if (g_source.calls.get_timestamp == nullptr) return;
  const uint64_t before = TimestampNow();
  uint64_t theirs = 0;
  const Result result = g_source.calls.get_timestamp(&theirs);
  const uint64_t after = TimestampNow();
  if (result == kSuccess && theirs >= before && theirs <= after) g_source.info.clock_error_ns = after - before;
}

CuptiState ArmLocked(Entrance entrance) {
  schema::CuptiInfo& info = g_source.info;
  const char* setting = recorder::SettingValue("CUPTI");
  const char* disable = recorder::SettingValue("DISABLE");
  if (disable != nullptr && disable[0] != '\0' && strcmp(disable, "0") != 0) return CuptiState::kOff;
  if (setting != nullptr && (strcmp(setting, "0") == 0 || strcmp(setting, "off") == 0)) return CuptiState::kOff;
  g_exclusive = setting != nullptr && strcmp(setting, "exclusive") == 0;
  if (setting != nullptr && !g_exclusive && strcmp(setting, "1") != 0)
    LogWarning("RANKSCOPE_CUPTI=%.40s is none of 0, 1, exclusive; 1 is taken", setting);
  ReadSettings();
  if (g_source.wanted_kinds == 0) return CuptiState::kOff;

  const char* failing = nullptr;
  switch (FindCupti(recorder::SettingValue("CUPTI_LIB"), &g_source.calls, info.library, sizeof(info.library),
                    &info.missing_calls, &failing)) {
    case FindResult::kNoLibrary:
      LogWarning(
          "no libcupti was found, so no kernels or copies are recorded; set RANKSCOPE_CUPTI_LIB to the libcupti.so "
          "of this "
          "process's CUDA");
      return CuptiState::kNoLibrary;
    case FindResult::kIncomplete:
      snprintf(info.failing_call, sizeof(info.failing_call), "%s", failing);
      LogWarning("%s has no %s, so no kernels or copies are recorded", info.library, failing);
      return CuptiState::kFailed;
    case FindResult::kFound:
      break;
  }
  if (const Result result = g_source.calls.get_version(&info.api_version); result != kSuccess)
    return Fail("cuptiGetVersion", result);
  for (uint32_t kind = 1; kind < static_cast<uint32_t>(schema::kCuptiKindLimit); ++kind)
    info.stride[kind] = ProbeStride(g_source.calls, kind);
  Result result = kSuccess;
  if (!SlotIsFree(&result)) {
    info.result = result;
    snprintf(info.holder, sizeof(info.holder), "%s", g_holder);
    if (result != kMultipleSubscribers && result != kMaxLimitReached) return Fail("cuptiSubscribe", result);
    LogWarning("another tool%s%s has CUPTI (code %d), so no kernels or copies are recorded", g_holder[0] ? ", " : "",
               g_holder, result);
    return CuptiState::kRefused;
  }
  if (!g_source.pool.Prepare()) {
    LogWarning("no memory for CUPTI's buffers: %s; no kernels or copies are recorded", strerror(errno));
    return CuptiState::kFailed;
  }
  if (pthread_atfork(nullptr, nullptr, AfterForkInChild) != 0) return CuptiState::kFailed;
  ReadAttributes();
  ChooseClock();
  g_source.earliest_ns = CuptiNowNs() - 1'000'000'000;
  info.buffer_bytes = static_cast<uint32_t>(kBufferBytes);
  info.buffer_count = kBufferLimit;
  if (const Result code = RegisterAndEnable(&failing); code != kSuccess) return Fail(failing, code);
  if (!StartFlushThread()) {
    DisableKinds();
    LogWarning(
        "can't start a thread, without which CUPTI's buffers come back too late; no kernels or copies are recorded");
    return CuptiState::kFailed;
  }
  if (g_source.calls.get_stream_id != nullptr) recorder::SetStreamResolver(Resolve);
  recorder::LogInfo("GPU records by %s, version %u, from the %s", info.library, info.api_version,
                    entrance == Entrance::kCuda ? "CUDA driver's start" : "first NCCL communicator");
  return CuptiState::kArmed;
}

}  // namespace

bool ParseGpuEvents(const char* text, uint64_t* kinds, char* unknown, size_t unknown_bytes) {
  uint64_t result = 0;
  bool first = true;
  for (const char* at = text; *at != '\0';) {
    const size_t span = strcspn(at, ",");
    const bool removes = *at == '-';
    const char* word = at + (removes ? 1 : 0);
    const size_t length = span - (removes ? 1 : 0);
    if (span > 0) {
      if (first && removes) result = kDefaultKinds;
      first = false;
      bool found = false;
      // Kernel by kernel is the absence of the record of the whole graph.
      if (length == 10 && strncmp(word, "graphnodes", 10) == 0) {
        result =
            removes ? result | Bit(kKindGraphTrace) : (result & ~Bit(kKindGraphTrace)) | Bit(kKindConcurrentKernel);
        found = true;
      }
      for (const EventWord& entry : kEventWords) {
        if (strlen(entry.name) != length || strncmp(entry.name, word, length) != 0) continue;
        result = removes ? result & ~entry.kinds : result | entry.kinds;
        found = true;
      }
      if (!found) {
        snprintf(unknown, unknown_bytes, "%.*s", static_cast<int>(span), at);
        return false;
      }
    }
    at += span;
    if (*at == ',') ++at;
  }
  *kinds = first ? kDefaultKinds : result;
  return true;
}

void SayFailure(const char* call, Result result) {
  const char* text = nullptr;
  if (g_source.calls.get_result_string != nullptr) g_source.calls.get_result_string(result, &text);
  LogWarning("%s of %s (version %u) failed with code %d%s%s; no kernels or copies are recorded", call,
             g_source.info.library, g_source.info.api_version, result, text != nullptr ? ", " : "",
             text != nullptr ? text : "");
}

bool SlotIsFree(Result* result) {
  void* subscriber = nullptr;
  const Calls& calls = g_source.calls;
  *result = calls.subscribe(&subscriber, NoCallback, nullptr);
  if (*result == kSuccess) {
    // A test, not a claim: whoever holds the slot keeps torch.profiler from its GPU rows.
    if (!g_exclusive) calls.unsubscribe(subscriber);
    return true;
  }
  if (*result == kMultipleSubscribers && calls.subscribe_v2 != nullptr) {
    SubscriberParams params{sizeof(SubscriberParams), "rankscope", g_holder, sizeof(g_holder)};
    // It is taken: this call is made for the name alone. Should it succeed after all, the slot is given back.
    if (calls.subscribe_v2(&subscriber, NoCallback, nullptr, &params) == kSuccess) calls.unsubscribe(subscriber);
    g_holder[sizeof(g_holder) - 1] = '\0';
  }
  return false;
}

Result RegisterAndEnable(const char** failing) {
  const Calls& calls = g_source.calls;
  *failing = "cuptiActivityRegisterCallbacks";
  if (const Result result = calls.register_callbacks(RequestBuffer, CompleteBuffer); result != kSuccess)
    return result;
  // Waits that succeed are what a step's time is made of; c10d's watchdog asks for events all the time.
  if (calls.enable_all_sync_records != nullptr) calls.enable_all_sync_records(0);
  *failing = "cuptiActivityEnable";
  uint64_t enabled = 0;
  Result first_failure = kSuccess;
  for (uint32_t kind = 1; kind < static_cast<uint32_t>(schema::kCuptiKindLimit); ++kind) {
    if ((g_source.wanted_kinds >> kind & 1) == 0) continue;
    const uint16_t stride = g_source.info.stride[kind];
    if (stride == 0 || stride < NeededBytes(kind)) continue;
    const Result result = calls.enable(kind);
    if (result == kSuccess) {
      enabled |= Bit(kind);
    } else if (first_failure == kSuccess) {
      first_failure = result;
    }
  }
  g_source.info.enabled_kinds = enabled;
  if (enabled != 0) return kSuccess;
  return first_failure == kSuccess ? kInvalidKind : first_failure;
}

void DisableKinds() {
  for (uint32_t kind = 1; kind < static_cast<uint32_t>(schema::kCuptiKindLimit); ++kind) {
    if ((g_source.info.enabled_kinds >> kind & 1) != 0) g_source.calls.disable(kind);
  }
  g_source.info.enabled_kinds = 0;
}

void Arm(Entrance entrance) {
  const int saved_errno = errno;
  if (entrance == Entrance::kPlugin) {
    StoreRelease(g_source.communicator_seen, 1u);
    // Not CUDA's process: nothing of CUDA may be pulled into it.
    if (State() == CuptiState::kNone && !DriverIsMapped()) return;
  }
  if (LoadAcquire(g_source.dead) == 0 && recorder::CompareExchange(g_tried, 0u, 1u)) {
    const uint64_t before_ns = recorder::MonotonicNs();
    const CuptiState state = ArmLocked(entrance);
    g_source.info.arm_cost_ns = recorder::MonotonicNs() - before_ns;
    g_source.info.armed_ticks = state == CuptiState::kArmed ? recorder::ReadTicks() : 0;
    SetState(state);
  }
  // Where there is no flush thread that would do it, what happened is told as soon as there is a ring.
  if (State() != CuptiState::kNone && !FlushThreadRuns()) PublishInfo();
  errno = saved_errno;
}

}  // namespace rankscope::cupti
