// See range_names.h.
#include "shim/range_names.h"

#include <stdlib.h>
#include <string.h>

#include "recorder/session.h"

namespace rankscope::shim {
namespace {

using recorder::g_session;
using recorder::LoadAcquire;
using recorder::LoadRelaxed;
using recorder::StoreRelaxed;
using recorder::StoreRelease;

constexpr size_t kLongestName = 1024;
constexpr uint32_t kDomains = 256;
constexpr uint32_t kStrings = 8192;

Handle g_domains[kDomains];
Handle g_strings[kStrings];
uint32_t g_domain_count = 0;
uint32_t g_string_count = 0;

bool Holds(uint32_t id, const NameText& name) {
  if (id == 0 || id > g_session.name_capacity) return false;
  const schema::NameEntry& entry = g_session.names[id - 1];
  return LoadAcquire(entry.bytes) == name.bytes &&
         memcmp(g_session.name_bytes + entry.offset, name.text, name.bytes) == 0;
}

uint32_t PositionOf(const NameText& name) {
  uint64_t first = 0, last = 0;
  const size_t bytes = name.bytes < 8 ? name.bytes : 8;
  memcpy(&first, name.text, bytes);
  memcpy(&last, name.text + name.bytes - bytes, bytes);
  const uint64_t hash = (first ^ (last << 7 | last >> 57) ^ name.bytes * 0x51ed27) * 0x9e3779b97f4a7c15ull;
  return static_cast<uint32_t>(hash >> 57);
}
static_assert(NameCache::kEntries == 128);

Handle* NewHandle(Handle* table, uint32_t limit, uint32_t* count, const char* text) {
  if (text == nullptr) text = "";
  char* copy = strndup(text, kLongestName - 1);
  if (copy == nullptr) return nullptr;
  const uint32_t index = recorder::AddShared(*count, 1u);
  if (index >= limit) {
    StoreRelaxed(*count, limit);
    free(copy);
    recorder::CountLoss(schema::LossReason::kRangeTableFull);
    return nullptr;
  }
  Handle* handle = &table[index];
  handle->is_nccl = strcmp(copy, "NCCL") == 0 ? 1 : 0;
  StoreRelease(handle->text, copy);
  return handle;
}

bool IsIn(const Handle* table, uint32_t limit, const void* handle) {
  const auto at = reinterpret_cast<uintptr_t>(handle), first = reinterpret_cast<uintptr_t>(table);
  if (at < first || at >= first + limit * sizeof(Handle) || (at - first) % sizeof(Handle) != 0) return false;
  return LoadAcquire(static_cast<const Handle*>(handle)->text) != nullptr;
}

}  // namespace

NameText Measure(const char* text) {
  NameText name{text, strnlen(text, kLongestName), 0};
  size_t digits = 0;
  while (digits < name.bytes && digits < 18 && text[name.bytes - digits - 1] >= '0' &&
         text[name.bytes - digits - 1] <= '9')
    ++digits;
  if (digits == 0 || digits == name.bytes || text[name.bytes - digits - 1] != '#') return name;
  for (size_t i = name.bytes - digits; i < name.bytes; ++i)
    name.number = name.number * 10 + static_cast<uint64_t>(text[i] - '0');
  name.bytes -= digits;
  return name;
}

uint32_t NameId(NameCache* cache, const NameText& name, schema::NameKind kind) {
  if (name.bytes == 0) return 0;
  if (cache->generation != g_session.generation) {
    memset(cache->ids, 0, sizeof(cache->ids));
    cache->generation = g_session.generation;
  }
  uint32_t& known = cache->ids[PositionOf(name)];
  if (Holds(known, name)) return known;
  // A full table is not looked through for each new name: that would be the training's time.
  if (LoadRelaxed(g_session.header->name_count) >= g_session.name_capacity) {
    recorder::CountLoss(schema::LossReason::kNameTableFull);
    return 0;
  }
  char copy[kLongestName + 1];
  memcpy(copy, name.text, name.bytes);
  copy[name.bytes] = '\0';
  const uint32_t id = recorder::InternName(copy, kind);
  if (id != 0) known = id;
  return id;
}

Handle* NewDomain(const char* name) { return NewHandle(g_domains, kDomains, &g_domain_count, name); }
Handle* NewString(const char* text) { return NewHandle(g_strings, kStrings, &g_string_count, text); }
bool IsDomain(const void* handle) { return IsIn(g_domains, kDomains, handle); }
bool IsString(const void* handle) { return IsIn(g_strings, kStrings, handle); }

uint32_t HandleId(Handle* handle, schema::NameKind kind) {
  const uint64_t known = LoadAcquire(handle->id);
  const uint64_t generation = g_session.generation;
  if (known >> 32 == generation && known != 0) return static_cast<uint32_t>(known);
  const uint32_t id = recorder::InternName(LoadAcquire(handle->text), kind);
  StoreRelease(handle->id, generation << 32 | id);
  return id;
}

void FromWide(const wchar_t* wide, char* out, size_t out_bytes) {
  size_t used = 0;
  for (; *wide != L'\0'; ++wide) {
    auto c = static_cast<uint32_t>(*wide);
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = '?';
    const size_t need = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (used + need + 1 > out_bytes) break;
    if (need == 1) {
      out[used++] = static_cast<char>(c);
      continue;
    }
    constexpr uint8_t kLead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = need; i-- > 0; c >>= 6)
      out[used + i] = static_cast<char>(i == 0 ? kLead[need] | c : 0x80 | (c & 0x3f));
    used += need;
  }
  out[used] = '\0';
}

}  // namespace rankscope::shim
