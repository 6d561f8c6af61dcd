// A stand-in for libcupti that behaves as the real one where it hurts: it owns buffers until it returns them, fills
// records in at launch and completes them later in place, holds a lock while it asks for a buffer, delivers from its
// own thread, drops, refuses, and is taken over by another client. What a guest must never do ends the process with a
// sentence: the test fails. Which release it is: FAKE_RELEASE. What a test tells it: fake_cupti.h.
#include "tests/fakes/cupti/fake_cupti.h"

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/cupti/fake_records.h"

namespace {

constexpr int kOk = 0, kBadParameter = 1, kEndOfBuffer = 12, kBadKind = 21, kSlotTaken = 39;
constexpr uint32_t kVersion = FAKE_RELEASE == 1108 ? 18 : FAKE_RELEASE == 1204 ? 22 : 130001;

using Request = void (*)(uint8_t**, size_t*, size_t*);
using Complete = void (*)(void*, uint32_t, uint8_t*, size_t, size_t);

[[noreturn]] void Violation(const char* what) {
  std::fprintf(stderr, "fake CUPTI: %s\n", what);
  std::fflush(stderr);
  std::abort();
}

struct Pending {  // a record that was launched
  size_t buffer;
  size_t offset;
  uint32_t kind;
  bool complete;
};
struct Buffer {
  uint8_t* data;
  size_t size, used = 0;
  std::vector<uint8_t> shadow;  // what we wrote: nobody else may write there
  size_t incomplete = 0;
  bool open = true;  // takes more records
  std::thread::id owner;
};

struct State {
  std::mutex lock;
  std::map<size_t, Buffer> buffers;
  size_t next_buffer = 1;
  std::map<uint64_t, Pending> records;
  uint64_t next_record = 1;
  std::set<uint8_t*> lent;
  Request request = nullptr;
  Complete complete = nullptr;
  uint64_t (*timestamp)() = nullptr;
  int timestamp_registrations = 0;
  uint64_t kinds = 0;
  uint8_t per_thread = FAKE_RELEASE >= 1300 ? 1 : 0;
  std::map<std::string, std::pair<int, int>> failures;  // code, times
  std::map<std::string, uint64_t> calls;
  std::string holder;
  void* subscriber = nullptr;
  uint64_t dropped = 0;
  std::atomic<int64_t> jump_ns{0};
  uint32_t version = kVersion;
  uint64_t others = 0;
  bool others_finalize = false;
};
State& S() {
  static auto* state = new State;  // never destroyed: calls come until the process is gone
  return *state;
}

thread_local bool t_in_request = false;
thread_local bool t_in_complete = false;

// Counts a call, refuses what may not be called now, and says which code to fail with.
int Enter(const char* function, bool allowed_in_complete = false) {
  if (t_in_request) Violation("a call from inside the request callback");
  if (t_in_complete && !allowed_in_complete) Violation("a call from inside the complete callback");
  State& s = S();
  const std::lock_guard<std::mutex> guard(s.lock);
  s.calls[function]++;
  const auto failure = s.failures.find(function);
  if (failure == s.failures.end() || failure->second.second == 0) return kOk;
  failure->second.second--;
  return failure->second.first;
}

uint64_t NowNs() {
  State& s = S();
  if (s.timestamp != nullptr) return s.timestamp() + static_cast<uint64_t>(s.jump_ns.load());
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec) +
         static_cast<uint64_t>(s.jump_ns.load());
}

// The other client's callbacks: buffers of its own, contents counted.
void OthersRequest(uint8_t** buffer, size_t* size, size_t* most) {
  *size = 1 << 16;
  *buffer = static_cast<uint8_t*>(aligned_alloc(64, *size));
  *most = 0;
}
void OthersComplete(void*, uint32_t, uint8_t*, size_t, size_t valid) { S().others += valid; }

// Under s.lock, as the real one holds a lock of its own there.
size_t BufferForLaunch(State& s, size_t bytes) {
  for (auto& [id, buffer] : s.buffers) {
    if (!buffer.open || (s.per_thread != 0 && buffer.owner != std::this_thread::get_id())) continue;
    if (buffer.size - buffer.used >= bytes) return id;
    buffer.open = false;
  }
  if (s.request == nullptr) return 0;
  uint8_t* data = nullptr;
  size_t size = 0, most = 0;
  t_in_request = true;
  s.request(&data, &size, &most);
  t_in_request = false;
  if (data == nullptr) {
    if (s.version < 27) Violation("a NULL buffer, which crashes before 12.9");
    return 0;
  }
  if (reinterpret_cast<uintptr_t>(data) % 8 != 0 || size < 4096)
    Violation("a buffer that is too small or not aligned");
  if (!s.lent.insert(data).second) {
    if (s.version < 27) return 0;  // the memory that nobody reads
    Violation("a buffer that CUPTI already has");
  }
  const size_t id = s.next_buffer++;
  Buffer buffer;
  buffer.data = data;
  buffer.size = size;
  buffer.owner = std::this_thread::get_id();
  memset(data, 0, size);
  buffer.shadow.assign(size, 0);
  s.buffers.emplace(id, std::move(buffer));
  return id;
}

struct Return {
  uint8_t* data;
  size_t size, used;
  Complete complete;
};

// Takes the buffers that may go, out of our hands.
std::vector<Return> Collect(bool only_full, bool forced) {
  State& s = S();
  const std::lock_guard<std::mutex> guard(s.lock);
  std::vector<Return> out;
  for (auto it = s.buffers.begin(); it != s.buffers.end();) {
    Buffer& buffer = it->second;
    const bool wanted = forced || (buffer.incomplete == 0 && (!only_full || !buffer.open));
    if (!wanted) {
      ++it;
      continue;
    }
    if (memcmp(buffer.data, buffer.shadow.data(), buffer.used) != 0)
      Violation("somebody wrote into a buffer that CUPTI owned");
    for (auto& [id, record] : s.records) {
      if (record.buffer == it->first) record.buffer = 0;  // consumed; a later end goes nowhere
    }
    out.push_back({buffer.data, buffer.size, buffer.used, s.complete});
    s.lent.erase(buffer.data);
    it = s.buffers.erase(it);
  }
  return out;
}

void Deliver(const std::vector<Return>& returns) {
  for (const Return& r : returns) {
    if (r.complete == nullptr) continue;
    t_in_complete = true;
    r.complete(nullptr, 0, r.data, r.size, r.used);
    t_in_complete = false;
  }
}

template <typename T>
void Append(State& s, size_t id, T& record) {
  Buffer& buffer = s.buffers.at(id);
  memcpy(buffer.data + buffer.used, &record, sizeof(T));
  memcpy(buffer.shadow.data() + buffer.used, &record, sizeof(T));
  buffer.used += sizeof(T);
}

template <typename T>
T Begin(const FakeActivity& a) {
  T record;
  memset(static_cast<void*>(&record), 0, sizeof(T));
  record.kind = a.kind;
  record.correlation = a.correlation;
  return record;
}

bool Write(State& s, const FakeActivity& a, size_t id) {
  switch (a.kind) {
    case 3:
    case 10: {
      auto r = Begin<FakeKernel>(a);
      r.device = a.device, r.context = a.context, r.stream = a.stream, r.name = a.name;
      r.grid_x = static_cast<int32_t>(a.grid[0]), r.grid_y = static_cast<int32_t>(a.grid[1]),
      r.grid_z = static_cast<int32_t>(a.grid[2]);
      r.block_x = static_cast<int32_t>(a.block[0]), r.block_y = static_cast<int32_t>(a.block[1]),
      r.block_z = static_cast<int32_t>(a.block[2]);
      r.graph_node = a.graph_node, r.graph = a.graph;
      Append(s, id, r);
      return true;
    }
    case 1: {
      auto r = Begin<FakeMemcpy>(a);
      r.device = a.device, r.context = a.context, r.stream = a.stream, r.bytes = a.bytes, r.flags = 1;
      r.copy_kind = static_cast<uint8_t>(a.copy_kind), r.source_kind = static_cast<uint8_t>(a.source_kind),
      r.destination_kind = static_cast<uint8_t>(a.destination_kind);
      r.graph_node = a.graph_node, r.graph = a.graph;
#if FAKE_RELEASE >= 1300
      r.copy_count = a.copy_count;
#endif
      Append(s, id, r);
      return true;
    }
    case 22: {
      auto r = Begin<FakePeerCopy>(a);
      r.device = a.device, r.context = a.context, r.stream = a.stream, r.bytes = a.bytes;
      r.copy_kind = static_cast<uint8_t>(a.copy_kind), r.source_device = a.device,
      r.destination_device = a.peer_device;
      Append(s, id, r);
      return true;
    }
    case 2: {
      auto r = Begin<FakeMemset>(a);
      r.device = a.device, r.context = a.context, r.stream = a.stream, r.bytes = a.bytes;
      r.memory_kind = static_cast<uint16_t>(a.destination_kind);
      Append(s, id, r);
      return true;
    }
    case 38: {
      auto r = Begin<FakeSynchronization>(a);
      r.context = a.context, r.stream = a.stream, r.type = a.type;
      Append(s, id, r);
      return true;
    }
    case 17: {
      FakeOverhead r;
      memset(static_cast<void*>(&r), 0, sizeof(r));
      r.kind = a.kind, r.overhead_kind = a.type;
#if FAKE_RELEASE >= 1204
      r.correlation = a.correlation;
      r.data = std::malloc(64);  // the client's to free: LeakSanitizer tells
#endif
      Append(s, id, r);
      return true;
    }
    case 49: {
      auto r = Begin<FakeMemory>(a);
      r.device = a.device, r.context = a.context, r.stream = a.stream, r.bytes = a.bytes, r.address = a.address;
      r.operation = a.type, r.memory_kind = a.destination_kind;
      Append(s, id, r);
      return true;
    }
    case 50: {
      auto r = Begin<FakePool>(a);
      r.device = a.device, r.size = a.bytes, r.operation = a.type;
      Append(s, id, r);
      return true;
    }
    case 4:
    case 5: {
      auto r = Begin<FakeApi>(a);
      r.callback = a.type, r.thread = static_cast<uint32_t>(pthread_self());
      Append(s, id, r);
      return true;
    }
    case 51: {
      auto r = Begin<FakeGraphTrace>(a);
      r.device = a.device, r.context = a.context, r.stream = a.stream, r.graph = a.graph;
      Append(s, id, r);
      return true;
    }
    default:
      return false;
  }
}

struct TimeFields {
  size_t start, end;
};
TimeFields TimesOf(uint32_t kind) {
  switch (kind) {
    case 3:
    case 10:
      return {offsetof(FakeKernel, start), offsetof(FakeKernel, end)};
    case 1:
      return {offsetof(FakeMemcpy, start), offsetof(FakeMemcpy, end)};
    case 22:
      return {offsetof(FakePeerCopy, start), offsetof(FakePeerCopy, end)};
    case 2:
      return {offsetof(FakeMemset, start), offsetof(FakeMemset, end)};
    case 38:
      return {offsetof(FakeSynchronization, start), offsetof(FakeSynchronization, end)};
    case 17:
      return {offsetof(FakeOverhead, start), offsetof(FakeOverhead, end)};
    case 49:
      return {offsetof(FakeMemory, timestamp), offsetof(FakeMemory, timestamp)};
    case 50:
      return {offsetof(FakePool, timestamp), offsetof(FakePool, timestamp)};
    case 4:
    case 5:
      return {offsetof(FakeApi, start), offsetof(FakeApi, end)};
    default:
      return {offsetof(FakeGraphTrace, start), offsetof(FakeGraphTrace, end)};
  }
}

uint64_t Launch(const FakeActivity* activity) {
  State& s = S();
  const std::lock_guard<std::mutex> guard(s.lock);
  if (activity->kind >= 64 || (s.kinds >> activity->kind & 1) == 0) return 0;
  const size_t id = BufferForLaunch(s, FakeStride(activity->kind));
  if (id == 0) {
    s.dropped++;
    return 0;
  }
  const size_t offset = s.buffers.at(id).used;
  if (!Write(s, *activity, id)) return 0;
  s.buffers.at(id).incomplete++;
  s.records[s.next_record] = {id, offset, activity->kind, false};
  return s.next_record++;
}

void CompleteRecord(uint64_t id, uint64_t start_ns, uint64_t end_ns) {
  State& s = S();
  const std::lock_guard<std::mutex> guard(s.lock);
  const auto it = s.records.find(id);
  if (it == s.records.end()) return;
  const Pending record = it->second;
  s.records.erase(it);
  if (record.buffer == 0) return;
  Buffer& buffer = s.buffers.at(record.buffer);
  const TimeFields times = TimesOf(record.kind);
  for (uint8_t* to : {buffer.data, buffer.shadow.data()}) {
    memcpy(to + record.offset + times.start, &start_ns, 8);
    memcpy(to + record.offset + times.end, &end_ns, 8);
  }
  buffer.incomplete--;
}

void Raw(const void* bytes, uint64_t size) {
  State& s = S();
  const std::lock_guard<std::mutex> guard(s.lock);
  const size_t id = BufferForLaunch(s, size);
  if (id == 0) return;
  Buffer& buffer = s.buffers.at(id);
  memcpy(buffer.data + buffer.used, bytes, size);
  memcpy(buffer.shadow.data() + buffer.used, bytes, size);
  buffer.used += size;
}

void WorkerFlush() {
  std::thread([] { Deliver(Collect(true, false)); }).join();
}
void Fail(const char* function, int code, int times) {
  const std::lock_guard<std::mutex> guard(S().lock);
  S().failures[function] = {code, times};
}
void Drop(uint64_t records) {
  const std::lock_guard<std::mutex> guard(S().lock);
  S().dropped += records;
}
void ClockJump(int64_t ns) { S().jump_ns += ns; }
void SetVersion(uint32_t version) { S().version = version; }
void HoldSlot(const char* name) {
  const std::lock_guard<std::mutex> guard(S().lock);
  S().holder = name;
}
void TakeOver() {
  State& s = S();
  const std::lock_guard<std::mutex> guard(s.lock);
  s.request = OthersRequest;
  s.complete = OthersComplete;
  for (auto& [id, buffer] : s.buffers) buffer.open = false;
}
void Leave() {
  State& s = S();
  const std::lock_guard<std::mutex> guard(s.lock);
  s.kinds = 0;
  for (auto& [id, buffer] : s.buffers) buffer.open = false;  // its last flush took them
}
void OthersClock(uint64_t (*clock)()) { S().timestamp = clock; }
void AllowFinalize() { S().others_finalize = true; }
uint64_t TakenOver() { return S().others; }
uint64_t CallsOf(const char* function) {
  const std::lock_guard<std::mutex> guard(S().lock);
  return S().calls[function];
}
uint64_t EnabledKinds() {
  const std::lock_guard<std::mutex> guard(S().lock);
  return S().kinds;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT FakeCuptiApi fake_cupti_api() {
  return {NowNs,    Launch, CompleteRecord, WorkerFlush,   Fail,      Drop,    ClockJump,    SetVersion, HoldSlot,
          TakeOver, Leave,  OthersClock,    AllowFinalize, TakenOver, CallsOf, EnabledKinds, Raw};
}

EXPORT int cuptiGetVersion(uint32_t* version) {
  if (const int code = Enter("cuptiGetVersion")) return code;
  *version = S().version;
  return kOk;
}
EXPORT int cuptiGetResultString(int, const char** text) {
  *text = "CUPTI_ERROR_BY_THE_FAKE";
  return kOk;
}
EXPORT int cuptiSubscribe(void** subscriber, void*, void*) {
  if (const int code = Enter("cuptiSubscribe")) return code;
  State& s = S();
  const std::lock_guard<std::mutex> guard(s.lock);
  if (!s.holder.empty() || s.subscriber != nullptr) return kSlotTaken;
  *subscriber = s.subscriber = &s;
  return kOk;
}
#if FAKE_RELEASE >= 1300
struct FakeSubscriberParams {
  size_t struct_size;
  const char* name;
  char* old_name;
  size_t old_name_size;
};
EXPORT int cuptiSubscribe_v2(void** subscriber, void* callback, void* user, FakeSubscriberParams* params) {
  if (const int code = Enter("cuptiSubscribe_v2")) return code;
  if (S().holder.empty()) return cuptiSubscribe(subscriber, callback, user);
  std::snprintf(params->old_name, params->old_name_size, "%s", S().holder.c_str());
  return kSlotTaken;
}
EXPORT int cuptiActivityEnableAllSyncRecords(uint8_t) { return Enter("cuptiActivityEnableAllSyncRecords"); }
#endif
EXPORT int cuptiUnsubscribe(void* subscriber) {
  if (const int code = Enter("cuptiUnsubscribe")) return code;
  State& s = S();
  const std::lock_guard<std::mutex> guard(s.lock);
  if (subscriber != s.subscriber) Violation("an unsubscription of somebody else's handle");
  s.subscriber = nullptr;
  return kOk;
}
EXPORT int cuptiActivityRegisterCallbacks(Request request, Complete complete) {
  if (const int code = Enter("cuptiActivityRegisterCallbacks")) return code;
  State& s = S();
  const std::lock_guard<std::mutex> guard(s.lock);
  s.request = request;
  s.complete = complete;
  return kOk;
}
EXPORT int cuptiActivityRegisterTimestampCallback(uint64_t (*callback)()) {
  if (const int code = Enter("cuptiActivityRegisterTimestampCallback")) return code;
  State& s = S();
  if (callback == nullptr) return kBadParameter;
  if (s.kinds != 0) Violation("a timestamp callback after a kind was enabled");
  if (++s.timestamp_registrations > 1) Violation("a second timestamp callback in one process");
  s.timestamp = callback;
  return kOk;
}
EXPORT int cuptiActivityEnable(uint32_t kind) {
  if (const int code = Enter("cuptiActivityEnable")) return code;
  if (kind == 3 || kind == 45) Violation("a kind that must never be enabled");
  if (FakeStride(kind) == 0) return FAKE_RELEASE == 1108 ? 999 : kBadKind;
  State& s = S();
  const std::lock_guard<std::mutex> guard(s.lock);
  s.kinds |= uint64_t{1} << kind;
  return kOk;
}
EXPORT int cuptiActivityDisable(uint32_t kind) {
  if (const int code = Enter("cuptiActivityDisable")) return code;
  State& s = S();
  const std::lock_guard<std::mutex> guard(s.lock);
  s.kinds &= ~(uint64_t{1} << kind);
  return kOk;
}
EXPORT int cuptiActivityFlushAll(uint32_t flags) {
  if (const int code = Enter("cuptiActivityFlushAll")) return code;
  std::vector<Return> returns = Collect(false, (flags & 1) != 0);
  // Some come from this thread, some from CUPTI's own, which may be later.
  std::vector<Return> later;
  for (size_t i = 1; i < returns.size(); i += 2) later.push_back(returns[i]);
  std::vector<Return> now;
  for (size_t i = 0; i < returns.size(); i += 2) now.push_back(returns[i]);
  std::thread worker([later] { Deliver(later); });
  Deliver(now);
  worker.join();
  return kOk;
}
EXPORT int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, uint8_t** record) {
  if (const int code = Enter("cuptiActivityGetNextRecord", true)) return code;
  if (buffer == nullptr) return kBadParameter;
  uint8_t* at = buffer;
  if (*record != nullptr) {
    uint32_t kind;
    memcpy(&kind, *record, 4);
    const uint32_t stride = FakeStride(kind);
    if (stride == 0) return FAKE_RELEASE == 1108 ? 999 : kBadKind;
    at = *record + stride;
  }
  if (at + 8 > buffer + valid) return kEndOfBuffer;
  uint32_t kind;
  memcpy(&kind, at, 4);
  if (FakeStride(kind) == 0) return FAKE_RELEASE == 1108 ? 999 : kBadKind;
  *record = at;
  return kOk;
}
EXPORT int cuptiActivityGetNumDroppedRecords(void*, uint32_t, size_t* dropped) {
  if (const int code = Enter("cuptiActivityGetNumDroppedRecords")) return code;
  State& s = S();
  const std::lock_guard<std::mutex> guard(s.lock);
  *dropped = s.dropped;
  s.dropped = 0;
  return kOk;
}
EXPORT int cuptiActivityGetAttribute(uint32_t attribute, size_t* size, void* value) {
  if (const int code = Enter("cuptiActivityGetAttribute")) return code;
  const size_t numbers[] = {3200000, 0, 250, 0, 0, 0, 3};
  if (attribute == 9 && FAKE_RELEASE >= 1204) {
    if (*size != 1) return kBadParameter;
    *static_cast<uint8_t*>(value) = S().per_thread;
    return kOk;
  }
  if (attribute != 0 && attribute != 2 && attribute != 6) return kBadParameter;
  if (*size != sizeof(size_t)) return 10;
  *static_cast<size_t*>(value) = numbers[attribute];
  return kOk;
}
EXPORT int cuptiActivitySetAttribute(uint32_t attribute, size_t* size, void* value) {
  if (const int code = Enter("cuptiActivitySetAttribute")) return code;
  if (attribute != 9 || *size != 1) return kBadParameter;
  if (S().request != nullptr) Violation("the per-thread attribute after the callbacks");
  S().per_thread = *static_cast<uint8_t*>(value);
  return kOk;
}
EXPORT int cuptiGetTimestamp(uint64_t* now) {
  if (const int code = Enter("cuptiGetTimestamp")) return code;
  *now = NowNs();
  return kOk;
}
// The stream's number: its address's middle digits, so that a test can do the sum.
EXPORT int cuptiGetStreamIdEx(void*, void* stream, uint8_t, uint32_t* id) {
  if (const int code = Enter("cuptiGetStreamIdEx")) return code;
  *id = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(stream) >> 4) & 0xffff;
  return kOk;
}
// Only a process whose own code is another client may: it says so.
EXPORT int cuptiFinalize() {
  State& s = S();
  if (!s.others_finalize) Violation("cuptiFinalize");
  const std::lock_guard<std::mutex> guard(s.lock);
  s.kinds = 0;
  s.request = nullptr;
  s.complete = nullptr;
  return kOk;
}
