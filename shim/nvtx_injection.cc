// The door for NVTX: each shared library that carries NVTX's header (torch, NCCL, cuBLAS, Python's nvtx, ...) loads
// librankscope.so by NVTX_INJECTION64_PATH with its first NVTX call and calls InitializeInjectionNvtx2 here, once per
// library, on any thread, several at once; NCCL's and others' extended payloads come by
// InitializeInjectionNvtxExtension. Both only fill the caller's function table and always accept: a refusal would
// leave that library without NVTX for ever. The recorder is started by the first range, never here. The callbacks run
// inside the user's hot path and must never block, print or fail.
#include <stdint.h>

#include "shim/nvtx_abi.h"
#include "shim/nvtx_payload.h"
#include "shim/range_names.h"
#include "shim/range_stack.h"

namespace rankscope::shim {
namespace {

using nvtx::DomainHandle;
using nvtx::EventAttributes;
using nvtx::PayloadData;
using nvtx::RangeId;
using schema::kDoorNvtx;
using schema::RangeForm;

// The name of an NVTX range says nothing about phases here: that is decided offline.
NameInfo WithoutPhase(NameInfo name) {
  name.phase = schema::Phase::kUnknown;
  return name;
}
NameInfo NameOfAscii(RangeThread* thread, const char* text) { return WithoutPhase(NameOf(&thread->names, text)); }
__attribute__((noinline)) NameInfo NameOfWide(RangeThread* thread, const wchar_t* text) {
  char narrow[kWideTextBytes];
  NarrowText(text, narrow, sizeof(narrow));
  return NameOfAscii(thread, narrow);
}
NameInfo NameOfMessage(RangeThread* thread, const EventAttributes* event) {
  if (event == nullptr || event->size < sizeof(EventAttributes)) return {};
  switch (event->message_type) {
    case nvtx::kMessageAscii:
      return NameOfAscii(thread, event->message.ascii);
    case nvtx::kMessageUnicode:
      return NameOfWide(thread, event->message.unicode);
    case nvtx::kMessageRegistered:
      return RegisteredName(event->message.registered);
    default:
      return {};
  }
}

// Integers as they are (signed ones sign-extended), doubles and floats as the bits of a double.
RangeExtra ExtraOf(uint32_t domain, const EventAttributes* event) {
  RangeExtra extra;
  if (event == nullptr || event->size < sizeof(EventAttributes)) return extra;
  switch (event->payload_type) {
    case nvtx::kPayloadUint64:
    case nvtx::kPayloadInt64:
    case nvtx::kPayloadDouble:
      extra.value = event->payload.u64;
      break;
    case nvtx::kPayloadUint32:
      extra.value = event->payload.u32;
      break;
    case nvtx::kPayloadInt32:
      extra.value = static_cast<uint64_t>(int64_t{event->payload.i32});
      break;
    case nvtx::kPayloadFloat:
      extra.value = __builtin_bit_cast(uint64_t, static_cast<double>(event->payload.f32));
      break;
    case nvtx::kPayloadExtended:
      if (event->payload_count <= 0) break;
      return ReadPayloads(domain, reinterpret_cast<const PayloadData*>(event->payload.u64),
                          static_cast<size_t>(event->payload_count));
    default:
      break;
  }
  return extra;
}

int Push(uint32_t domain, const EventAttributes* event) {
  RangeThread* thread = RangeThreadFor(kDoorNvtx);
  if (thread == nullptr) return nvtx::kNoPushPopTracking;
  return PushRange(thread, domain, NameOfMessage(thread, event), ExtraOf(domain, event), RangeForm::kPushPop);
}
RangeId Start(uint32_t domain, const EventAttributes* event) {
  RangeThread* thread = RangeThreadFor(kDoorNvtx);
  if (thread == nullptr) return 0;
  return StartRange(thread, domain, NameOfMessage(thread, event), ExtraOf(domain, event));
}
void Mark(uint32_t domain, const EventAttributes* event) {
  RangeThread* thread = RangeThreadFor(kDoorNvtx);
  if (thread == nullptr) return;
  MarkInstant(thread, domain, NameOfMessage(thread, event), ExtraOf(domain, event), RangeForm::kPushPop);
}

// ---- The callbacks, by NVTX's names.
void MarkEx(const EventAttributes* event) { Mark(kDomainDefault, event); }
void MarkA(const char* text) {
  if (RangeThread* thread = RangeThreadFor(kDoorNvtx)) {
    MarkInstant(thread, kDomainDefault, NameOfAscii(thread, text), {}, RangeForm::kPushPop);
  }
}
void MarkW(const wchar_t* text) {
  if (RangeThread* thread = RangeThreadFor(kDoorNvtx)) {
    MarkInstant(thread, kDomainDefault, NameOfWide(thread, text), {}, RangeForm::kPushPop);
  }
}
RangeId RangeStartEx(const EventAttributes* event) { return Start(kDomainDefault, event); }
RangeId RangeStartA(const char* text) {
  RangeThread* thread = RangeThreadFor(kDoorNvtx);
  return thread == nullptr ? 0 : StartRange(thread, kDomainDefault, NameOfAscii(thread, text), {});
}
RangeId RangeStartW(const wchar_t* text) {
  RangeThread* thread = RangeThreadFor(kDoorNvtx);
  return thread == nullptr ? 0 : StartRange(thread, kDomainDefault, NameOfWide(thread, text), {});
}
void RangeEnd(RangeId id) { EndRange(id, {}); }
int RangePushEx(const EventAttributes* event) { return Push(kDomainDefault, event); }
int RangePushA(const char* text) {
  RangeThread* thread = RangeThreadFor(kDoorNvtx);
  if (thread == nullptr) return nvtx::kNoPushPopTracking;
  return PushRange(thread, kDomainDefault, NameOfAscii(thread, text), {}, RangeForm::kPushPop);
}
int RangePushW(const wchar_t* text) {
  RangeThread* thread = RangeThreadFor(kDoorNvtx);
  if (thread == nullptr) return nvtx::kNoPushPopTracking;
  return PushRange(thread, kDomainDefault, NameOfWide(thread, text), {}, RangeForm::kPushPop);
}
int RangePop() { return PopRange(kDomainDefault, {}); }

void DomainMarkEx(DomainHandle domain, const EventAttributes* event) { Mark(DomainFromHandle(domain), event); }
RangeId DomainRangeStartEx(DomainHandle domain, const EventAttributes* event) {
  return Start(DomainFromHandle(domain), event);
}
void DomainRangeEnd(DomainHandle, RangeId id) { EndRange(id, {}); }
int DomainRangePushEx(DomainHandle domain, const EventAttributes* event) {
  return Push(DomainFromHandle(domain), event);
}
int DomainRangePop(DomainHandle domain) { return PopRange(DomainFromHandle(domain), {}); }
// A string registered with one domain and used in another has the same text: one table serves all domains.
nvtx::StringHandle DomainRegisterStringA(DomainHandle, const char* text) { return RegisterString(text); }
nvtx::StringHandle DomainRegisterStringW(DomainHandle, const wchar_t* text) {
  char narrow[kWideTextBytes];
  NarrowText(text, narrow, sizeof(narrow));
  return RegisterString(narrow);
}
DomainHandle DomainCreateA(const char* name) { return DomainHandleOf(DomainNamed(name)); }
DomainHandle DomainCreateW(const wchar_t* name) {
  char narrow[kWideTextBytes];
  NarrowText(name, narrow, sizeof(narrow));
  return DomainHandleOf(DomainNamed(narrow));
}
void DomainDestroy(DomainHandle) {}  // kept: ranges of it may be open on other threads, and it may be created again

// ---- The payload extension's.
uint64_t PayloadSchemaRegister(DomainHandle domain, const nvtx::SchemaAttributes* schema) {
  return RegisterSchema(DomainFromHandle(domain), schema);
}
void PayloadMark(DomainHandle handle, const PayloadData* payloads, size_t count) {
  const uint32_t domain = DomainFromHandle(handle);
  if (RangeThread* thread = RangeThreadFor(kDoorNvtx)) {
    MarkInstant(thread, domain, SchemaName(domain, payloads, count), ReadPayloads(domain, payloads, count),
                RangeForm::kPushPop);
  }
}
int PayloadRangePush(DomainHandle handle, const PayloadData* payloads, size_t count) {
  const uint32_t domain = DomainFromHandle(handle);
  RangeThread* thread = RangeThreadFor(kDoorNvtx);
  if (thread == nullptr) return nvtx::kNoPushPopTracking;
  return PushRange(thread, domain, SchemaName(domain, payloads, count), ReadPayloads(domain, payloads, count),
                   RangeForm::kPushPop);
}
int PayloadRangePop(DomainHandle handle, const PayloadData* payloads, size_t count) {
  const uint32_t domain = DomainFromHandle(handle);
  return PopRange(domain, ReadPayloads(domain, payloads, count));
}
RangeId PayloadRangeStart(DomainHandle handle, const PayloadData* payloads, size_t count) {
  const uint32_t domain = DomainFromHandle(handle);
  RangeThread* thread = RangeThreadFor(kDoorNvtx);
  if (thread == nullptr) return 0;
  return StartRange(thread, domain, SchemaName(domain, payloads, count), ReadPayloads(domain, payloads, count));
}
void PayloadRangeEnd(DomainHandle handle, RangeId id, const PayloadData* payloads, size_t count) {
  EndRange(id, ReadPayloads(DomainFromHandle(handle), payloads, count));
}

// ---- Filling the tables.
struct Callback {
  uint32_t call;
  nvtx::FunctionPointer function;
};
template <typename Function>
nvtx::FunctionPointer Erased(Function* function) {
  return reinterpret_cast<nvtx::FunctionPointer>(function);
}

template <size_t kCount>
void FillTable(const nvtx::ExportTableCallbacks& callbacks, nvtx::Module module, const Callback (&ours)[kCount]) {
  nvtx::FunctionTable table = nullptr;
  unsigned int entries = 0;
  if (callbacks.get_module_function_table(module, &table, &entries) == 0 || table == nullptr) return;
  for (const Callback& callback : ours) {
    // An older library has fewer calls.
    if (callback.call < entries && table[callback.call] != nullptr) *table[callback.call] = callback.function;
  }
}

void FillSlot(const nvtx::ExtensionSegment& segment, uint32_t call, nvtx::FunctionPointer function) {
  if (call < segment.slot_count) segment.slots[call] = reinterpret_cast<intptr_t>(function);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    nvtx::GetExportTable get_export_table) {
  if (get_export_table == nullptr) return 1;
  const auto* callbacks = static_cast<const nvtx::ExportTableCallbacks*>(get_export_table(nvtx::kExportCallbacks));
  if (callbacks == nullptr || callbacks->struct_bytes < sizeof(*callbacks)) return 1;
  const Callback core[] = {
      {nvtx::kCoreMarkEx, Erased(MarkEx)},
      {nvtx::kCoreMarkA, Erased(MarkA)},
      {nvtx::kCoreMarkW, Erased(MarkW)},
      {nvtx::kCoreRangeStartEx, Erased(RangeStartEx)},
      {nvtx::kCoreRangeStartA, Erased(RangeStartA)},
      {nvtx::kCoreRangeStartW, Erased(RangeStartW)},
      {nvtx::kCoreRangeEnd, Erased(RangeEnd)},
      {nvtx::kCoreRangePushEx, Erased(RangePushEx)},
      {nvtx::kCoreRangePushA, Erased(RangePushA)},
      {nvtx::kCoreRangePushW, Erased(RangePushW)},
      {nvtx::kCoreRangePop, Erased(RangePop)},
  };
  const Callback core2[] = {
      {nvtx::kCore2DomainMarkEx, Erased(DomainMarkEx)},
      {nvtx::kCore2DomainRangeStartEx, Erased(DomainRangeStartEx)},
      {nvtx::kCore2DomainRangeEnd, Erased(DomainRangeEnd)},
      {nvtx::kCore2DomainRangePushEx, Erased(DomainRangePushEx)},
      {nvtx::kCore2DomainRangePop, Erased(DomainRangePop)},
      {nvtx::kCore2DomainRegisterStringA, Erased(DomainRegisterStringA)},
      {nvtx::kCore2DomainRegisterStringW, Erased(DomainRegisterStringW)},
      {nvtx::kCore2DomainCreateA, Erased(DomainCreateA)},
      {nvtx::kCore2DomainCreateW, Erased(DomainCreateW)},
      {nvtx::kCore2DomainDestroy, Erased(DomainDestroy)},
  };
  FillTable(*callbacks, nvtx::kModuleCore, core);
  FillTable(*callbacks, nvtx::kModuleCore2, core2);
  return 1;
}

// Without it, NCCL 2.25 and later would push by the core call and pop by the extension's, which would be nobody's.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(
    nvtx::ExtensionModule* module) {
  if (module == nullptr || module->module_id != nvtx::kExtensionPayload || module->segment_count == 0 ||
      module->segments == nullptr || module->segments[0].slots == nullptr) {
    return 1;  // accepted, and all of its calls do nothing
  }
  const nvtx::ExtensionSegment& segment = module->segments[0];
  FillSlot(segment, nvtx::kPayloadSchemaRegister, Erased(PayloadSchemaRegister));
  FillSlot(segment, nvtx::kPayloadMark, Erased(PayloadMark));
  FillSlot(segment, nvtx::kPayloadRangePush, Erased(PayloadRangePush));
  FillSlot(segment, nvtx::kPayloadRangePop, Erased(PayloadRangePop));
  FillSlot(segment, nvtx::kPayloadRangeStart, Erased(PayloadRangeStart));
  FillSlot(segment, nvtx::kPayloadRangeEnd, Erased(PayloadRangeEnd));
  return 1;
}

}  // namespace rankscope::shim
