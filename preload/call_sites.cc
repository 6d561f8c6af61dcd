// See call_sites.h.
#include "preload/call_sites.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unwind.h>

#include "recorder/config.h"
#include "recorder/session.h"

namespace rankscope::preload {
namespace {

using recorder::LoadAcquire;
using recorder::LoadRelaxed;
using recorder::StoreRelease;
using schema::EventKind;

constexpr int kFrames = 24;
constexpr uint32_t kSites = 1024;      // stacks
constexpr uint32_t kAddresses = 1024;  // return addresses
constexpr uint32_t kFirstCalls = 8, kEvery = 64;

// An unwinder that is in the process or can be had: libunwind's, else the compiler's.
using Backtrace = int (*)(void** frames, int most);
Backtrace g_libunwind = nullptr;
using UnwindBacktrace = _Unwind_Reason_Code (*)(_Unwind_Trace_Fn, void*);
using GetIp = _Unwind_Ptr (*)(_Unwind_Context*);
UnwindBacktrace g_unwind = nullptr;
GetIp g_get_ip = nullptr;
uint32_t g_wanted = 0;
pthread_once_t g_once = PTHREAD_ONCE_INIT;

struct Address {
  uint64_t address;  // 0 = free
  uint32_t calls;
};
Address g_addresses[kAddresses];

struct Site {
  uint64_t hash;  // 0 = free
  uint64_t name;  // generation << 32 | id in the ring
};
Site g_sites[kSites];

void FindUnwinder() {
  const char* setting = recorder::SettingValue("CALL_STACKS");
  if (setting == nullptr || strcmp(setting, "1") != 0) return;
  if (void* library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL))
    g_libunwind = reinterpret_cast<Backtrace>(dlsym(library, "unw_backtrace"));
  if (g_libunwind == nullptr) {
    if (void* library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL)) {
      g_unwind = reinterpret_cast<UnwindBacktrace>(dlsym(library, "_Unwind_Backtrace"));
      g_get_ip = reinterpret_cast<GetIp>(dlsym(library, "_Unwind_GetIP"));
    }
  }
  if (g_libunwind != nullptr || (g_unwind != nullptr && g_get_ip != nullptr)) StoreRelease(g_wanted, 1u);
}

struct Frames {
  void* at[kFrames];
  int count;
};
_Unwind_Reason_Code TakeFrame(_Unwind_Context* context, void* user) {
  auto* frames = static_cast<Frames*>(user);
  if (frames->count == kFrames) return _URC_END_OF_STACK;
  frames->at[frames->count++] = reinterpret_cast<void*>(g_get_ip(context));
  return _URC_NO_REASON;
}

// The frames from `return_address` on: those of rankscope itself are nobody's business.
Frames TakeStack(void* return_address) {
  Frames frames{};
  if (g_libunwind != nullptr) {
    frames.count = g_libunwind(frames.at, kFrames);
  } else {
    g_unwind(TakeFrame, &frames);
  }
  int first = 0;
  while (first < frames.count && frames.at[first] != return_address) ++first;
  if (first == frames.count) first = 0;
  frames.count -= first;
  memmove(frames.at, frames.at + first, static_cast<size_t>(frames.count) * sizeof(void*));
  return frames;
}

uint64_t HashOf(const Frames& frames) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (int i = 0; i < frames.count; ++i) hash = (hash ^ reinterpret_cast<uint64_t>(frames.at[i])) * 0x100000001b3ull;
  return hash == 0 ? 1 : hash;
}

// "libtorch_cuda.so+0x1234;python3.11+0x99;..." from the call outwards.
uint32_t InternStack(const Frames& frames) {
  char text[1024];
  size_t used = 0;
  for (int i = 0; i < frames.count && used + 96 < sizeof(text); ++i) {
    Dl_info info{};
    const bool known = dladdr(frames.at[i], &info) != 0 && info.dli_fname != nullptr;
    const char* slash = known ? strrchr(info.dli_fname, '/') : nullptr;
    const char* module = !known ? "?" : slash != nullptr ? slash + 1 : info.dli_fname;
    const auto offset =
        reinterpret_cast<uint64_t>(frames.at[i]) - (known ? reinterpret_cast<uint64_t>(info.dli_fbase) : 0);
    const int wrote = snprintf(text + used, sizeof(text) - used, "%s%.64s+0x%llx", i == 0 ? "" : ";", module,
                               static_cast<unsigned long long>(offset));
    if (wrote > 0) used += static_cast<size_t>(wrote);
  }
  return recorder::InternName(text, schema::NameKind::kFunction);
}

bool TakeThisTime(void* return_address) {
  const auto address = reinterpret_cast<uint64_t>(return_address);
  uint32_t at = static_cast<uint32_t>((address * 0x9e3779b97f4a7c15ull) >> 54);
  for (int probe = 0; probe < 8; ++probe, at = (at + 1) % kAddresses) {
    Address& entry = g_addresses[at];
    uint64_t holder = LoadRelaxed(entry.address);
    if (holder == 0 && recorder::CompareExchange(entry.address, uint64_t{0}, address)) holder = address;
    if (holder != address) continue;
    const uint32_t calls = recorder::AddShared(entry.calls, 1u);
    return calls < kFirstCalls || calls % kEvery == 0;
  }
  return false;
}
static_assert(kAddresses == 1u << (64 - 54));

uint32_t NameOfSite(const Frames& frames, uint64_t hash) {
  const uint64_t generation = recorder::g_session.generation;
  uint32_t at = static_cast<uint32_t>(hash % kSites);
  for (int probe = 0; probe < 16; ++probe, at = (at + 1) % kSites) {
    Site& site = g_sites[at];
    uint64_t holder = LoadRelaxed(site.hash);
    if (holder == 0 && recorder::CompareExchange(site.hash, uint64_t{0}, hash)) holder = hash;
    if (holder != hash) continue;
    const uint64_t known = LoadAcquire(site.name);
    if (known >> 32 == generation && known != 0) return static_cast<uint32_t>(known);
    const uint32_t id = InternStack(frames);
    StoreRelease(site.name, generation << 32 | id);
    return id;
  }
  recorder::CountLoss(schema::LossReason::kCallSiteTableFull);
  return 0;
}

}  // namespace

void NoteCall(const char* function, void* return_address) {
  if (!recorder::Active()) return;
  const int saved_errno = errno;
  pthread_once(&g_once, FindUnwinder);
  if (LoadAcquire(g_wanted) != 0 && TakeThisTime(return_address)) {
    recorder::RememberDoor(schema::kDoorPreload);
    recorder::NoteRecordKinds(uint64_t{1} << static_cast<int>(EventKind::kCallSite));
    const Frames frames = TakeStack(return_address);
    const uint64_t hash = HashOf(frames);
    const uint32_t name = NameOfSite(frames, hash);
    const uint32_t call = recorder::InternName(function, schema::NameKind::kFunction);
    const uint64_t now = recorder::ReadTicks();
    if (recorder::Lane* lane = recorder::CurrentLane())
      recorder::Commit(lane, {now,
                              now,
                              recorder::PackKind(EventKind::kCallSite, 0, schema::kCommUnknown, 0),
                              0,
                              {name | uint64_t{call} << 32, hash, 0}});
  }
  errno = saved_errno;
}

}  // namespace rankscope::preload
