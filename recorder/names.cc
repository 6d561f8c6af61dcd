// InternName of session.h: the ring's append-only name table. Any thread, no lock; not for the hot path.
#include <string.h>

#include "recorder/session.h"

namespace rankscope::recorder {
namespace {

constexpr size_t kLongestName = 1024;

// FNV-1a, 32 bits.
uint32_t HashOf(const char* text, size_t length) {
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < length; ++i) hash = (hash ^ static_cast<unsigned char>(text[i])) * 16777619u;
  return hash;
}

uint32_t FindName(const char* text, size_t length, uint32_t hash, schema::NameKind kind) {
  uint32_t used = LoadAcquire(g_session.header->name_count);
  if (used > g_session.name_capacity) used = g_session.name_capacity;
  for (uint32_t i = 0; i < used; ++i) {
    const schema::NameEntry& entry = g_session.names[i];
    if (LoadAcquire(entry.bytes) != length || entry.hash != hash || entry.kind != static_cast<uint32_t>(kind))
      continue;
    if (memcmp(g_session.name_bytes + entry.offset, text, length) == 0) return i + 1;
  }
  return 0;
}

}  // namespace

uint32_t InternName(const char* text, schema::NameKind kind) {
  if (text == nullptr || !Active()) return 0;
  const size_t length = strnlen(text, kLongestName);
  if (length == 0) return 0;
  const uint32_t hash = HashOf(text, length);
  if (const uint32_t found = FindName(text, length, hash, kind)) return found;
  // Room is taken first and given out for good: two threads that bring the same name at once store it twice, which is
  // harmless.
  const uint64_t offset = AddShared(g_session.header->name_bytes_used, length);
  if (offset + length > g_session.name_bytes_capacity) {
    CountLoss(schema::LossReason::kNameTableFull);
    return 0;
  }
  const uint32_t index = AddShared(g_session.header->name_count, 1u);
  if (index >= g_session.name_capacity) {
    CountLoss(schema::LossReason::kNameTableFull);
    return 0;
  }
  memcpy(g_session.name_bytes + offset, text, length);
  schema::NameEntry& entry = g_session.names[index];
  entry.offset = static_cast<uint32_t>(offset);
  entry.kind = static_cast<uint32_t>(kind);
  entry.hash = hash;
  StoreRelease(entry.bytes, static_cast<uint32_t>(length));
  return index + 1;
}

}  // namespace rankscope::recorder
