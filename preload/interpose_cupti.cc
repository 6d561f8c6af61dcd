// CUPTI's calls of other clients (torch.profiler and the like), where this library was preloaded: the real call
// (next_function.h), and a note for the GPU source, which steps aside at once and comes back when the session is
// over. Our own calls don't come here: they go by addresses of the loaded libcupti. Only calls that every CUPTI has
// from CUDA 11 on. What is found nowhere returns 999, CUPTI's "unknown error".
#include <stddef.h>
#include <stdint.h>

#include "preload/next_function.h"
#include "recorder/other_client.h"

namespace {

using rankscope::preload::kKnownCallers;
using rankscope::preload::KnownCaller;
using rankscope::preload::NextFunction;
using rankscope::recorder::OtherClientCall;

constexpr int kUnknownError = 999;
constexpr uint32_t kForced = 1;  // CUPTI_ACTIVITY_FLAG_FLUSH_FORCED

void Note(OtherClientCall call, uint32_t kind = 0) {
  if (rankscope::recorder::NoteOtherClient != nullptr) rankscope::recorder::NoteOtherClient(call, kind);
}

}  // namespace

#define RANKSCOPE_EXPORT extern "C" __attribute__((visibility("default")))
// NOLINTBEGIN(bugprone-macro-parentheses): the parameters are a list in parentheses already
#define RANKSCOPE_NEXT(NAME, PARAMETERS)                                                                     \
  static KnownCaller known[kKnownCallers] = {};                                                              \
  auto* next = reinterpret_cast<int(*) PARAMETERS>(NextFunction(known, #NAME, __builtin_return_address(0))); \
  if (next == nullptr) return kUnknownError
// NOLINTEND(bugprone-macro-parentheses)

RANKSCOPE_EXPORT int cuptiActivityRegisterCallbacks(void* request, void* complete) {
  RANKSCOPE_NEXT(cuptiActivityRegisterCallbacks, (void*, void*));
  Note(OtherClientCall::kRegister);
  return next(request, complete);
}
RANKSCOPE_EXPORT int cuptiActivityEnable(uint32_t kind) {
  RANKSCOPE_NEXT(cuptiActivityEnable, (uint32_t));
  const int result = next(kind);
  if (result == 0) Note(OtherClientCall::kEnable, kind);
  return result;
}
RANKSCOPE_EXPORT int cuptiActivityDisable(uint32_t kind) {
  RANKSCOPE_NEXT(cuptiActivityDisable, (uint32_t));
  const int result = next(kind);
  Note(OtherClientCall::kDisable, kind);
  return result;
}
RANKSCOPE_EXPORT int cuptiActivityFlushAll(uint32_t flags) {
  RANKSCOPE_NEXT(cuptiActivityFlushAll, (uint32_t));
  const int result = next(flags);
  if ((flags & kForced) != 0) Note(OtherClientCall::kFlushed);
  return result;
}
RANKSCOPE_EXPORT int cuptiFinalize() {
  RANKSCOPE_NEXT(cuptiFinalize, ());
  Note(OtherClientCall::kFinalize);
  return next();
}
