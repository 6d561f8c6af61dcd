// See next_function.h.
#include "preload/next_function.h"

#include <dlfcn.h>
#include <errno.h>

#include "recorder/atomic_word.h"

namespace rankscope::preload {

using recorder::CompareExchange;
using recorder::LoadAcquire;
using recorder::LoadRelaxed;
using recorder::StoreRelease;

namespace {

__attribute__((noinline)) void* Find(const char* name, void* return_address) {
  const int saved_errno = errno;
  void* function = nullptr;
  Dl_info caller{};
  if (dladdr(return_address, &caller) != 0 && caller.dli_fname != nullptr) {
    // The caller's library and those that it needs. The program itself has no name by which it could be opened.
    if (void* library = dlopen(caller.dli_fname, RTLD_LAZY | RTLD_NOLOAD)) {
      function = dlsym(library, name);
      dlclose(library);
    }
  }
  if (function == nullptr) function = dlsym(RTLD_NEXT, name);
  errno = saved_errno;
  return function;
}

}  // namespace

void* NextFunction(KnownCaller (&known)[kKnownCallers], const char* name, void* return_address) {
  const auto address = reinterpret_cast<uint64_t>(return_address);
  const auto first = static_cast<uint32_t>((address * 0x9e3779b97f4a7c15ull) >> 59);
  static_assert(kKnownCallers == 1u << (64 - 59));
  for (uint32_t probe = 0; probe < 4; ++probe) {
    KnownCaller& entry = known[(first + probe) % kKnownCallers];
    const uint64_t holder = LoadRelaxed(entry.address);
    if (holder == address) {
      void* function = LoadAcquire(entry.function);
      return function != nullptr ? function : Find(name, return_address);
    }
    if (holder != 0) continue;
    void* function = Find(name, return_address);
    if (function != nullptr && CompareExchange(entry.address, uint64_t{0}, address)) {
      StoreRelease(entry.function, function);
    }
    return function;
  }
  return Find(name, return_address);
}

}  // namespace rankscope::preload
