// The door for the Python hook: one C function, called by ctypes with any thread of the interpreter, the GIL given
// up. Must never raise, print or wait; a call that can't be recorded returns a small code and changes nothing.
#ifndef RANKSCOPE_SHIM_HOOK_ENTRY_H_
#define RANKSCOPE_SHIM_HOOK_ENTRY_H_

namespace rankscope::shim {

enum HookOperation : int {
  kHookPush = 1,
  kHookPop = 2,  // ends the thread's newest push; `name` is not looked at; a value other than 0 replaces the push's
  kHookMark = 3,
  kHookGroup = 4,  // a process group came: a mark in the domain "rankscope.group"; value is the hook's choice
};
enum HookResult : int {
  kHookRecorded = 0,
  kHookOff = 1,  // the recorder is off in this process
  kHookUnknownOperation = 2,
  kHookNoName = 3,
  kHookUnbalanced = 4,  // a pop without a push; counted
};

}  // namespace rankscope::shim

// Names that are phases: data_loading, forward, backward, gradient_reduction, optimizer, checkpoint, checkpoint_save,
// checkpoint_load, gc (Phase::kOther).
extern "C" int rankscope_hook_v1(int operation, const char* name, unsigned long long value);

#endif  // RANKSCOPE_SHIM_HOOK_ENTRY_H_
