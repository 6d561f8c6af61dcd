// Two lists in one order, of which records are missing: which kernel was started by which launch.
//
// Pure; called by kernel_join.cc for the launches and kernels between two anchors. It must never guess: where more
// than one assignment is possible, a kernel gets none.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_ORDER_MATCH_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_ORDER_MATCH_H_

#include <cstdint>
#include <string>
#include <vector>

namespace rankscope::answers {

// schema::Function that a kernel's name or a plan's operations tell; this where they tell none.
inline constexpr uint8_t kAnyFunction = 0xff;

struct OrderedLaunch {
  int64_t earliest_ns = 0;  // its kernel can't have begun before
  uint8_t func = kAnyFunction;
};
struct OrderedKernel {
  int64_t begin_ns = 0;
  uint8_t func = kAnyFunction;
};

enum class OrderStep : uint8_t {
  kInStep = 0,    // both lists are whole: the n-th is the n-th
  kFromBack = 1,  // older entries may be missing at the front: the last is the last
  kGaps = 2,      // entries are missing somewhere; only what times and functions leave no choice for is matched
};

struct OrderMatch {
  OrderStep step = OrderStep::kInStep;
  std::vector<int32_t> launch_of;  // by kernel; -1 = none, or not the only possible one
};

// `front_known`: the lists begin at the same place. Both are in the order of the stream.
OrderMatch MatchInOrder(const std::vector<OrderedLaunch>& launches, const std::vector<OrderedKernel>& kernels,
                        bool front_known, int64_t tolerance_ns);

// The function that the name of one of NCCL's kernels tells, mangled or not. False if it is none of NCCL's.
bool NcclKernelFunction(const std::string& name, uint8_t* func);

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_ORDER_MATCH_H_
