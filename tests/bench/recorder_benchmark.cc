// What recording costs: a start-stop pair of a collective through the table that NCCL would call, on one thread and
// on several, beside the clocks that it is made of, in one run (the machines are shared; compare ratios within a
// run).
//
//   recorder_benchmark --benchmark_repetitions=9 --benchmark_report_aggregates_only=true
//
// The pair's own distribution (p50_ns, p999_ns) is measured pair by pair with the time-stamp counter; what two
// counter readings back to back cost is measured the same way and stands beside it (timer_ns), not subtracted.
#include <benchmark/benchmark.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plugin/nccl_profiler_abi.h"
#include "recorder/clock.h"
#include "recorder/session.h"

extern "C" const rankscope::plugin::abi::TableOf<4> ncclProfiler_v4;
extern "C" const rankscope::plugin::abi::TableOf<6> ncclProfiler_v6;

namespace {

namespace abi = rankscope::plugin::abi;

// One communicator a thread, as in a process with several; its events carry NCCL's usual strings.
struct Host {
  void* context = nullptr;
  abi::DescriptorV4 v4{};
  abi::DescriptorV6 coll{}, api{};

  Host() {
    static int mask = 0;
    ncclProfiler_v4.init(&context, &mask, "world", 0x1234, 1, 8, 0, nullptr);
    v4.type = abi::kColl;
    v4.coll.seq_number = 0;
    v4.coll.func = "AllReduce";
    v4.coll.count = 1 << 20;
    v4.coll.datatype = "ncclBfloat16";
    v4.coll.n_channels = 16;
    v4.coll.n_warps = 16;
    v4.coll.algo = "RING";
    v4.coll.proto = "SIMPLE";
    api.type = abi::kCollApi;
    api.coll_api.func = "ReduceScatter";
    api.coll_api.count = 1 << 20;
    api.coll_api.datatype = "ncclBfloat16";
    coll.type = abi::kColl;
    coll.coll.func = "ReduceScatter";
    coll.coll.count = 1 << 20;
    coll.coll.datatype = "ncclBfloat16";
    coll.coll.algo = "NVLS";
    coll.coll.proto = "SIMPLE";
  }

  void Pair() {
    void* handle;
    v4.coll.seq_number++;
    ncclProfiler_v4.start_event(context, &handle, &v4);
    ncclProfiler_v4.stop_event(handle);
  }
  // What NCCL 2.28 and later call for one collective: the user's call and the launch that joins it.
  void Operation() {
    void *call, *launch;
    coll.coll.seq_number++;
    ncclProfiler_v6.start_event(context, &call, &api);
    ncclProfiler_v6.stop_event(call);
    coll.parent_obj = call;
    ncclProfiler_v6.start_event(context, &launch, &coll);
    ncclProfiler_v6.stop_event(launch);
  }
};

Host& ThreadHost() {
  static thread_local Host host;
  return host;
}

void ClockGettime(benchmark::State& state) {
  timespec now;
  for (auto _ : state) {
    clock_gettime(CLOCK_MONOTONIC, &now);
    benchmark::DoNotOptimize(now);
  }
}
BENCHMARK(ClockGettime);

void ReadTicks(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(rankscope::recorder::ReadTicks());
}
BENCHMARK(ReadTicks);

// The floor of any pair: its two clock readings.
void TwoReadTicks(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(rankscope::recorder::ReadTicks());
    benchmark::DoNotOptimize(rankscope::recorder::ReadTicks());
  }
}
BENCHMARK(TwoReadTicks);

void CollectivePair(benchmark::State& state) {
  Host& host = ThreadHost();
  for (auto _ : state) host.Pair();
  if (!rankscope::recorder::Active()) state.SkipWithError("the recorder is off: nothing was measured");
}
BENCHMARK(CollectivePair)->ThreadRange(1, 8)->UseRealTime();

void CollectiveWithApi(benchmark::State& state) {
  Host& host = ThreadHost();
  for (auto _ : state) host.Operation();
  if (!rankscope::recorder::Active()) state.SkipWithError("the recorder is off: nothing was measured");
}
BENCHMARK(CollectiveWithApi)->UseRealTime();

double Quantile(std::vector<uint64_t>& sorted, double q) {
  return static_cast<double>(sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1))]);
}

void CollectivePairDistribution(benchmark::State& state) {
  constexpr size_t kPairs = 200'000;
  Host& host = ThreadHost();
  std::vector<uint64_t> pair(kPairs), timer(kPairs);
  const uint64_t begin_ticks = rankscope::recorder::ReadTicks(), begin_ns = rankscope::recorder::MonotonicNs();
  for (auto _ : state) {
    for (size_t i = 0; i < kPairs; ++i) {
      const uint64_t start = rankscope::recorder::ReadTicks();
      const uint64_t middle = rankscope::recorder::ReadTicks();
      host.Pair();
      pair[i] = rankscope::recorder::ReadTicks() - middle;
      timer[i] = middle - start;
    }
  }
  const double ns_per_tick = static_cast<double>(rankscope::recorder::MonotonicNs() - begin_ns) /
                             static_cast<double>(rankscope::recorder::ReadTicks() - begin_ticks);
  std::sort(pair.begin(), pair.end());
  std::sort(timer.begin(), timer.end());
  state.counters["p50_ns"] = Quantile(pair, 0.5) * ns_per_tick;
  state.counters["p999_ns"] = Quantile(pair, 0.999) * ns_per_tick;
  state.counters["timer_ns"] = Quantile(timer, 0.5) * ns_per_tick;
  state.counters["timer999_ns"] = Quantile(timer, 0.999) * ns_per_tick;
}
BENCHMARK(CollectivePairDistribution)->Unit(benchmark::kMillisecond);

}  // namespace

int main(int argc, char** argv) {
  // A ring of its own, away from any real job's, gone at the end.
  char dir[] = "/dev/shm/rankscope-benchmark-XXXXXX";
  if (mkdtemp(dir) == nullptr) return 1;
  setenv("RANKSCOPE_DIR", dir, 1);
  setenv("RANKSCOPE_JOB", "benchmark", 1);
  if (!rankscope::recorder::Start()) return 1;  // also decides which clock ReadTicks reads
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  const std::string clean = std::string("rm -rf '") + dir + "'";
  return system(clean.c_str()) == 0 ? 0 : 1;
}
