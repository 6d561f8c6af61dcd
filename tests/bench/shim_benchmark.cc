// What a range costs: a push and a pop through the functions that NVTX's header would call, one name, several names
// in turn, registered and from Python-like addresses, beside a pair of counter readings (no pair can cost less).
//
//   shim_benchmark --benchmark_repetitions=9 --benchmark_report_aggregates_only=true
#include <benchmark/benchmark.h>
#include <stdlib.h>
#include <string.h>

#include <string>
#include <vector>

#include "recorder/clock.h"
#include "shim/nvtx_abi.h"
#include "tests/fakes/fake_nvtx.h"

extern "C" int rankscope_hook_v1(int operation, const char* name, unsigned long long value);

namespace {

namespace nvtx = rankscope::shim::nvtx;
using rankscope::testing::FakeNvtx;

const FakeNvtx& Nvtx() {
  static const FakeNvtx nvtx;
  return nvtx;
}

// Names as DeepSpeed has them.
const std::vector<std::string>& StepNames() {
  static const std::vector<std::string> names = {
      "DeepSpeedEngine.allreduce_gradients",
      "DeepSpeedEngine.backward",
      "PartitionedParameterCoordinator.fetch_sub_module",
      "PartitionedParameterCoordinator.release_sub_module",
      "PartitionedParameterCoordinator.__all_gather_params",
      "Init._convert_to_deepspeed_param.<locals>.all_gather_coalesced",
      "AllGatherCoalescedHandle.wait",
      "DeepSpeedZeroOptimizer_Stage3.step",
      "DeepSpeedZeroOptimizer_Stage3.create_reduce_and_remove_grad_hooks.<locals>.wrapper.<locals>."
      "reduce_partition_and_remove_grads",
      "DeepSpeedZeroOffload._register_deepspeed_module.<locals>._run_before_backward_function",
  };
  return names;
}

void TwoCounterReadings(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(rankscope::recorder::ReadCounter());
    benchmark::DoNotOptimize(rankscope::recorder::ReadCounter());
  }
}
BENCHMARK(TwoCounterReadings);

void PushPopOneName(benchmark::State& state) {
  const FakeNvtx& nvtx = Nvtx();
  for (auto _ : state) {
    nvtx.Push("PartitionedParameterCoordinator.fetch_sub_module");
    nvtx.Pop();
  }
}
BENCHMARK(PushPopOneName)->ThreadRange(1, 2)->UseRealTime();

void PushPopTenNames(benchmark::State& state) {
  const std::vector<std::string>& names = StepNames();
  const FakeNvtx& nvtx = Nvtx();
  size_t i = 0;
  for (auto _ : state) {
    nvtx.Push(names[i].c_str());
    nvtx.Pop();
    i = i + 1 == names.size() ? 0 : i + 1;
  }
}
BENCHMARK(PushPopTenNames);

// The same bytes at an address that is new, or was another name's: what Python's temporary strings look like.
void PushPopMovingAddress(benchmark::State& state) {
  const std::vector<std::string>& names = StepNames();
  std::vector<char> room(4096 + 256);
  const FakeNvtx& nvtx = Nvtx();
  size_t i = 0, at = 0;
  for (auto _ : state) {
    memcpy(room.data() + at, names[i].c_str(), names[i].size() + 1);
    nvtx.Push(room.data() + at);
    nvtx.Pop();
    i = i + 1 == names.size() ? 0 : i + 1;
    at = (at + 16) & 4095;
  }
}
BENCHMARK(PushPopMovingAddress);

// NCCL's way: a domain, a registered name.
void PushPopRegistered(benchmark::State& state) {
  const FakeNvtx& nvtx = Nvtx();
  void* domain = nvtx.Domain("NCCL");
  nvtx::EventAttributes event = {};
  event.version = 3;
  event.size = sizeof(event);
  event.message_type = nvtx::kMessageRegistered;
  event.message.registered = nvtx.Core2<void*>(nvtx::kCore2DomainRegisterStringA, domain, "ncclAllReduce");
  const nvtx::EventAttributes* attributes = &event;
  for (auto _ : state) {
    nvtx.Core2<int>(nvtx::kCore2DomainRangePushEx, domain, attributes);
    nvtx.PopIn(domain);
  }
}
BENCHMARK(PushPopRegistered);

void StartEnd(benchmark::State& state) {
  const FakeNvtx& nvtx = Nvtx();
  for (auto _ : state) {
    nvtx.Core<void>(nvtx::kCoreRangeEnd, nvtx.Core<uint64_t>(nvtx::kCoreRangeStartA, "started"));
  }
}
BENCHMARK(StartEnd);

void HookPushPop(benchmark::State& state) {
  for (auto _ : state) {
    rankscope_hook_v1(1, "data_loading", 0);
    rankscope_hook_v1(2, nullptr, 0);
  }
}
BENCHMARK(HookPushPop);

}  // namespace

int main(int argc, char** argv) {
  char path[] = "/dev/shm/rankscope-shim-bench-XXXXXX";
  const char* dir = mkdtemp(path);
  if (dir == nullptr) return 1;
  setenv("RANKSCOPE_DIR", dir, 1);
  setenv("RANKSCOPE_JOB", "benchmark", 1);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return system((std::string("rm -rf ") + dir).c_str()) == 0 ? 0 : 1;
}
