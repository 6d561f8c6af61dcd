// How a test drives the stand-in for libcupti: what the GPU did, what another client does, what goes wrong.
//
// The stand-in is a shared library with CUPTI's names, built three times (11.8, 12.4, 13.0: their strides, their file
// names, their missing entry points). These calls are not CUPTI's; a test finds them with FakeCupti::Load. Any
// thread.
#ifndef RANKSCOPE_TESTS_FAKES_CUPTI_FAKE_CUPTI_H_
#define RANKSCOPE_TESTS_FAKES_CUPTI_FAKE_CUPTI_H_

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" {

// One activity. Which fields count depends on the kind.
struct FakeActivity {
  uint32_t kind;
  uint32_t device, context, stream, correlation;
  const char* name;
  uint64_t bytes;
  uint64_t graph_node;
  uint32_t graph;
  uint32_t copy_kind, source_kind, destination_kind, peer_device;
  uint32_t grid[3], block[3];
  uint32_t type;  // synchronisation type, memory operation, overhead kind
  uint64_t address;
  uint64_t copy_count;
};

struct FakeCuptiApi {
  // What the clock that CUPTI stamps with says.
  uint64_t (*now_ns)();
  // A launch on the calling thread: a record with no times yet; 0 if the kind is off or no buffer could be had.
  uint64_t (*launch)(const FakeActivity* activity);
  // The activity ended; its times are filled in where the record lies.
  void (*complete)(uint64_t record, uint64_t start_ns, uint64_t end_ns);
  // CUPTI's own thread returns the buffers that are full and complete; returns when it has.
  void (*worker_flush)();
  // Fails the next `times` calls of `function` with `code`.
  void (*fail)(const char* function, int code, int times);
  void (*drop)(uint64_t records);
  void (*clock_jump)(int64_t ns);
  void (*set_version)(uint32_t version);
  // Another client: holds the subscriber slot; takes the buffers and the kinds; leaves again (its callbacks stay).
  void (*hold_slot)(const char* name);
  void (*take_over)();
  void (*leave)();
  // It has CUPTI stamp with `clock`, and leaves it so.
  void (*others_clock)(uint64_t (*clock)());
  // From here on the test itself calls cuptiFinalize.
  void (*allow_finalize)();
  uint64_t (*taken_over_records)();  // records that went to the other client
  uint64_t (*calls)(const char* function);
  uint64_t (*enabled_kinds)();
  // A raw record into the calling thread's buffer, for what no GPU would write.
  void (*raw)(const void* bytes, uint64_t size);
};
FakeCuptiApi fake_cupti_api();

}  // extern "C"

struct FakeCupti {
  // Maps the stand-in as an application does that is linked with CUPTI.
  static FakeCuptiApi Load(const char* path) {
    void* handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (handle == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::abort();
    }
    return reinterpret_cast<FakeCuptiApi (*)()>(dlsym(handle, "fake_cupti_api"))();
  }
};

#endif  // RANKSCOPE_TESTS_FAKES_CUPTI_FAKE_CUPTI_H_
