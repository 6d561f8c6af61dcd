// See ranges.h.
#include "shim/ranges.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "recorder/session.h"

namespace rankscope::shim {
namespace {

using recorder::g_session;
using recorder::LoadAcquire;
using recorder::LoadRelaxed;
using recorder::StoreRelaxed;
using recorder::StoreRelease;
using schema::EventKind;
using schema::LossReason;

constexpr uint32_t kDeepest = 64;
constexpr uint32_t kStacks = 256;
constexpr uint32_t kOpenRanges = 1024;
constexpr uint32_t kProbes = 16;

struct OpenRange {
  uint64_t begin_ticks;
  uint64_t value;
  const Handle* domain;
  uint32_t name, domain_name, detail;
  schema::Phase phase;
  schema::PhaseSource phase_source;
  schema::RangeForm form;
  uint32_t depth;
};

// A thread's open ranges of all domains, in the order of their pushes. Not in thread-local memory itself: a library
// that is opened late gets little of that.
struct Stack {
  uint32_t in_use;
  uint32_t depth;   // kept ranges
  uint32_t beyond;  // pushes that were not kept, and not popped yet
  uint32_t generation;
  NameCache names;
  OpenRange open[kDeepest];
};
Stack g_stacks[kStacks];
thread_local constinit Stack* t_stack = nullptr;
thread_local constinit bool t_no_stack = false;

// Ranges by id: generation << 16 | position, the state in `tag`.
struct StartedRange {
  uint64_t tag;  // 0 free, 1 being written, else the id
  OpenRange range;
};
StartedRange g_started[kOpenRanges];
uint32_t g_next_started = 0;
uint64_t g_started_ever = 0;

pthread_once_t g_once = PTHREAD_ONCE_INIT;
pthread_key_t g_key;
bool g_has_key = false;
uint32_t g_noted_doors = 0;
uint32_t g_noted_generation = 0;

void OnThreadExit(void* value) {
  auto* stack = static_cast<Stack*>(value);
  t_stack = nullptr;
  if (stack != nullptr) StoreRelease(stack->in_use, 0u);
}
void AfterForkInChild() {
  // The forking thread's stack is this one's; the others' owners are gone.
  for (Stack& stack : g_stacks) {
    if (&stack != t_stack) stack.in_use = 0;
  }
}
void MakeKey() {
  g_has_key =
      pthread_key_create(&g_key, OnThreadExit) == 0 && pthread_atfork(nullptr, nullptr, AfterForkInChild) == 0;
}

Stack* ClaimStack() {
  if (t_no_stack) return nullptr;
  pthread_once(&g_once, MakeKey);
  if (g_has_key) {
    for (Stack& stack : g_stacks) {
      if (LoadRelaxed(stack.in_use) != 0 || !recorder::CompareExchange(stack.in_use, 0u, 1u)) continue;
      stack.depth = stack.beyond = 0;
      stack.generation = g_session.generation;
      t_stack = &stack;
      pthread_setspecific(g_key, &stack);
      return &stack;
    }
  }
  t_no_stack = true;
  recorder::CountLoss(LossReason::kRangeTableFull);
  return nullptr;
}

Stack* CurrentStack() {
  Stack* stack = t_stack;
  if (__builtin_expect(stack == nullptr, 0)) stack = ClaimStack();
  // A forked child's stack begins anew with its ring.
  if (stack != nullptr && __builtin_expect(stack->generation != g_session.generation, 0)) {
    stack->generation = g_session.generation;
    stack->depth = stack->beyond = 0;
  }
  return stack;
}

OpenRange Describe(Stack* stack, const RangeText& text) {
  OpenRange range{};
  range.value = text.value;
  range.domain = text.domain;
  range.detail = text.detail;
  range.phase = text.phase;
  range.phase_source = text.phase_source;
  range.form = text.form;
  range.depth = stack->depth + stack->beyond;
  if (text.registered != nullptr) {
    range.name = HandleId(text.registered, schema::NameKind::kRange);
  } else if (text.ascii != nullptr || text.wide != nullptr) {
    char narrow[512];
    const char* ascii = text.ascii;
    if (ascii == nullptr) {
      FromWide(text.wide, narrow, sizeof(narrow));
      ascii = narrow;
    }
    const NameText name = Measure(ascii);
    if (range.value == 0) range.value = name.number;
    range.name = NameId(&stack->names, name, schema::NameKind::kRange);
  }
  if (text.domain != nullptr) range.domain_name = HandleId(text.domain, schema::NameKind::kDomain);
  return range;
}

void Write(const OpenRange& range, EventKind kind, uint64_t end_ticks, uint16_t flags) {
  recorder::Lane* lane = recorder::CurrentLane();
  if (lane == nullptr) return;
  static_assert(offsetof(schema::RangePayload, domain) == 4 && offsetof(schema::RangePayload, value) == 8 &&
                offsetof(schema::RangePayload, phase) == 16 && offsetof(schema::RangePayload, phase_source) == 17 &&
                offsetof(schema::RangePayload, depth) == 18 && offsetof(schema::RangePayload, detail) == 20);
  const uint32_t depth = range.depth > 255 ? 255 : range.depth;
  recorder::Commit(lane, {range.begin_ticks,
                          end_ticks,
                          recorder::PackKind(kind, flags, schema::kCommUnknown, static_cast<uint16_t>(range.form)),
                          0,
                          {range.name | uint64_t{range.domain_name} << 32, range.value,
                           static_cast<uint64_t>(range.phase) | static_cast<uint64_t>(range.phase_source) << 8 |
                               uint64_t{depth} << 16 | uint64_t{range.detail} << 32}});
  recorder::MaybeTakeClockPair(end_ticks);
}

// DeepSpeed's ranges have no try/finally: an exception leaves one open for good. Its outermost range of a step can't
// lie in itself, so what is still open from its last push on is closed.
bool IsStepsOutermost(uint32_t name) {
  static constexpr char kName[] = "DeepSpeedEngine.forward";
  if (name == 0) return false;
  const schema::NameEntry& entry = g_session.names[name - 1];
  return LoadAcquire(entry.bytes) == sizeof(kName) - 1 &&
         memcmp(g_session.name_bytes + entry.offset, kName, sizeof(kName) - 1) == 0;
}

void CloseLeftOver(Stack* stack, const OpenRange& incoming, uint64_t now) {
  for (uint32_t i = 0; i < stack->depth; ++i) {
    if (stack->open[i].name != incoming.name || stack->open[i].domain != incoming.domain) continue;
    for (uint32_t k = stack->depth; k-- > i;) {
      Write(stack->open[k], EventKind::kRange, now, schema::kFlagStopMissing);
      recorder::CountLoss(LossReason::kRangeUnbalanced);
    }
    stack->depth = i;
    stack->beyond = 0;
    return;
  }
}

// A data-loader worker inherits the library, the hook and NVTX's tables from the process that trains. It records when
// NCCL or CUDA starts the recorder in it, not for a range.
pid_t g_home = 0;         // the process that the library was loaded in
uint32_t g_is_child = 0;  // found to be another one
__attribute__((constructor)) void RememberHome() { g_home = getpid(); }

bool IsForkedChild() {
  if (LoadRelaxed(g_is_child) != 0) return true;
  if (getpid() == g_home) return false;
  StoreRelaxed(g_is_child, 1u);
  return true;
}

class KeepErrno {
 public:
  KeepErrno() : saved_(errno) {}
  ~KeepErrno() { errno = saved_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  const int saved_;
};

}  // namespace

bool Recording(schema::Door door) {
  if (__builtin_expect(!recorder::Active(), 0)) {
    const KeepErrno keep;
    if (IsForkedChild() || !recorder::Start()) return false;
  }
  const uint32_t generation = g_session.generation;
  if (__builtin_expect((LoadRelaxed(g_noted_doors) & door) == 0 || LoadRelaxed(g_noted_generation) != generation,
                       0)) {
    StoreRelaxed(g_noted_generation, generation);
    recorder::OrShared(g_noted_doors, static_cast<uint32_t>(door));
    recorder::RememberDoor(door);
    recorder::NoteRecordKinds(uint64_t{3} << static_cast<int>(EventKind::kRange));
  }
  return true;
}

int PushRange(const RangeText& text) {
  const KeepErrno keep;
  Stack* stack = CurrentStack();
  if (stack == nullptr) return -1;
  const int depth = static_cast<int>(stack->depth + stack->beyond);
  if (stack->depth == kDeepest || stack->beyond > 0) {
    stack->beyond++;
    recorder::CountLoss(LossReason::kRangeTooDeep);
    return depth;
  }
  OpenRange range = Describe(stack, text);
  if (stack->depth > 0 && IsStepsOutermost(range.name)) {
    CloseLeftOver(stack, range, recorder::ReadTicks());
    range.depth = stack->depth;
  }
  OpenRange& open = stack->open[stack->depth++];
  open = range;
  // Last, so that the look-up is not part of the range.
  open.begin_ticks = recorder::ReadTicks();
  return depth;
}

int PopRange(const Handle* domain) {
  const uint64_t now = recorder::ReadTicks();
  const KeepErrno keep;
  Stack* stack = CurrentStack();
  if (stack == nullptr) return -1;
  if (stack->beyond > 0) {
    stack->beyond--;
    return static_cast<int>(stack->depth + stack->beyond);
  }
  for (uint32_t i = stack->depth; i-- > 0;) {
    if (stack->open[i].domain != domain) continue;
    Write(stack->open[i], EventKind::kRange, now, 0);
    // Domains are stacks of their own: this one may lie below another's.
    for (uint32_t k = i; k + 1 < stack->depth; ++k) stack->open[k] = stack->open[k + 1];
    stack->depth--;
    return static_cast<int>(stack->depth);
  }
  recorder::CountLoss(LossReason::kRangeUnbalanced);
  return -1;
}

uint64_t StartRange(const RangeText& text) {
  const KeepErrno keep;
  Stack* stack = CurrentStack();
  if (stack == nullptr) return 0;
  for (uint32_t probe = 0; probe < kProbes; ++probe) {
    const uint32_t position = recorder::AddShared(g_next_started, 1u) % kOpenRanges;
    StartedRange& started = g_started[position];
    if (!recorder::CompareExchange(started.tag, uint64_t{0}, uint64_t{1})) continue;
    started.range = Describe(stack, text);
    started.range.form = schema::RangeForm::kStartEnd;
    started.range.begin_ticks = recorder::ReadTicks();
    const uint64_t id = (recorder::AddShared(g_started_ever, uint64_t{1}) + 1) << 16 | position;
    StoreRelease(started.tag, id);
    return id;
  }
  recorder::CountLoss(LossReason::kRangeTableFull);
  return 0;
}

void EndRange(uint64_t id) {
  const uint64_t now = recorder::ReadTicks();
  const KeepErrno keep;
  StartedRange& started = g_started[id & 0xffff & (kOpenRanges - 1)];
  if (id >> 16 == 0 || !recorder::CompareExchange(started.tag, id, uint64_t{1})) {
    if (id != 0) recorder::CountLoss(LossReason::kRangeUnbalanced);
    return;
  }
  const OpenRange range = started.range;
  StoreRelease(started.tag, uint64_t{0});
  Write(range, EventKind::kRange, now, 0);
}

void Mark(const RangeText& text) {
  const uint64_t now = recorder::ReadTicks();
  const KeepErrno keep;
  Stack* stack = CurrentStack();
  if (stack == nullptr) return;
  OpenRange range = Describe(stack, text);
  range.begin_ticks = now;
  Write(range, EventKind::kMark, now, 0);
}

}  // namespace rankscope::shim
