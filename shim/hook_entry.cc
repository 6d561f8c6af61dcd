// The Python hook's way in (hook/sitecustomize.py, by ctypes): what no native source shows. Called on Python's
// threads with the GIL released; must never fail in a way that Python would see.
#include <string.h>

#include "recorder/atomic_word.h"
#include "shim/ranges.h"

namespace rankscope::shim {
namespace {

enum HookOperation : int { kHookPush = 1, kHookPop = 2, kHookMark = 3, kHookGroup = 4 };
constexpr int kRecorded = 0, kNotRecording = 1, kBadCall = 2;

// The hook's own ranges are a domain of their own, so that they don't get between a framework's pushes and pops.
Handle* g_hook_domain = nullptr;
Handle* g_group_domain = nullptr;

// Two threads that come first at once make two of one name, which is harmless.
Handle* DomainOf(Handle** domain, const char* name) {
  Handle* known = recorder::LoadAcquire(*domain);
  if (known == nullptr) {
    known = NewDomain(name);
    recorder::StoreRelease(*domain, known);
  }
  return known;
}
Handle* HookDomain() { return DomainOf(&g_hook_domain, "rankscope"); }
Handle* GroupDomain() { return DomainOf(&g_group_domain, "rankscope.group"); }

schema::Phase PhaseOf(const char* name) {
  struct Word {
    const char* name;
    schema::Phase phase;
  };
  static constexpr Word kWords[] = {
      {"data_loading", schema::Phase::kDataLoading},   {"forward", schema::Phase::kForward},
      {"backward", schema::Phase::kBackward},          {"gradient_reduction", schema::Phase::kGradientReduction},
      {"optimizer", schema::Phase::kOptimizer},        {"checkpoint_save", schema::Phase::kCheckpoint},
      {"checkpoint_load", schema::Phase::kCheckpoint}, {"gc", schema::Phase::kOther},
  };
  for (const Word& word : kWords) {
    if (strcmp(word.name, name) == 0) return word.phase;
  }
  return schema::Phase::kUnknown;
}

}  // namespace
}  // namespace rankscope::shim

// `operation`: 1 push, 2 pop (`name` is not looked at), 3 mark, 4 the name of a process group. 0 = recorded.
extern "C" __attribute__((visibility("default"))) int rankscope_hook_v1(int operation, const char* name,
                                                                        unsigned long long value) {
  using namespace rankscope::shim;
  if (operation < kHookPush || operation > kHookGroup || (name == nullptr && operation != kHookPop)) return kBadCall;
  if (!Recording(rankscope::schema::kDoorHook)) return kNotRecording;
  if (operation == kHookPop) return PopRange(HookDomain()) >= 0 ? kRecorded : kNotRecording;
  RangeText text;
  text.ascii = name;
  text.domain = operation == kHookGroup ? GroupDomain() : HookDomain();
  text.value = value;
  text.form = rankscope::schema::RangeForm::kHook;
  text.phase = operation == kHookGroup ? rankscope::schema::Phase::kUnknown : PhaseOf(name);
  if (text.phase != rankscope::schema::Phase::kUnknown) text.phase_source = rankscope::schema::PhaseSource::kHook;
  if (operation == kHookPush) return PushRange(text) >= 0 ? kRecorded : kNotRecording;
  Mark(text);
  return kRecorded;
}
