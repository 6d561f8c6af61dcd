// What NVTX calls when NVTX_INJECTION64_PATH names this library: once for each shared library that has NVTX's header
// in it, on whatever thread makes that library's first NVTX call, perhaps on several at once. Fills that library's
// tables with the functions below, which turn NVTX's calls into ranges. Must never: start the recorder (the first
// range does), fail in a way that would turn NVTX off for the caller, or believe a handle.
#include <string.h>

#include "recorder/config.h"
#include "recorder/session.h"
#include "shim/nvtx_abi.h"
#include "shim/ranges.h"

namespace rankscope::shim {
namespace {

using recorder::LoadAcquire;
using recorder::StoreRelaxed;
using recorder::StoreRelease;

// ---- schemas of the payload extension: where NCCL's structs keep the bytes and the communicator
// -------------------------------
constexpr uint32_t kSchemas = 256;
constexpr uint64_t kFirstOwnSchema = uint64_t{1} << 32;
struct KnownSchema {
  uint64_t id;                        // 0 = free; stored last
  int16_t bytes_offset, comm_offset;  // -1 = has none
};
KnownSchema g_schemas[kSchemas];
uint32_t g_schema_count = 0;

bool Contains(const char* text, const char* part) { return text != nullptr && strstr(text, part) != nullptr; }

// NCCL's entries are named in words ("Message size [bytes]", "NCCL communicator ID"), which have stayed from 2.16
// to 2.30.
uint64_t RegisterSchema(void*, const nvtx::Schema* schema) {
  if (schema == nullptr) return 0;
  const uint32_t index = recorder::AddShared(g_schema_count, 1u);
  const bool has_id = (schema->fields & nvtx::kSchemaHasId) != 0 && schema->id != 0;
  const uint64_t id = has_id ? schema->id : kFirstOwnSchema + index;
  if (index >= kSchemas) {
    StoreRelaxed(g_schema_count, kSchemas);
    return id;
  }
  KnownSchema& known = g_schemas[index];
  known.bytes_offset = known.comm_offset = -1;
  for (size_t i = 0; schema->entries != nullptr && i < schema->entry_count && i < 64; ++i) {
    const nvtx::SchemaEntry& entry = schema->entries[i];
    if (entry.offset > 0x7f00) continue;
    if (Contains(entry.name, "essage size")) known.bytes_offset = static_cast<int16_t>(entry.offset);
    if (Contains(entry.name, "ommunicator ID") && known.comm_offset < 0)
      known.comm_offset = static_cast<int16_t>(entry.offset);
  }
  StoreRelease(known.id, id);
  return id;
}

uint64_t ReadWord(const nvtx::PayloadData& payload, int16_t offset) {
  uint64_t word = 0;
  if (offset >= 0 && payload.data != nullptr && static_cast<size_t>(offset) + 8 <= payload.bytes)
    memcpy(&word, static_cast<const char*>(payload.data) + offset, 8);
  return word;
}

void ReadExtendedPayload(const nvtx::Attributes& attributes, RangeText* text) {
  const auto* payloads = reinterpret_cast<const nvtx::PayloadData*>(attributes.payload.unsigned64);
  if (payloads == nullptr || attributes.reserved0 < 1) return;
  for (const KnownSchema& known : g_schemas) {
    const uint64_t id = LoadAcquire(known.id);
    if (id == 0) return;
    if (id != payloads[0].schema) continue;
    text->value = ReadWord(payloads[0], known.bytes_offset);
    text->detail = static_cast<uint32_t>(ReadWord(payloads[0], known.comm_offset));
    return;
  }
}

// ---- NVTX's calls
// ---------------------------------------------------------------------------------------------------------
bool On() { return Recording(schema::kDoorNvtx); }

Handle* Domain(void* domain) { return IsDomain(domain) ? static_cast<Handle*>(domain) : nullptr; }

RangeText FromAttributes(void* domain, const nvtx::Attributes* attributes) {
  RangeText text;
  text.domain = Domain(domain);
  if (attributes == nullptr || attributes->size < nvtx::kLeastAttributes) return text;
  switch (attributes->message_type) {
    case nvtx::kAscii:
      text.ascii = attributes->message.ascii;
      break;
    case nvtx::kUnicode:
      text.wide = attributes->message.unicode;
      break;
    case nvtx::kRegistered:
      if (IsString(attributes->message.registered))
        text.registered = static_cast<Handle*>(attributes->message.registered);
      break;
    default:
      break;
  }
  switch (attributes->payload_type) {
    case nvtx::kUnsigned64:
    case nvtx::kSigned64:
      text.value = attributes->payload.unsigned64;
      break;
    case nvtx::kUnsigned32:
    case nvtx::kSigned32:
      text.value = attributes->payload.unsigned32;
      break;
    case nvtx::kExtendedPayload:
      ReadExtendedPayload(*attributes, &text);
      break;
    default:
      break;  // floating point: no use for it
  }
  return text;
}
RangeText Ascii(const char* message) {
  RangeText text;
  text.ascii = message;
  return text;
}
RangeText Wide(const wchar_t* message) {
  RangeText text;
  text.wide = message;
  return text;
}

void MarkEx(const nvtx::Attributes* a) {
  if (On()) Mark(FromAttributes(nullptr, a));
}
void MarkA(const char* m) {
  if (On()) Mark(Ascii(m));
}
void MarkW(const wchar_t* m) {
  if (On()) Mark(Wide(m));
}
uint64_t StartEx(const nvtx::Attributes* a) { return On() ? StartRange(FromAttributes(nullptr, a)) : 0; }
uint64_t StartA(const char* m) { return On() ? StartRange(Ascii(m)) : 0; }
uint64_t StartW(const wchar_t* m) { return On() ? StartRange(Wide(m)) : 0; }
void End(uint64_t id) {
  if (On()) EndRange(id);
}
int PushEx(const nvtx::Attributes* a) { return On() ? PushRange(FromAttributes(nullptr, a)) : -1; }
int PushA(const char* m) { return On() ? PushRange(Ascii(m)) : -1; }
int PushW(const wchar_t* m) { return On() ? PushRange(Wide(m)) : -1; }
int Pop() { return On() ? PopRange(nullptr) : -1; }

void DomainMarkEx(void* d, const nvtx::Attributes* a) {
  if (On()) Mark(FromAttributes(d, a));
}
uint64_t DomainStartEx(void* d, const nvtx::Attributes* a) { return On() ? StartRange(FromAttributes(d, a)) : 0; }
void DomainEnd(void*, uint64_t id) {
  if (On()) EndRange(id);
}
int DomainPushEx(void* d, const nvtx::Attributes* a) { return On() ? PushRange(FromAttributes(d, a)) : -1; }
int DomainPop(void* d) { return On() ? PopRange(Domain(d)) : -1; }
void* RegisterStringA(void*, const char* m) { return NewString(m); }
void* RegisterStringW(void*, const wchar_t* m) {
  char narrow[512] = {};
  if (m != nullptr) FromWide(m, narrow, sizeof(narrow));
  return NewString(narrow);
}
void* CreateDomainA(const char* m) { return NewDomain(m); }
void* CreateDomainW(const wchar_t* m) {
  char narrow[512] = {};
  if (m != nullptr) FromWide(m, narrow, sizeof(narrow));
  return NewDomain(narrow);
}

struct Entry {
  uint32_t call;
  nvtx::Function function;
};
template <typename F>
nvtx::Function As(F* function) {
  return reinterpret_cast<nvtx::Function>(function);
}

void Fill(const nvtx::CallbackTable* table, uint32_t module, const Entry* entries, size_t count) {
  nvtx::Function** slots = nullptr;
  unsigned size = 0;
  if (table->module_functions(module, &slots, &size) == 0 || slots == nullptr) return;
  for (size_t i = 0; i < count; ++i) {
    if (entries[i].call < size && slots[entries[i].call] != nullptr) *slots[entries[i].call] = entries[i].function;
  }
}

// Off means that the caller's NVTX stays as if no tool were there, at the price of a call that does nothing.
bool SwitchedOff() {
  const char* disable = recorder::SettingValue("DISABLE");
  return disable != nullptr && disable[0] != '\0' && strcmp(disable, "0") != 0;
}

}  // namespace
}  // namespace rankscope::shim

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    rankscope::shim::nvtx::GetExportTable get_table) {
  using namespace rankscope::shim;
  if (get_table == nullptr) return 0;
  if (SwitchedOff()) return 1;
  const auto* table = static_cast<const nvtx::CallbackTable*>(get_table(nvtx::kTableCallbacks));
  if (table == nullptr || table->struct_bytes < sizeof(nvtx::CallbackTable) || table->module_functions == nullptr)
    return 0;
  const Entry core[] = {
      {nvtx::kMarkEx, As(MarkEx)},        {nvtx::kMarkA, As(MarkA)},        {nvtx::kMarkW, As(MarkW)},
      {nvtx::kRangeStartEx, As(StartEx)}, {nvtx::kRangeStartA, As(StartA)}, {nvtx::kRangeStartW, As(StartW)},
      {nvtx::kRangeEnd, As(End)},         {nvtx::kRangePushEx, As(PushEx)}, {nvtx::kRangePushA, As(PushA)},
      {nvtx::kRangePushW, As(PushW)},     {nvtx::kRangePop, As(Pop)}};
  const Entry core2[] = {{nvtx::kDomainMarkEx, As(DomainMarkEx)},
                         {nvtx::kDomainRangeStartEx, As(DomainStartEx)},
                         {nvtx::kDomainRangeEnd, As(DomainEnd)},
                         {nvtx::kDomainRangePushEx, As(DomainPushEx)},
                         {nvtx::kDomainRangePop, As(DomainPop)},
                         {nvtx::kDomainRegisterStringA, As(RegisterStringA)},
                         {nvtx::kDomainRegisterStringW, As(RegisterStringW)},
                         {nvtx::kDomainCreateA, As(CreateDomainA)},
                         {nvtx::kDomainCreateW, As(CreateDomainW)}};
  Fill(table, nvtx::kCore, core, sizeof(core) / sizeof(core[0]));
  Fill(table, nvtx::kCore2, core2, sizeof(core2) / sizeof(core2[0]));
  return 1;
}

// The payload extension has an initialisation of its own, once for each library that uses it.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(
    rankscope::shim::nvtx::ExtensionModule* module) {
  using namespace rankscope::shim;
  if (module == nullptr || module->struct_bytes < sizeof(nvtx::ExtensionModule)) return 0;
  if (module->module != nvtx::kPayloadModule || SwitchedOff()) return 1;
  if (module->segment_count < 1 || module->segments == nullptr || module->segments[0].functions == nullptr ||
      module->segments[0].slots <= nvtx::kSchemaRegisterSlot)
    return 0;
  module->segments[0].functions[nvtx::kSchemaRegisterSlot] = reinterpret_cast<intptr_t>(RegisterSchema);
  return 1;
}
