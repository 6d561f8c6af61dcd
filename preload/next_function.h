// What a call would have reached without our name before it. Names of a preloaded library come first in the process,
// but what stands behind them may be the caller's alone: a library that the loader keeps to it (RTLD_LOCAL, as Python
// opens extensions), or its own copy. So the real function is looked for where the caller's library would have found
// it, and only then behind us in the order of the process. Any thread, no lock of ours; a return address is looked up
// once.
#ifndef RANKSCOPE_PRELOAD_NEXT_FUNCTION_H_
#define RANKSCOPE_PRELOAD_NEXT_FUNCTION_H_

#include <stdint.h>

namespace rankscope::preload {

// What a return address was found to call. Written once; an address is 0 (free) or final.
struct KnownCaller {
  uint64_t address;
  void* function;  // nullptr = being written
};
inline constexpr uint32_t kKnownCallers = 32;

// The function of this name that the caller means; nullptr where there is none. `known` is zero at first, one a name.
void* NextFunction(KnownCaller (&known)[kKnownCallers], const char* name, void* return_address);

}  // namespace rankscope::preload

#endif  // RANKSCOPE_PRELOAD_NEXT_FUNCTION_H_
