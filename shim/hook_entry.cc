// See hook_entry.h.
#include "shim/hook_entry.h"

#include "recorder/session.h"
#include "shim/range_names.h"
#include "shim/range_stack.h"

namespace rankscope::shim {

extern "C" __attribute__((visibility("default"))) int rankscope_hook_v1(int operation, const char* name,
                                                                        unsigned long long value) {
  if (operation < kHookPush || operation > kHookGroup) return kHookUnknownOperation;
  if (operation == kHookPop) {
    if (!recorder::Active()) return kHookOff;
    return PopRange(kDomainHook, {.value = value, .detail = 0, .present = value != 0}) >= 0 ? kHookRecorded
                                                                                            : kHookUnbalanced;
  }
  if (name == nullptr || name[0] == '\0') return kHookNoName;
  RangeThread* thread = RangeThreadFor(schema::kDoorHook);
  if (thread == nullptr) return kHookOff;
  NameInfo info = NameOf(&thread->names, name);
  const RangeExtra extra = {.value = value, .detail = 0, .present = true};
  switch (operation) {
    case kHookPush:
      PushRange(thread, kDomainHook, info, extra, schema::RangeForm::kHook);
      break;
    case kHookMark:
      MarkInstant(thread, kDomainHook, info, extra, schema::RangeForm::kHook);
      break;
    default:
      info.phase = schema::Phase::kUnknown;
      // The launcher's variables are there by now, where Python fills them in itself.
      recorder::RefreshIdentity();
      MarkInstant(thread, kDomainGroup, info, extra, schema::RangeForm::kHook);
      break;
  }
  return kHookRecorded;
}

}  // namespace rankscope::shim
