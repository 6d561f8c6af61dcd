// The doors: what the CUDA driver calls when CUDA_INJECTION64_PATH names this library, and what the NCCL plugin calls
// with the first communicator. The driver's caller has no exception tables and the training's errno: nothing may
// leave here but a number.
#include "cupti/subscriber.h"
#include "recorder/session.h"

// Called by libcuda inside the process's first cuInit, once, on the calling thread. 1 = fine.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  rankscope::recorder::RememberDoor(rankscope::schema::kDoorCuda);
  rankscope::cupti::Arm(rankscope::cupti::Entrance::kCuda);
  return 1;
}

namespace rankscope::recorder {

void StartOtherSources() { cupti::Arm(cupti::Entrance::kPlugin); }

}  // namespace rankscope::recorder
