// The GPU of a rank of the demo job: stand-ins for the CUDA driver and libcupti, through which the library is entered
// as on a real machine, and kernels in real time: one stream that computes, one on which NCCL's kernels run. And the
// marks of the Python hook, by the entry that the real hook calls. Used by one rank's process; the training thread
// launches, the proxy thread ends NCCL's kernels.
#ifndef RANKSCOPE_TESTS_FAKES_NCCL_DEMO_GPU_H_
#define RANKSCOPE_TESTS_FAKES_NCCL_DEMO_GPU_H_

#include <cstdint>
#include <mutex>
#include <string>

#include "tests/fakes/cupti/fake_cupti.h"

namespace rankscope::testing {

class DemoGpu {
 public:
  // Maps libcupti and starts CUDA, as `import torch` and the first CUDA call do; `doubles` is the folder of the
  // stand-ins. Without one there is no GPU, and every call does nothing. `library` is the recorder's, for the hook's
  // marks.
  void Open(const std::string& doubles, const std::string& library);
  bool there() const { return there_; }

  // Kernels that ran from `begin_ns` to `end_ns` of NowNs(), one behind the other; and a copy of the batch before
  // them.
  void Computed(uint64_t begin_ns, uint64_t end_ns, const char* name, int kernels);
  void CopiedBatch(uint64_t begin_ns, uint64_t end_ns, uint64_t bytes);
  void Waited(uint64_t begin_ns, uint64_t end_ns);
  uint64_t NowNs() const;

  // NCCL's kernel is launched now; it runs until EndNccl.
  uint64_t StartNccl(const char* name, uint64_t stream_handle);
  void EndNccl(uint64_t kernel);

  // Python's hook.
  void Push(const char* name);
  void Pop();

 private:
  bool there_ = false;
  FakeCuptiApi cupti_{};
  int (*hook_)(int operation, const char* name, unsigned long long value) = nullptr;
  std::mutex mutex_;
  uint32_t correlation_ = 0;         // under mutex_
  uint64_t last_nccl_end_ns_ = 0;    // under mutex_: a stream runs one kernel at a time
  uint64_t begin_of_[1 << 12] = {};  // under mutex_: of NCCL's kernels, by record
};

}  // namespace rankscope::testing

#endif  // RANKSCOPE_TESTS_FAKES_NCCL_DEMO_GPU_H_
