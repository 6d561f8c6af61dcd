// Where in the program NCCL was called from: the caller's stack, interned once a site, as module and offset a frame,
// so that the symbols can be looked up offline. Off unless RANKSCOPE_CALL_STACKS=1.
//
// Called by the interposed NCCL calls, on the calling thread, before the real call. A stack is taken at the first
// calls of a return address, and then at every 64th: that keeps a call under a microsecond on average, and finds the
// sites behind a common helper after a while. Must never: allocate once its unwinder is found, or look up a frame
// that is known.
#ifndef RANKSCOPE_PRELOAD_CALL_SITES_H_
#define RANKSCOPE_PRELOAD_CALL_SITES_H_

namespace rankscope::preload {

// `function` is NCCL's name of the call, `return_address` where it returns to.
void NoteCall(const char* function, void* return_address);

}  // namespace rankscope::preload

#endif  // RANKSCOPE_PRELOAD_CALL_SITES_H_
