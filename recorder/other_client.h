// What another client of CUPTI in this process was seen to do, under LD_PRELOAD: how the interposed calls, which see
// it, tell the GPU source, which steps aside. Nothing but the contract between the two.
#ifndef RANKSCOPE_RECORDER_OTHER_CLIENT_H_
#define RANKSCOPE_RECORDER_OTHER_CLIENT_H_

#include <cstdint>

namespace rankscope::recorder {

enum class OtherClientCall : uint32_t {
  kRegister = 0,  // about to register its buffer callbacks
  kEnable = 1,    // turned `kind` on
  kDisable = 2,   // turned `kind` off
  kFlushed = 3,   // its forced flush returned
  kFinalize = 4,  // about to take CUPTI down
};

// On the client's thread, outside of CUPTI. Weak: tests link a part.
void NoteOtherClient(OtherClientCall call, uint32_t kind) __attribute__((weak));

}  // namespace rankscope::recorder

#endif  // RANKSCOPE_RECORDER_OTHER_CLIENT_H_
