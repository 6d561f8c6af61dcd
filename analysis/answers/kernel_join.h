// NCCL's kernels tied to NCCL's operations: an operation's true begin and end on the GPU.
//
// NCCL names the stream that it launches a plan on (KernelLaunch), the recorder what CUPTI calls that stream
// (RankInfo.streams), CUPTI the kernels of it. The n-th of NCCL's kernels on a stream, in the order of correlation
// ids, is the n-th launch (cupti.md, 5.5). So that a lost record disturbs no more than what lies between two anchors,
// the two lists are cut at
//   - host times with a correlation id (a synchronisation, a CUDA call): ids are given in the order of the host's
//     calls, so what was launched before has a smaller one;
//   - launches before which as many kernels had begun as there were launches.
// Between two anchors equal numbers are matched one to one; else only what cannot be otherwise (order_match.h).
// Without launch events (NCCL before 2.28, API v1 to v4) the plans are the Group events, on one list for the rank.
//
// Called with events in the order of their end, GPU records some ms out of order; one thread. Each of NCCL's kernels
// comes out once, matched or not. Memory: at most `pending` launches and as many kernels of a stream, 4,096 anchors;
// what is older than `hold_ns` of recorded time is decided with what there is. It must never guess.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_KERNEL_JOIN_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_KERNEL_JOIN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "analysis/model.h"

namespace rankscope::answers {

// How sure it is that a kernel is an operation's.
enum class JoinConfidence : uint8_t {
  kNone = 0,
  kByTime = 1,      // no launch event, or one whose stream is not known: by the rank's order of plans
  kReanchored = 2,  // records are missing around it; times and functions leave one possibility
  kExactOrder = 3,  // as many launches as kernels, one to one
};

struct JoinedKernel {
  struct Operation {
    uint64_t op_id = 0;
    uint16_t comm = schema::kCommUnknown;
    uint8_t func = 0;
  };
  uint32_t rank_index = 0;
  int64_t gpu_begin_ns = 0, gpu_end_ns = 0;
  JoinConfidence confidence = JoinConfidence::kNone;  // kNone: no launch was found, the rest is empty
  int64_t launch_ns = 0;                              // begin of the launch on the host
  uint16_t lane = 0;                                  // of the thread that launched
  std::vector<Operation> operations;                  // of the plan; none where NCCL reports the launch alone
};
// What the matcher is told of one of its operations: an OpComplete of source kGpuKernel, its begin that of the
// kernel.
analysis::Event CompletionOf(const JoinedKernel& kernel, const JoinedKernel::Operation& operation);

struct JoinOptions {
  size_t pending = 65536;
  int64_t hold_ns = 10'000'000'000;
  int64_t reorder_ns = 50'000'000;  // GPU records come at most this much out of order
  int64_t tolerance_ns = 2000;      // a kernel may seem to begin this much before its launch: two clocks
};

struct JoinStats {
  uint64_t kernels = 0;            // NCCL's, without those of graphs
  uint64_t graph_kernels = 0;      // launched by a graph's replay: in no launch event, not joined
  uint64_t launches = 0;           // plans, without captured ones
  uint64_t captured = 0;           // launches captured into a graph: no kernel follows
  uint64_t by_confidence[4] = {};  // kernels by JoinConfidence; [0]: none found
  uint64_t launches_without_kernel = 0;
  uint64_t late_operations = 0;  // operations that came after their launch had been decided

  uint64_t of(JoinConfidence confidence) const { return by_confidence[static_cast<size_t>(confidence)]; }
  uint64_t reanchored() const { return of(JoinConfidence::kReanchored); }
  uint64_t by_order() const { return of(JoinConfidence::kByTime); }
  uint64_t joined() const { return of(JoinConfidence::kExactOrder) + reanchored() + by_order(); }
};

class KernelJoiner {
 public:
  using Sink = std::function<void(const JoinedKernel&)>;
  // `ranks` must outlive the joiner.
  KernelJoiner(const std::vector<analysis::RankInfo>& ranks, Sink sink, const JoinOptions& options = {});
  ~KernelJoiner();
  KernelJoiner(const KernelJoiner&) = delete;
  KernelJoiner& operator=(const KernelJoiner&) = delete;

  static analysis::KindMask Kinds();
  void Add(const analysis::Event& event);
  // Decides what is left. Nothing may be added afterwards.
  JoinStats Finish();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_KERNEL_JOIN_H_
