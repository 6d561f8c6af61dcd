// A call of NCCL's interface as one of NCCL's own NVTX ranges tells it: how the shim, which sees the ranges, hands it
// to the plugin's side, which knows communicators and operations. Nothing but the contract between the two; called at
// the end of the range, on the thread that called NCCL.
#ifndef RANKSCOPE_RECORDER_NCCL_CALL_H_
#define RANKSCOPE_RECORDER_NCCL_CALL_H_

#include <cstdint>

namespace rankscope::recorder {

// What is called: schema::Function for collectives, Send and Receive (1 to 10), or one of these.
inline constexpr uint8_t kNcclCallNone = 0;
inline constexpr uint8_t kNcclCallCommEnd = 14;   // ncclCommFinalize, ncclCommDestroy, ncclCommAbort
inline constexpr uint8_t kNcclCallCommInit = 15;  // ncclCommInitRank and its sisters, ncclCommSplit, ...

struct NcclCall {
  uint8_t what = kNcclCallNone;
  uint64_t begin_ticks = 0;
  // Bytes of the message as NCCL's range says them: of one rank's part for AllGather and ReduceScatter. For CommInit
  // and CommEnd: ranks << 32 | rank; 0 = not said.
  uint64_t value = 0;
  uint32_t communicator = 0;  // low 32 bits of its hash; 0 = not said (NCCL before 2.25)
};

// Weak: a test links the shim without the plugin's side. The recorder must be active.
void TakeNcclCall(const NcclCall& call) __attribute__((weak));

}  // namespace rankscope::recorder

#endif  // RANKSCOPE_RECORDER_NCCL_CALL_H_
