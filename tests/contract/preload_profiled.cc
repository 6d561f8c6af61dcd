// A process in which another client of CUPTI has a session, as torch.profiler has one: registers its callbacks, turns
// kernels on, off, flushes by force. Linked with (a stand-in for) libcupti, so that its calls can be interposed.
//
//   preload_profiled LIBRARY FAKES session|unseen|finalize
//
// Kernels 1 to 100 come before the session, 101 to 150 in it, 151 to 250 after it.
#include <dlfcn.h>
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/fakes/cupti/fake_cupti.h"
#include "tests/fakes/nccl/profiler_host.h"

extern "C" {
int cuptiActivityRegisterCallbacks(void (*request)(uint8_t**, size_t*, size_t*),
                                   void (*complete)(void*, uint32_t, uint8_t*, size_t, size_t));
int cuptiActivityEnable(uint32_t kind);
int cuptiActivityDisable(uint32_t kind);
int cuptiActivityFlushAll(uint32_t flags);
int cuptiFinalize();
}

namespace {

constexpr uint32_t kConcurrentKernel = 10;
uint64_t g_theirs_bytes = 0;

void Request(uint8_t** buffer, size_t* bytes, size_t* most) {
  *bytes = 1 << 16;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(64, *bytes));
  *most = 0;
}
void Complete(void*, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  g_theirs_bytes += valid_bytes;
  std::free(buffer);
}

void RunKernels(const FakeCuptiApi& cupti, uint32_t first, uint32_t last) {
  for (uint32_t i = first; i <= last; ++i) {
    FakeActivity a{};
    a.kind = kConcurrentKernel;
    a.context = 1, a.stream = 7, a.correlation = i, a.name = "kernel";
    const uint64_t id = cupti.launch(&a), now = cupti.now_ns();
    cupti.complete(id, now, now + 1000);
  }
}

bool WaitFor(int at_most_ms, bool (*done)(const FakeCuptiApi&), const FakeCuptiApi& cupti) {
  for (int ms = 0; ms < at_most_ms; ms += 20) {
    if (done(cupti)) return true;
    const timespec wait{0, 20'000'000};
    nanosleep(&wait, nullptr);
  }
  return false;
}

bool KernelsAreOn(const FakeCuptiApi& cupti) { return (cupti.enabled_kinds() >> kConcurrentKernel & 1) != 0; }
bool KernelsAreOff(const FakeCuptiApi& cupti) { return !KernelsAreOn(cupti); }

int Fail(int code, const char* what) {
  std::fprintf(stderr, "preload_profiled: %s\n", what);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string mode = argv[3];
  const FakeCuptiApi cupti = FakeCupti::Load((std::string(argv[2]) + "/libcupti.so.13").c_str());
  void* driver = dlopen((std::string(argv[2]) + "/libcuda.so.1").c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (driver == nullptr) return Fail(3, dlerror());
  if (reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"))(0) != 0) return 4;
  rankscope::testing::ProfilerHost host;
  if (!host.Open(argv[1], 5)) return 5;
  rankscope::testing::CommIdentity id;
  id.ranks = 1;
  void* context = nullptr;
  if (host.Init(&context, id) != 0) return 6;
  if (!WaitFor(5000, KernelsAreOn, cupti)) return Fail(7, "nobody turned kernels on");
  RunKernels(cupti, 1, 100);

  if (mode == "finalize") {
    cuptiActivityFlushAll(1);
    cupti.allow_finalize();
    if (cuptiFinalize() != 0) return Fail(8, "cuptiFinalize did not come back");
  } else {
    if (mode == "unseen") cuptiActivityFlushAll(0);  // what the interposed registration does for us
    if (cuptiActivityRegisterCallbacks(Request, Complete) != 0 || cuptiActivityEnable(kConcurrentKernel) != 0)
      return 9;
    RunKernels(cupti, 101, 150);
    cuptiActivityDisable(kConcurrentKernel);
    cuptiActivityFlushAll(1);
    if (g_theirs_bytes == 0) return Fail(10, "the session got no records");
    if (!KernelsAreOff(cupti)) return 11;
  }
  // Ours come back on about a second after the session, or not at all.
  const bool on = WaitFor(mode == "session" ? 30000 : 3000, KernelsAreOn, cupti);
  if (mode == "session" && !on) return Fail(12, "kernels did not come back on");
  RunKernels(cupti, 151, 250);
  host.Finalize(context);
  return 0;
}
