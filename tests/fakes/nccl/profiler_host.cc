// See profiler_host.h.
#include "tests/fakes/nccl/profiler_host.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

namespace rankscope::testing {

struct ProfilerHost::Table {
  const char* name;
  void* init;
  int (*start)(void* context, void** handle, void* descriptor);
  int (*stop)(void* handle);
  int (*record)(void* handle, int state, void* args);
  int (*finalize)(void* context);
};

namespace {

using Logger = void (*)(int, unsigned long, const char*, int, const char*, ...);
void Log(int, unsigned long, const char*, int, const char*, ...) {}

}  // namespace

bool ProfilerHost::OpenAsNccl(int version) {
  const char* value = std::getenv("NCCL_PROFILER_PLUGIN");
  if (value == nullptr || *value == '\0') return Open("libnccl-profiler.so", version);
  if (Open(value, version)) return true;
  const std::string first = why_;
  if (std::strchr(value, '/') == nullptr && Open(std::string("libnccl-profiler-") + value + ".so", version))
    return true;
  why_ = first;
  return false;
}

bool ProfilerHost::Open(const std::string& library, int version) {
  library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) {
    why_ = dlerror();
    return false;
  }
  const std::string symbol = "ncclProfiler_v" + std::to_string(version);
  table_ = static_cast<const Table*>(dlsym(library_, symbol.c_str()));
  version_ = version;
  if (table_ != nullptr) return true;
  why_ = library + " has no " + symbol;
  Close();
  return false;
}

void ProfilerHost::Close() {
  if (library_ != nullptr) dlclose(library_);
  library_ = nullptr;
  table_ = nullptr;
}

int ProfilerHost::Init(void** context, const CommIdentity& id) {
  if (version_ <= 3) return reinterpret_cast<int (*)(void**, int*)>(table_->init)(context, &mask_);
  if (version_ == 4) {
    using InitTable = int (*)(void**, int*, const char*, uint64_t, int, int, int, Logger);
    return reinterpret_cast<InitTable>(table_->init)(context, &mask_, id.name, id.hash, id.nodes, id.ranks, id.rank,
                                                     Log);
  }
  using InitTable = int (*)(void**, uint64_t, int*, const char*, int, int, int, Logger);
  return reinterpret_cast<InitTable>(table_->init)(context, id.hash, &mask_, id.name, id.nodes, id.ranks, id.rank,
                                                   Log);
}

int ProfilerHost::Finalize(void* context) { return table_->finalize(context); }

uint64_t ProfilerHost::Start(void* context, const EventFields& fields, uint64_t on_entry) {
  // Strings at the same addresses for every call, so that a plugin that remembers addresses alone decodes the wrong
  // thing.
  thread_local char text[5][32];
  thread_local uint8_t descriptor[kDescriptorRoom] __attribute__((aligned(16)));
  EventFields copy = fields;
  const char** strings[5] = {&copy.func, &copy.datatype, &copy.algo, &copy.proto, &copy.name};
  for (int i = 0; i < 5; ++i) {
    if (*strings[i] == nullptr) continue;
    std::memset(text[i], 0xdd, sizeof(text[i]));
    std::strncpy(text[i], *strings[i], sizeof(text[i]) - 1);
    *strings[i] = text[i];
  }
  std::memset(descriptor, 0xdd, sizeof(descriptor));
  FillDescriptor(version_, copy, descriptor);
  const uint64_t handle = StartBytes(context, descriptor, on_entry);
  std::memset(descriptor, 0xdd, sizeof(descriptor));
  std::memset(text, 0xdd, sizeof(text));
  return handle;
}

uint64_t ProfilerHost::StartBytes(void* context, uint8_t* descriptor, uint64_t on_entry) {
  void* handle = reinterpret_cast<void*>(on_entry);
  table_->start(context, &handle, descriptor);
  return reinterpret_cast<uint64_t>(handle);
}

void ProfilerHost::Stop(uint64_t handle) { table_->stop(reinterpret_cast<void*>(handle)); }

void ProfilerHost::Record(uint64_t handle, int state, const void* args) {
  table_->record(reinterpret_cast<void*>(handle), state, const_cast<void*>(args));
}

bool ProfilerHost::Wants(uint64_t type, uint64_t parent) const {
  const auto mask = static_cast<uint64_t>(mask_);
  constexpr uint64_t kProxies = kNcclProxyOp | kNcclProxyStep | kNcclKernelCh | kNcclNetPlugin;
  constexpr uint64_t kCopies = kNcclCeColl | kNcclCeSync | kNcclCeBatch;
  const bool parents_decide = version_ <= 4;  // up to 2.27 a NULL group silences its operations
  switch (type) {
    case kNcclGroupApi:
      return (mask & ~uint64_t{kNcclProxyCtrl}) != 0;
    case kNcclCollApi:
      return (mask & (kNcclCollApi | kNcclColl | kProxies | kCopies)) != 0;
    case kNcclP2pApi:
      return (mask & (kNcclP2pApi | kNcclP2p | kProxies)) != 0;
    case kNcclGroup:
      return (mask & (kNcclGroup | kNcclColl | kNcclP2p | kProxies)) != 0;
    case kNcclColl:
      return (mask & (kNcclColl | kProxies)) != 0 && (!parents_decide || parent != 0);
    case kNcclP2p:
      return (mask & (kNcclP2p | kProxies)) != 0 && (!parents_decide || parent != 0);
    case kNcclProxyOp:
      return (mask & (kNcclProxyOp | kNcclProxyStep | kNcclNetPlugin)) != 0;
    case kNcclProxyStep:
      return (mask & (kNcclProxyStep | kNcclNetPlugin)) != 0 && (!parents_decide || parent != 0);
    case kNcclCeColl:
      return (mask & kCopies) != 0;
    case kNcclCeSync:
    case kNcclCeBatch:
      return (mask & type) != 0 && parent != 0;
    default:
      return (mask & type) != 0;
  }
}

}  // namespace rankscope::testing
