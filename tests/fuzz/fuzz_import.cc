// Any bytes as a trace of torch.profiler: a sentence or an import, never a crash. See fuzz_ring.cc for how it runs.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "analysis/importers/torch_profiler.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

constexpr char kSeed[] = R"j({"schemaVersion": 1,
"distributedInfo": {"rank": 0, "world_size": 2, "pg_config": [{"pg_name": "0", "ranks": [0, 1]}], "nccl_version": "2.21.5"},
"baseTimeNanoseconds": 1711964646000000000, "traceEvents": [
{"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 2, "ts": 10.5, "dur": 4, "args":
  {"External id": 5, "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 8, "Group size": 2,
   "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Seq": 3}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 2, "ts": 11, "dur": 1, "args":
  {"External id": 5, "correlation": 7, "cbid": 211}},
{"ph": "X", "cat": "kernel", "name": "ncclDevKernel\u0041 \"x\"", "pid": 0, "tid": 7, "ts": 15.125, "dur": 2, "args":
  {"device": 0, "stream": 7, "correlation": 7, "grid": [2, 1, 1], "block": [32, 1, 1], "memory bandwidth (GB/s)": inf}},
{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": 7, "ts": 18, "dur": 1,
  "args": {"bytes": 4096}},
{"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "ts": 0, "args": {"name": "main"}}
], "traceName": "x"})j";

}  // namespace

std::vector<uint8_t> FuzzSeed() { return {kSeed, kSeed + sizeof(kSeed) - 1}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string path = FuzzFile(".json");
  if (!WriteFuzzFile(path, data, size)) return 0;
  const auto rank = rankscope::analysis::ImportTorchTrace(path, nullptr);
  if (!rank.ok()) {
    if (rank.status().message().empty()) std::abort();
    return 0;
  }
  for (size_t i = 1; i < rank->events.size(); ++i) {
    if (rank->events[i].end_ns < rank->events[i - 1].end_ns || rank->events[i].begin_ns > rank->events[i].end_ns)
      std::abort();
  }
  return 0;
}
