// See name_table.h.
#include "cupti/name_table.h"

#include <string.h>

#include <initializer_list>

#include "recorder/session.h"

namespace rankscope::cupti {
namespace {

using recorder::g_session;
using recorder::LoadAcquire;
using recorder::LoadRelaxed;
using recorder::StoreRelaxed;
using recorder::StoreRelease;

constexpr uint32_t kEntries = 8192;
constexpr int kProbes = 16;
constexpr uint64_t kLongestName = 1024;  // what the ring keeps of a name

struct Entry {
  uint64_t address = 0;
  uint64_t known = 0;    // id << 32 | class << 16 | 1; 0 = not yet
  uint32_t reading = 0;  // the last one that compared the bytes
};
Entry g_entries[kEntries];
uint32_t g_readings = 0;

uint32_t PositionOf(const char* name) {
  const auto address = reinterpret_cast<uint64_t>(name);
  return static_cast<uint32_t>((address * 0x9e3779b97f4a7c15ull) >> 40) % kEntries;
}

// True if `name` is what the ring holds under `id`. Reads no byte behind the name's end.
bool Holds(uint32_t id, const char* name) {
  if (id == 0 || id > g_session.name_capacity) return false;
  const schema::NameEntry& entry = g_session.names[id - 1];
  const uint32_t bytes = LoadAcquire(entry.bytes);
  return bytes != 0 && strncmp(name, g_session.name_bytes + entry.offset, bytes) == 0 &&
         (bytes >= kLongestName || name[bytes] == '\0');
}

KernelName Unpack(uint64_t known) {
  return {static_cast<uint32_t>(known >> 32), static_cast<schema::GpuKernelClass>((known >> 16) & 0xffff)};
}

uint64_t Intern(const char* name) {
  const uint64_t id = recorder::InternName(name, schema::NameKind::kKernel);
  return id << 32 | static_cast<uint64_t>(ClassifyKernel(name)) << 16 | 1;
}

}  // namespace

schema::GpuKernelClass ClassifyKernel(const char* name) {
  for (const char* at = strstr(name, "nccl"); at != nullptr; at = strstr(at + 4, "nccl")) {
    for (const char* pattern : {"ncclKernel_", "ncclDevKernel_", "ncclSymDevKernel_", "ncclSymkDevKernel_"}) {
      if (strncmp(at, pattern, strlen(pattern)) == 0) return schema::GpuKernelClass::kNccl;
    }
    // Up to 2.7: ncclAllReduceRingLLKernel_sum_f32.
    if (const char* kernel = strstr(at, "Kernel_"))
      if (static_cast<size_t>(kernel - at) == strcspn(at, "_") - strlen("Kernel"))
        return schema::GpuKernelClass::kNccl;
  }
  return schema::GpuKernelClass::kOther;
}

uint32_t NewReading() { return recorder::AddShared(g_readings, 1u) + 1; }

KernelName FindKernelName(const char* name, uint32_t reading) {
  if (name == nullptr || *name == '\0') return {};
  const auto address = reinterpret_cast<uint64_t>(name);
  uint32_t at = PositionOf(name);
  for (int probe = 0; probe < kProbes; ++probe, at = (at + 1) % kEntries) {
    Entry& entry = g_entries[at];
    uint64_t holder = LoadAcquire(entry.address);
    if (holder == 0 &&
        __atomic_compare_exchange_n(&entry.address, &holder, address, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      holder = address;
    if (holder != address) continue;
    uint64_t known = LoadAcquire(entry.known);
    if (LoadRelaxed(entry.reading) == reading && known != 0) return Unpack(known);
    if (known == 0 || !Holds(static_cast<uint32_t>(known >> 32), name)) {
      known = Intern(name);
      StoreRelease(entry.known, known);
    }
    StoreRelaxed(entry.reading, reading);
    return Unpack(known);
  }
  return Unpack(Intern(name));  // a crowded table: slower, not wrong
}

void ForgetKernelNames() {
  for (Entry& entry : g_entries) StoreRelaxed(entry.known, uint64_t{0});
}

}  // namespace rankscope::cupti
