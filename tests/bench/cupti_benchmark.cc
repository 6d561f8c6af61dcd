// What a record of CUPTI costs from its buffer into the ring, and what a launching thread pays for a buffer. Ratios
// within one run: ReadTicks is the yardstick.
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "cupti/callbacks.h"
#include "cupti/gpu_clock.h"
#include "cupti/record_decoder.h"
#include "cupti/subscriber.h"
#include "recorder/session.h"

namespace rankscope::cupti {
namespace {

// CUDA 13's stride and kernels of a training step: names as long as PyTorch's are.
constexpr uint32_t kStride = 216;

struct Setup {
  Setup() {
    char path[] = "/dev/shm/rankscope-bench-XXXXXX";
    directory = mkdtemp(path);
    setenv("RANKSCOPE_DIR", directory.c_str(), 1);
    setenv("RANKSCOPE_RING_BYTES", "32M", 1);
    recorder::Start();
    AnchorClock();
    SetClockMode(schema::CuptiClock::kOurs);
    strides[kKindConcurrentKernel] = kStride;
    strides[kKindMemcpy] = 96;
    for (int i = 0; i < 200; ++i) {
      names.push_back(
          "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_" +
          std::string(static_cast<size_t>(i % 60), 'x') + std::to_string(i));
    }
  }
  ~Setup() { std::filesystem::remove_all(directory); }
  std::string directory;
  uint16_t strides[schema::kCuptiKindLimit] = {};
  std::vector<std::string> names;
};
Setup& TheSetup() {
  static Setup setup;
  return setup;
}

std::vector<uint8_t> KernelBuffer() {
  std::vector<uint8_t> buffer(kBufferBytes / kStride * kStride);
  const uint64_t now = TimestampNow();
  for (uint32_t i = 0; i * kStride < buffer.size(); ++i) {
    uint8_t* at = buffer.data() + i * kStride;
    const uint32_t kind = kKindConcurrentKernel, stream = 7;
    const uint64_t start = now + i * 10, end = start + 9;
    const char* name = TheSetup().names[i * 7 % TheSetup().names.size()].c_str();
    std::memcpy(at, &kind, 4);
    std::memcpy(at + KernelLayout::kStart.offset, &start, 8);
    std::memcpy(at + KernelLayout::kEnd.offset, &end, 8);
    std::memcpy(at + KernelLayout::kStream.offset, &stream, 4);
    std::memcpy(at + KernelLayout::kCorrelation.offset, &i, 4);
    std::memcpy(at + KernelLayout::kName.offset, &name, 8);
  }
  return buffer;
}

void ReadTicks(benchmark::State& state) {
  TheSetup();
  for (auto _ : state) benchmark::DoNotOptimize(recorder::ReadTicks());
}
BENCHMARK(ReadTicks);

void KernelRecordIntoTheRing(benchmark::State& state) {
  std::vector<uint8_t> buffer = KernelBuffer();
  const DecodeContext context{TheSetup().strides, nullptr, 1};
  uint64_t records = 0;
  for (auto _ : state) records += DecodeBuffer(context, buffer.data(), buffer.size()).records;
  state.SetItemsProcessed(static_cast<int64_t>(records));
  state.counters["ns_per_record"] = benchmark::Counter(static_cast<double>(records) / 1e9,
                                                       benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(KernelRecordIntoTheRing);

// The same without a buffer's records being in the cache already, as when CUPTI's thread has just got them.
void KernelRecordFromColdBuffers(benchmark::State& state) {
  std::vector<std::vector<uint8_t>> buffers(256, KernelBuffer());
  const DecodeContext context{TheSetup().strides, nullptr, 1};
  uint64_t records = 0;
  size_t next = 0;
  for (auto _ : state) {
    std::vector<uint8_t>& buffer = buffers[next++ % buffers.size()];
    records += DecodeBuffer(context, buffer.data(), buffer.size()).records;
  }
  state.SetItemsProcessed(static_cast<int64_t>(records));
  state.counters["ns_per_record"] = benchmark::Counter(static_cast<double>(records) / 1e9,
                                                       benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(KernelRecordFromColdBuffers);

void BufferRequestAndReturn(benchmark::State& state) {
  TheSetup();
  g_source.pool.Prepare();
  for (auto _ : state) {
    uint8_t* buffer = nullptr;
    size_t bytes = 0, most = 0;
    RequestBuffer(&buffer, &bytes, &most);
    CompleteBuffer(nullptr, 0, buffer, bytes, 0);
  }
}
BENCHMARK(BufferRequestAndReturn);

void AnchoredTimestamp(benchmark::State& state) {
  TheSetup();
  for (auto _ : state) benchmark::DoNotOptimize(TimestampNow());
}
BENCHMARK(AnchoredTimestamp);

}  // namespace
}  // namespace rankscope::cupti

BENCHMARK_MAIN();
