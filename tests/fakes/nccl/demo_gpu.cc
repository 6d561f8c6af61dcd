// See demo_gpu.h.
#include "tests/fakes/nccl/demo_gpu.h"

#include <dlfcn.h>

#include <algorithm>
#include <iterator>

namespace rankscope::testing {

namespace {

constexpr uint32_t kKernel = 10, kMemcpy = 1, kSync = 38;
constexpr uint32_t kComputeStream = 7;

}  // namespace

void DemoGpu::Open(const std::string& doubles, const std::string& library) {
  if (doubles.empty()) return;
  cupti_ = FakeCupti::Load((doubles + "/libcupti.so.13").c_str());
  void* driver = dlopen((doubles + "/libcuda.so.1").c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (driver == nullptr) {
    std::fprintf(stderr, "rankscope_demo_job: %s\n", dlerror());
    return;
  }
  reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"))(0);
  there_ = true;
  if (library.empty()) return;
  if (void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD))
    hook_ = reinterpret_cast<decltype(hook_)>(dlsym(handle, "rankscope_hook_v1"));
}

uint64_t DemoGpu::NowNs() const { return there_ ? cupti_.now_ns() : 0; }

void DemoGpu::Computed(uint64_t begin_ns, uint64_t end_ns, const char* name, int kernels) {
  if (!there_ || end_ns <= begin_ns) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t each = (end_ns - begin_ns) / static_cast<uint64_t>(kernels);
  for (int i = 0; i < kernels; ++i) {
    FakeActivity a{};
    a.kind = kKernel;
    a.context = 1, a.stream = kComputeStream, a.correlation = ++correlation_;
    a.name = name;
    a.grid[0] = 256, a.grid[1] = a.grid[2] = 1;
    a.block[0] = 256, a.block[1] = a.block[2] = 1;
    const uint64_t start = begin_ns + static_cast<uint64_t>(i) * each;
    cupti_.complete(cupti_.launch(&a), start, start + each - each / 50);
  }
}

void DemoGpu::CopiedBatch(uint64_t begin_ns, uint64_t end_ns, uint64_t bytes) {
  if (!there_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  FakeActivity a{};
  a.kind = kMemcpy;
  a.context = 1, a.stream = kComputeStream, a.correlation = ++correlation_;
  a.bytes = bytes, a.copy_kind = 1, a.source_kind = 2, a.destination_kind = 3;
  cupti_.complete(cupti_.launch(&a), begin_ns, end_ns);
}

void DemoGpu::Waited(uint64_t begin_ns, uint64_t end_ns) {
  if (!there_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  FakeActivity a{};
  a.kind = kSync;
  a.context = 1, a.stream = 0xffffffff, a.type = 4, a.correlation = ++correlation_;
  cupti_.complete(cupti_.launch(&a), begin_ns, end_ns);
}

uint64_t DemoGpu::StartNccl(const char* name, uint64_t stream_handle) {
  if (!there_) return 0;
  const std::lock_guard<std::mutex> lock(mutex_);
  FakeActivity a{};
  a.kind = kKernel;
  // As the stand-in for cuptiGetStreamIdEx numbers streams.
  a.context = 1, a.stream = static_cast<uint32_t>(stream_handle >> 4) & 0xffff, a.correlation = ++correlation_;
  a.name = name;
  a.grid[0] = 2, a.grid[1] = a.grid[2] = 1;
  a.block[0] = 512, a.block[1] = a.block[2] = 1;
  const uint64_t kernel = cupti_.launch(&a);
  begin_of_[kernel % std::size(begin_of_)] = cupti_.now_ns();
  return kernel;
}

void DemoGpu::EndNccl(uint64_t kernel) {
  if (kernel == 0) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t begin_ns = std::max(begin_of_[kernel % std::size(begin_of_)], last_nccl_end_ns_);
  last_nccl_end_ns_ = cupti_.now_ns();
  cupti_.complete(kernel, begin_ns, last_nccl_end_ns_);
}

void DemoGpu::Push(const char* name) {
  if (hook_ != nullptr) hook_(1, name, 0);
}
void DemoGpu::Pop() {
  if (hook_ != nullptr) hook_(2, nullptr, 0);
}

}  // namespace rankscope::testing
