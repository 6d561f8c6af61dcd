// What the GPUs did, from CUPTI's records: how long they were busy and with what, what was copied, what was waited
// for, what memory was taken, and how far the records can be trusted.
//
// Events go in by the time of their end. Memory does not grow with their number but with that of different kernels
// and of allocations that live at once. One thread.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_GPU_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_GPU_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analysis/model.h"

namespace rankscope::answers {

// The length of a union of intervals that come by their end. What lies further back than `kFoldNs` is taken as final:
// an interval that reaches back behind it counts from there on.
class BusyTime {
 public:
  static constexpr int64_t kFoldNs = 60'000'000'000;
  void Add(int64_t begin_ns, int64_t end_ns);
  int64_t total_ns() const;

 private:
  struct Interval {
    int64_t begin_ns, end_ns;
  };
  std::vector<Interval> open_;  // disjoint, by time
  int64_t folded_ns_ = 0;
  int64_t folded_to_ns_ = INT64_MIN;
};

enum class CopyDirection : uint8_t { kHostToDevice, kDeviceToHost, kDeviceToDevice, kPeer, kOther };
inline constexpr int kCopyDirections = 5;
const char* CopyDirectionName(CopyDirection direction);

struct CopySums {
  uint64_t copies = 0, bytes = 0;
  int64_t busy_ns = 0;    // sum of the copies' times
  uint64_t pageable = 0;  // of these, with pageable host memory at one end
};

struct KernelSums {
  std::string name;  // demangled, shortened
  bool nccl = false;
  uint64_t launches = 0;
  int64_t total_ns = 0, max_ns = 0;
};

struct GpuRank {
  uint64_t kernels = 0, nccl_kernels = 0, memsets = 0, graphs = 0, syncs = 0, overheads = 0;
  int64_t busy_ns = 0;     // kernels, copies, sets, graphs: the union
  int64_t compute_ns = 0;  // kernels that are not NCCL's, and graphs: the union
  int64_t nccl_ns = 0;     // NCCL's kernels: the union
  int64_t hidden_ns = 0;   // of nccl_ns, while some of compute ran on the same device
  int64_t graph_ns = 0, sync_ns = 0, overhead_ns = 0, blind_ns = 0;
  int64_t first_ns = 0, last_ns = 0;  // first begin and last end of a kernel, copy, set or graph
  std::array<CopySums, kCopyDirections> copies{};
  uint64_t memory_taken = 0, memory_released = 0;  // calls
  uint64_t memory_peak_bytes = 0;                  // of what was taken while it was recorded
  bool any() const { return (kernels | memsets | graphs | syncs | memory_taken) != 0 || last_ns != 0; }
};

struct GpuReport {
  std::vector<GpuRank> ranks;       // by rank_index
  std::vector<KernelSums> kernels;  // all ranks', by total time
  uint64_t other_kernels = 0;       // kinds of kernels beyond those kept
  bool any = false;                 // some record of a GPU was read
};

class GpuCollector {
 public:
  GpuCollector(const std::vector<analysis::RankInfo>& ranks, size_t kernels_kept);
  static analysis::KindMask Kinds();
  void Add(const analysis::Event& event);
  GpuReport Finish();

 private:
  struct State {
    GpuRank sums;
    // By device: a union over devices would hide that two work at once.
    std::map<uint16_t, BusyTime> busy, compute, nccl, kernels;
    absl::flat_hash_map<uint64_t, uint64_t> live;  // address -> bytes
    uint64_t live_bytes = 0;
    std::vector<KernelSums> by_name;  // by name id
  };
  void AddKernel(State* state, const analysis::RankInfo& info, const analysis::Event& event);
  void AddCopy(State* state, const analysis::Event& event);
  void AddMemory(State* state, const analysis::Event& event);

  const std::vector<analysis::RankInfo>& ranks_;
  const size_t kernels_kept_;
  std::vector<State> states_;
};

// "void at::native::foo<...>(...)" from a mangled name: without arguments, template arguments shortened.
std::string ShortKernelName(const std::string& mangled);

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_GPU_H_
