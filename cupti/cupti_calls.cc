// See cupti_calls.h.
#include "cupti/cupti_calls.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <initializer_list>

namespace rankscope::cupti {
namespace {

constexpr const char* kCallNames[kCallCount] = {
    "cuptiGetVersion",
    "cuptiSubscribe",
    "cuptiUnsubscribe",
    "cuptiActivityRegisterCallbacks",
    "cuptiActivityEnable",
    "cuptiActivityDisable",
    "cuptiActivityFlushAll",
    "cuptiActivityGetNextRecord",
    "cuptiActivityGetNumDroppedRecords",
    "cuptiActivityGetAttribute",
    "cuptiActivitySetAttribute",
    "cuptiActivityRegisterTimestampCallback",
    "cuptiActivityEnableAllSyncRecords",
    "cuptiGetTimestamp",
    "cuptiGetStreamIdEx",
    "cuptiGetResultString",
    "cuptiSubscribe_v2",
};

const char* BaseName(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

// What of CUDA is mapped. The first of each counts: the loader lists them in the order of loading.
struct Mapped {
  char cupti[512] = {};
  char runtime[512] = {};
  bool driver = false;
};

int NoteObject(dl_phdr_info* info, size_t, void* user) {
  auto* mapped = static_cast<Mapped*>(user);
  if (info->dlpi_name == nullptr) return 0;
  const char* name = BaseName(info->dlpi_name);
  if (strncmp(name, "libcupti.so", 11) == 0 && mapped->cupti[0] == '\0')
    snprintf(mapped->cupti, sizeof(mapped->cupti), "%s", info->dlpi_name);
  if (strncmp(name, "libcudart.so", 12) == 0 && mapped->runtime[0] == '\0')
    snprintf(mapped->runtime, sizeof(mapped->runtime), "%s", info->dlpi_name);
  if (strncmp(name, "libcuda.so", 10) == 0) mapped->driver = true;
  return 0;
}

Mapped LookAround() {
  Mapped mapped;
  dl_iterate_phdr(NoteObject, &mapped);
  return mapped;
}

// Opens one file or name; `path` gets the loader's name for it.
void* Open(const char* name, char* path, size_t path_bytes) {
  void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return nullptr;
  link_map* map = nullptr;
  const bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr;
  snprintf(path, path_bytes, "%s", known && map->l_name[0] != '\0' ? map->l_name : name);
  return handle;
}

// `soname` on the loader's path, then in the folders that go with a runtime at `runtime` and with $CUDA_HOME.
void* OpenSomewhere(const char* soname, const char* runtime, char* path, size_t path_bytes) {
  if (void* handle = Open(soname, path, path_bytes)) return handle;
  char folder[512];
  char candidate[1100];
  const char* slash = strrchr(runtime, '/');
  if (slash != nullptr) {
    snprintf(folder, sizeof(folder), "%.*s", static_cast<int>(slash - runtime), runtime);
    // A toolkit keeps CUPTI beside the runtime or in extras; a wheel in a package of its own.
    for (const char* beside : {"", "/../extras/CUPTI/lib64", "/../../cuda_cupti/lib"}) {
      snprintf(candidate, sizeof(candidate), "%s%s/%s", folder, beside, soname);
      if (void* handle = Open(candidate, path, path_bytes)) return handle;
    }
  }
  const char* home = getenv("CUDA_HOME");
  if (home == nullptr) home = getenv("CUDA_PATH");
  if (home != nullptr) {
    for (const char* below : {"extras/CUPTI/lib64", "lib64", "lib"}) {
      snprintf(candidate, sizeof(candidate), "%.500s/%s/%s", home, below, soname);
      if (void* handle = Open(candidate, path, path_bytes)) return handle;
    }
  }
  return nullptr;
}

// The names of libcupti that go with a runtime library: 12 and later carry the major number, 11 the minor one too.
void* OpenForRuntime(const char* runtime, char* path, size_t path_bytes) {
  const char* version = strstr(BaseName(runtime), ".so.");
  const int major = version == nullptr ? 0 : atoi(version + 4);
  char soname[64];
  if (major != 11) {
    const int first = major == 0 ? 13 : major, last = major == 0 ? 12 : major;
    for (int m = first; m >= last; --m) {
      snprintf(soname, sizeof(soname), "libcupti.so.%d", m);
      if (void* handle = OpenSomewhere(soname, runtime, path, path_bytes)) return handle;
    }
    if (major != 0) return nullptr;
  }
  for (int minor = 8; minor >= 0; --minor) {
    snprintf(soname, sizeof(soname), "libcupti.so.11.%d", minor);
    if (void* handle = OpenSomewhere(soname, runtime, path, path_bytes)) return handle;
  }
  return nullptr;
}

template <typename Function>
void Put(Function* slot, void* address) {
  *slot = reinterpret_cast<Function>(address);
}

}  // namespace

const char* CallName(Call call) { return call >= 0 && call < kCallCount ? kCallNames[call] : "?"; }

bool DriverIsMapped() { return LookAround().driver; }

FindResult FindCupti(const char* wanted, Calls* calls, char* path, size_t path_bytes, uint64_t* missing,
                     const char** failing) {
  const Mapped mapped = LookAround();
  void* handle = nullptr;
  if (mapped.cupti[0] != '\0') {
    handle = dlopen(mapped.cupti, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    snprintf(path, path_bytes, "%s", mapped.cupti);
  } else if (wanted != nullptr && wanted[0] != '\0') {
    handle = Open(wanted, path, path_bytes);
  } else {
    handle = OpenForRuntime(mapped.runtime, path, path_bytes);
  }
  if (handle == nullptr) return FindResult::kNoLibrary;
  void* found[kCallCount];
  *missing = 0;
  *failing = nullptr;
  for (int call = 0; call < kCallCount; ++call) {
    found[call] = dlsym(handle, kCallNames[call]);
    if (found[call] != nullptr) continue;
    *missing |= uint64_t{1} << call;
    if (call < kFirstOptional && *failing == nullptr) *failing = kCallNames[call];
  }
  Put(&calls->get_version, found[kGetVersion]);
  Put(&calls->subscribe, found[kSubscribe]);
  Put(&calls->unsubscribe, found[kUnsubscribe]);
  Put(&calls->register_callbacks, found[kActivityRegisterCallbacks]);
  Put(&calls->enable, found[kActivityEnable]);
  Put(&calls->disable, found[kActivityDisable]);
  Put(&calls->flush_all, found[kActivityFlushAll]);
  Put(&calls->get_next_record, found[kActivityGetNextRecord]);
  Put(&calls->get_dropped, found[kActivityGetNumDroppedRecords]);
  Put(&calls->get_attribute, found[kActivityGetAttribute]);
  Put(&calls->set_attribute, found[kActivitySetAttribute]);
  Put(&calls->register_timestamp_callback, found[kActivityRegisterTimestampCallback]);
  Put(&calls->enable_all_sync_records, found[kActivityEnableAllSyncRecords]);
  Put(&calls->get_timestamp, found[kGetTimestamp]);
  Put(&calls->get_stream_id, found[kGetStreamIdEx]);
  Put(&calls->get_result_string, found[kGetResultString]);
  Put(&calls->subscribe_v2, found[kSubscribeV2]);
  return *failing == nullptr ? FindResult::kFound : FindResult::kIncomplete;
}

uint16_t ProbeStride(const Calls& calls, uint32_t kind) {
  // Every 8-byte word begins like a record of that kind, so wherever the library steps to is one again.
  alignas(64) static uint64_t scratch[256];
  for (uint64_t& word : scratch) word = kind;
  auto* bytes = reinterpret_cast<uint8_t*>(scratch);
  uint8_t* record = nullptr;
  if (calls.get_next_record(bytes, sizeof(scratch), &record) != kSuccess || record != bytes) return 0;
  if (calls.get_next_record(bytes, sizeof(scratch), &record) != kSuccess) return 0;
  const ptrdiff_t stride = record - bytes;
  return stride > 0 && stride < static_cast<ptrdiff_t>(sizeof(scratch)) && stride % 8 == 0
             ? static_cast<uint16_t>(stride)
             : uint16_t{0};
}

}  // namespace rankscope::cupti
