// NCCL's kernels and NCCL's operations, tied together: an operation's true begin and end on the GPU.
//
// NCCL says which stream a plan was launched on (KernelLaunch), CUPTI says which kernels ran on which stream; kernels
// of a stream run in the order of their launches, so the n-th kernel of a stream is the n-th launch's. What keeps the
// two lists in step when a record was lost: a kernel never begins before its launch; its name says the function; and
// after a host synchronisation nothing launched before is still to run. (CUPTI's correlation ids would tie them
// exactly, at the price of a record for every launch; cupti.md, 5.5.) Releases without KernelLaunch (before 2.28) are
// joined by the order of a rank's operations where it has one communicator only.
//
// Events go in by the time of their end; for each operation whose kernel is found an OpComplete event comes out, with
// the kernel's begin and end and source kGpuKernel. Memory: what is launched and not yet run, at most `kMostWaiting`
// a stream. One thread.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_KERNEL_JOIN_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_KERNEL_JOIN_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "analysis/model.h"

namespace rankscope::answers {

// How sure a join is, worst to best.
enum class JoinConfidence : uint8_t {
  kByOrderOfRank = 1,  // no launch events: by the order of the rank's operations
  kReanchored = 2,     // the first after the two lists were put in step again
  kExactOrder = 3,
};

struct JoinStats {
  uint64_t kernels = 0;     // NCCL's kernels
  uint64_t launches = 0;    // plans
  uint64_t joined = 0;      // kernels with their launch
  uint64_t reanchored = 0;  // of these, after a gap
  uint64_t by_order = 0;    // of these, without launch events
  uint64_t launches_without_kernel = 0;
  uint64_t kernels_without_launch = 0;
  uint64_t ranks_not_joinable = 0;  // several communicators and no launch events
};

class KernelJoiner {
 public:
  static constexpr size_t kMostWaiting = 65536;
  static constexpr int64_t kToleranceNs = 2000;  // GPU times are interpolated

  using Emit = std::function<void(const analysis::Event&)>;
  KernelJoiner(const std::vector<analysis::RankInfo>& ranks, Emit emit);

  static analysis::KindMask Kinds();
  void Add(const analysis::Event& event);
  // What is still waiting has no partner.
  JoinStats Finish();

 private:
  struct Operation {
    uint64_t op_id;
    uint16_t comm;
    uint8_t func;
  };
  struct Plan {
    int64_t begin_ns = 0, end_ns = 0;
    std::vector<Operation> operations;
    bool ran = false;
    int64_t kernel_begin_ns = 0, kernel_end_ns = 0;
    bool replay = false;
  };
  using PlanPointer = std::shared_ptr<Plan>;
  struct Rank {
    bool has_launches = false;
    bool by_order = false;                                // one communicator, no launch events so far
    std::map<uint64_t, uint32_t> stream_of;               // handle -> CUPTI's number
    std::map<uint32_t, std::deque<PlanPointer>> waiting;  // by stream, in the order of their launches
    std::map<uint16_t, PlanPointer> current;              // by lane: the plan that the next operations belong to
    // Of each function, by its number in schema: what the names of this rank's kernels say. 0xff = not looked at yet.
    std::vector<uint8_t> func_of_name;
  };

  void AddLaunch(Rank* rank, const analysis::Event& event);
  void AddOperation(Rank* rank, const analysis::Event& event);
  void AddKernel(Rank* rank, const analysis::RankInfo& info, const analysis::Event& event);
  void AddSync(Rank* rank, const analysis::Event& event);
  uint8_t FunctionOfKernel(Rank* rank, const analysis::RankInfo& info, uint32_t name);
  static bool Fits(const Plan& plan, uint8_t func, const analysis::Event& kernel);
  void EmitFor(const Operation& operation, uint32_t rank_index, const Plan& plan);
  void Drop(std::deque<PlanPointer>* queue, size_t count);

  const std::vector<analysis::RankInfo>& ranks_;
  Emit emit_;
  std::vector<Rank> states_;
  JoinStats stats_;
};

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_KERNEL_JOIN_H_
