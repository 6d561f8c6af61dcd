// What NVTX ranges cost the thread that makes them. ReadTicks is the yardstick: a range needs two.
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "recorder/session.h"
#include "shim/ranges.h"

namespace rankscope::shim {
namespace {

struct Setup {
  Setup() {
    char path[] = "/dev/shm/rankscope-bench-XXXXXX";
    directory = mkdtemp(path);
    setenv("RANKSCOPE_DIR", directory.c_str(), 1);
    Recording(schema::kDoorNvtx);
  }
  ~Setup() { std::filesystem::remove_all(directory); }
  std::string directory;
};
void SetUpOnce() { static Setup setup; }

void ReadTicks(benchmark::State& state) {
  SetUpOnce();
  for (auto _ : state) benchmark::DoNotOptimize(recorder::ReadTicks());
}
BENCHMARK(ReadTicks);

void PushPop(benchmark::State& state) {
  SetUpOnce();
  RangeText text;
  text.ascii = "PartitionedParameterCoordinator.fetch_sub_module";
  for (auto _ : state) {
    PushRange(text);
    PopRange(nullptr);
  }
}
BENCHMARK(PushPop);

void PushPopRegistered(benchmark::State& state) {
  SetUpOnce();
  RangeText text;
  text.registered = NewString("PartitionedParameterCoordinator.fetch_sub_module");
  text.domain = NewDomain("DeepSpeed");
  for (auto _ : state) {
    PushRange(text);
    PopRange(text.domain);
  }
}
BENCHMARK(PushPopRegistered);

void StartEnd(benchmark::State& state) {
  SetUpOnce();
  RangeText text;
  text.ascii = "PartitionedParameterCoordinator.fetch_sub_module";
  for (auto _ : state) EndRange(StartRange(text));
}
BENCHMARK(StartEnd);

}  // namespace
}  // namespace rankscope::shim

BENCHMARK_MAIN();
