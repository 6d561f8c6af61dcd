// What the alignment costs an operation and host, and how near it comes: 8 to 1,024 hosts, clocks within 50 ms and
// 50 ppm. The counters are the error's 99th percentile and the widest claim, over the hosts and the time they span.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "analysis/alignment/host_clocks.h"
#include "analysis/alignment/planted_clocks.h"

namespace rankscope::alignment {
namespace {

void BM_EstimateHostClocks(benchmark::State& state) {
  const auto hosts = static_cast<uint32_t>(state.range(0));
  const auto operations = static_cast<size_t>(state.range(1));
  PlantedClocks planted(hosts, 1);
  planted.Add({.operations = operations});
  const ClockSamples& samples = planted.Samples();
  std::vector<HostClock> found;
  for (auto _ : state) {
    found = EstimateHostClocks(samples, hosts);
    benchmark::DoNotOptimize(found.data());
  }
  std::vector<double> errors_us;
  int64_t error_ns = 0, bound_ns = 0;
  for (uint32_t h = 1; h < hosts; ++h) {
    for (int i = 0; i <= 60; ++i) {
      const int64_t shown_ns = planted.Shows(h, 1e9 * i);
      errors_us.push_back(std::abs(found[h].curve.At(shown_ns) - planted.Correction(h, 0, shown_ns)) / 1e3);
    }
    error_ns = std::max(error_ns, found[h].error_ns);
    bound_ns = std::max(bound_ns, found[h].bound_ns);
  }
  std::sort(errors_us.begin(), errors_us.end());
  state.counters["error_p99_us"] = errors_us[errors_us.size() * 99 / 100];
  state.counters["claimed_error_us"] = static_cast<double>(error_ns) / 1e3;
  state.counters["bound_us"] = static_cast<double>(bound_ns) / 1e3;
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * hosts * operations));
}
BENCHMARK(BM_EstimateHostClocks)
    ->Args({2, 1000})
    ->Args({8, 1000})
    ->Args({64, 1000})
    ->Args({64, 10'000})
    ->Args({1024, 1000})
    ->Unit(benchmark::kMillisecond);

void BM_ConvertTimes(benchmark::State& state) {
  std::vector<CurvePoint> knots;
  for (int i = 0; i < 64; ++i) knots.push_back({kPlantedStartNs + i * 1'000'000'000ll, 1e6 + 1e3 * (i % 5)});
  const ClockCurve curve(knots, 20e-6);
  ClockConverter convert(&curve);
  int64_t at_ns = kPlantedStartNs;
  for (auto _ : state) {
    benchmark::DoNotOptimize(convert(at_ns));
    at_ns += 1000;
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}
BENCHMARK(BM_ConvertTimes);

}  // namespace
}  // namespace rankscope::alignment

BENCHMARK_MAIN();
