// How fast a trace is read: plain JSON of a torch.profiler trace's usual mixture, and the same through gzip.
#include <benchmark/benchmark.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "analysis/importers/torch_profiler.h"

namespace rankscope::analysis {
namespace {

// Of 17 events, as of a real trace of a data-parallel job: 6 operators, 4 runtime calls, 5 flows, 2 kernels.
std::string MakeTrace(size_t events) {
  std::string text = "{\"schemaVersion\": 1, \"distributedInfo\": {\"rank\": 0}, \"traceEvents\": [\n";
  for (size_t i = 0; i < events; ++i) {
    const std::string ts = absl::StrCat(4458676522690 + i * 3, ".", 100 + i % 900);
    const size_t kind = i % 17;
    if (kind < 6) {
      absl::SubstituteAndAppend(&text, R"j(  {
    "ph": "X", "cat": "cpu_op", "name": "autograd::engine::evaluate_function: ConvolutionBackward$0", "pid": 2910249, "tid": 2919752,
    "ts": $1, "dur": 156.777,
    "args": {
      "External id": $2,"Record function id": $2, "Sequence number": 1080, "Fwd thread id": 1, "Ev Idx": $2
    }
  },
)j",
                                i % 40, ts, i);
    } else if (kind < 10) {
      absl::SubstituteAndAppend(&text, R"j(  {
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 2910249, "tid": 2919752,
    "ts": $0, "dur": 6.020,
    "args": {
      "External id": $1, "cbid": 211, "correlation": $1
    }
  },
)j",
                                ts, i);
    } else if (kind < 15) {
      absl::SubstituteAndAppend(&text, R"j(  {
    "ph": "s", "id": $1, "pid": 2910249, "tid": 2919752, "ts": $0,
    "cat": "ac2g", "name": "ac2g"
  },
)j",
                                ts, i);
    } else {
      absl::SubstituteAndAppend(&text, R"j(  {
    "ph": "X", "cat": "kernel", "name": "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>>(int, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>)", "pid": 0, "tid": 7,
    "ts": $0, "dur": 41.407,
    "args": {
      "External id": $1, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": $1, "registers per thread": 40,
      "shared memory": 0, "blocks per SM": 19.393940, "warps per SM": 77.575760, "grid": [2048, 1, 1], "block": [128, 1, 1],
      "est. achieved occupancy %": 100
    }
  },
)j",
                                ts, i);
    }
  }
  return text + "  {\"ph\": \"i\", \"name\": \"Record Window End\", \"ts\": 1}\n]}\n";
}

void Import(benchmark::State& state, bool gzip) {
  const std::string text = MakeTrace(200'000);
  char path[] = "/tmp/rankscope-import-bench-XXXXXX";
  close(mkstemp(path));
  if (gzip) {
    gzFile out = gzopen(path, "wb");
    gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
    gzclose(out);
  } else {
    std::ofstream(path, std::ios::binary) << text;
  }
  for (auto _ : state) {
    auto rank = ImportTorchTrace(path, nullptr);
    if (!rank.ok() || rank->events.empty()) state.SkipWithError("not imported");
    benchmark::DoNotOptimize(rank);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(text.size()));
  std::remove(path);
}
void PlainJson(benchmark::State& state) { Import(state, false); }
void GzipJson(benchmark::State& state) { Import(state, true); }
BENCHMARK(PlainJson)->Unit(benchmark::kMillisecond);
BENCHMARK(GzipJson)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace rankscope::analysis

BENCHMARK_MAIN();
