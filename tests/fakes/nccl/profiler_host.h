// What NCCL does with a profiler plugin: finds and opens the library, calls its newest table, honours its mask, and
// gives it descriptors whose memory it reuses. Any thread may call; a host is opened and closed by one.
#ifndef RANKSCOPE_TESTS_FAKES_NCCL_PROFILER_HOST_H_
#define RANKSCOPE_TESTS_FAKES_NCCL_PROFILER_HOST_H_

#include <cstdint>
#include <string>

#include "tests/fakes/nccl/descriptor_bytes.h"

namespace rankscope::testing {

struct CommIdentity {
  const char* name = nullptr;
  uint64_t hash = 0;
  int nodes = 1, ranks = 1, rank = 0;
};

class ProfilerHost {
 public:
  // Looks as NCCL 2.28 does: the value of NCCL_PROFILER_PLUGIN as a path, then as libnccl-profiler-<value>.so;
  // libnccl-profiler.so where it is not set. Takes the table of `version`, which the release of that age would take.
  // False: why() says it.
  bool OpenAsNccl(int version);
  bool Open(const std::string& library, int version);
  void Close();
  const std::string& why() const { return why_; }
  int version() const { return version_; }

  // Returns what the plugin returned; *context is the plugin's.
  int Init(void** context, const CommIdentity& identity);
  int Finalize(void* context);
  // The handle; `on_entry` is what *eHandle holds before the call. Descriptor and strings are gone afterwards.
  uint64_t Start(void* context, const EventFields& fields, uint64_t on_entry = 0xdddddddddddddddd);
  // The same with a descriptor of the caller's, whose strings stay where they are.
  uint64_t StartBytes(void* context, uint8_t* descriptor, uint64_t on_entry = 0xdddddddddddddddd);
  void Stop(uint64_t handle);
  void Record(uint64_t handle, int state, const void* args);

  int mask() const { return __atomic_load_n(&mask_, __ATOMIC_RELAXED); }
  void set_mask(int mask) { mask_ = mask; }
  // Would NCCL start this event with the mask as it is? `parent` is the handle of the event's parent (reference:
  // which bits start what).
  bool Wants(uint64_t type, uint64_t parent) const;

 private:
  struct Table;
  void* library_ = nullptr;
  const Table* table_ = nullptr;
  int version_ = 0;
  int mask_ = 0;
  std::string why_;
};

}  // namespace rankscope::testing

#endif  // RANKSCOPE_TESTS_FAKES_NCCL_PROFILER_HOST_H_
