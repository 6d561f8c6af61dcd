// See nvtx_payload.h.
#include "shim/nvtx_payload.h"

#include <string.h>

#include "recorder/atomic_word.h"

namespace rankscope::shim {

using recorder::AddShared;
using recorder::CompareExchange;
using recorder::LoadAcquire;
using recorder::LoadRelaxed;
using recorder::StoreRelaxed;
using recorder::StoreRelease;

namespace {

// NCCL's names of the entries: the only thing of a schema that says what they mean.
constexpr char kBytesEntry[] = "Message size [bytes]";
constexpr char kCommunicatorEntry[] = "NCCL communicator ID";
constexpr char kRanksEntry[] = "No. of ranks";
constexpr char kRankEntry[] = "Rank";

constexpr uint32_t kSchemaLimit = 256;  // a power of two
constexpr uint32_t kProbes = 16;
constexpr size_t kEntryLimit = 64;
constexpr size_t kPayloadLimit = 16;  // of one range

// Where a field lies: offset << 8 | bytes of it; 0 = the schema has none.
struct SchemaFields {
  uint64_t key;     // 0 = free; else domain << 48 | schema id, with the top bit set
  uint64_t fields;  // of the bytes, and << 32 of the communicator
  uint64_t ranks;   // of the number of ranks, and << 32 of the own rank
  void* name;       // registered string
};
constinit SchemaFields g_schemas[kSchemaLimit] = {};
constinit uint64_t g_dynamic_ids = 0;

constexpr uint64_t KeyOf(uint32_t domain, uint64_t id) {
  return uint64_t{1} << 63 | static_cast<uint64_t>(domain) << 48 | (id & ((uint64_t{1} << 48) - 1));
}
constexpr uint32_t PlaceOf(uint64_t key) { return static_cast<uint32_t>((key ^ key >> 44) & (kSchemaLimit - 1)); }

constexpr uint32_t BytesOf(uint64_t type) {
  switch (type) {
    case nvtx::kEntryInt:
    case nvtx::kEntryUint:
    case nvtx::kEntryInt32:
    case nvtx::kEntryUint32:
      return 4;
    case nvtx::kEntryUlonglong:
    case nvtx::kEntryInt64:
    case nvtx::kEntryUint64:
    case nvtx::kEntrySize:
      return 8;
    default:
      return 0;
  }
}

void ReadSchema(const nvtx::SchemaAttributes& schema, uint64_t* fields, uint64_t* ranks) {
  constexpr uint64_t kNeeded = nvtx::kSchemaHasEntries | nvtx::kSchemaHasEntryCount;
  if ((schema.field_mask & kNeeded) != kNeeded || schema.entries == nullptr) return;
  uint64_t end = 0;  // of the entry before
  bool end_known = true;
  for (size_t i = 0; i < schema.entry_count && i < kEntryLimit; ++i) {
    const nvtx::SchemaEntry& entry = schema.entries[i];
    const uint32_t bytes = BytesOf(entry.type);
    if (i > 0 && entry.offset == 0 && !end_known) break;  // behind something whose size we don't know
    const uint64_t offset =
        i == 0 || entry.offset != 0 || bytes == 0 ? entry.offset : (end + bytes - 1) & ~(bytes - 1ull);
    end = offset + bytes;
    end_known = bytes != 0 && entry.flags == 0;
    if (!end_known || entry.name == nullptr || offset >= (1u << 23)) continue;
    const uint64_t field = offset << 8 | bytes;
    if (strcmp(entry.name, kBytesEntry) == 0) *fields |= field;
    if (strcmp(entry.name, kCommunicatorEntry) == 0) *fields |= field << 32;
    if (strcmp(entry.name, kRanksEntry) == 0) *ranks |= field;
    if (strcmp(entry.name, kRankEntry) == 0) *ranks |= field << 32;
  }
}

const SchemaFields* FindSchema(uint32_t domain, uint64_t id) {
  const uint64_t key = KeyOf(domain, id);
  for (uint32_t i = 0; i < kProbes; ++i) {
    const SchemaFields& schema = g_schemas[(PlaceOf(key) + i) & (kSchemaLimit - 1)];
    const uint64_t found = LoadAcquire(schema.key);
    if (found == key) return &schema;
    if (found == 0) return nullptr;
  }
  return nullptr;
}

bool ReadField(const nvtx::PayloadData& data, uint32_t field, uint64_t* value) {
  const size_t bytes = field & 0xff, offset = field >> 8;
  if (bytes == 0 || data.payload == nullptr || data.bytes < bytes || offset > data.bytes - bytes) return false;
  const char* from = static_cast<const char*>(data.payload) + offset;
  if (bytes == 8) {
    memcpy(value, from, 8);
  } else {
    uint32_t word;
    memcpy(&word, from, 4);
    *value = word;
  }
  return true;
}

}  // namespace

uint64_t RegisterSchema(uint32_t domain, const nvtx::SchemaAttributes* schema) {
  if (schema == nullptr) return 0;
  uint64_t id = schema->schema_id;
  if ((schema->field_mask & nvtx::kSchemaHasId) == 0) id = nvtx::kDynamicSchemaIds + AddShared(g_dynamic_ids, 1u);
  const uint64_t key = KeyOf(domain, id);
  // NCCL names its schemas without setting the mask's bit for it.
  void* name = schema->name != nullptr ? RegisterString(schema->name) : nullptr;
  for (uint32_t i = 0; i < kProbes; ++i) {
    SchemaFields& entry = g_schemas[(PlaceOf(key) + i) & (kSchemaLimit - 1)];
    if (LoadAcquire(entry.key) == 0 && CompareExchange(entry.key, uint64_t{0}, key)) {
      // Found by its key from now on, and empty until the next two stores.
    } else if (LoadAcquire(entry.key) != key) {
      continue;
    }
    // The last one that registers an id defines it.
    uint64_t fields = 0, ranks = 0;
    ReadSchema(*schema, &fields, &ranks);
    StoreRelaxed(entry.name, name);
    StoreRelaxed(entry.ranks, ranks);
    StoreRelease(entry.fields, fields);
    return id;
  }
  recorder::CountLoss(schema::LossReason::kNameTableFull);
  return id;
}

RangeExtra ReadPayloads(uint32_t domain, const nvtx::PayloadData* payloads, size_t count) {
  RangeExtra extra;
  if (payloads == nullptr) return extra;
  for (size_t i = 0; i < count && i < kPayloadLimit; ++i) {
    const SchemaFields* schema = FindSchema(domain, payloads[i].schema_id);
    if (schema == nullptr) continue;
    const uint64_t fields = LoadAcquire(schema->fields);
    uint64_t value = 0;
    if (ReadField(payloads[i], static_cast<uint32_t>(fields), &value)) {
      extra.value = value;
      extra.present = true;
    }
    if (ReadField(payloads[i], static_cast<uint32_t>(fields >> 32), &value)) {
      extra.detail = static_cast<uint32_t>(value);
      extra.present = true;
    }
    const uint64_t ranks = LoadRelaxed(schema->ranks);
    uint64_t rank = 0;
    if (ranks != 0 && ReadField(payloads[i], static_cast<uint32_t>(ranks), &value) &&
        ReadField(payloads[i], static_cast<uint32_t>(ranks >> 32), &rank)) {
      extra.value = value << 32 | static_cast<uint32_t>(rank);
      extra.present = true;
    }
  }
  return extra;
}

NameInfo SchemaName(uint32_t domain, const nvtx::PayloadData* payloads, size_t count) {
  if (payloads == nullptr || count == 0) return {};
  const SchemaFields* schema = FindSchema(domain, payloads[0].schema_id);
  return schema == nullptr ? NameInfo{} : RegisteredName(LoadRelaxed(schema->name));
}

}  // namespace rankscope::shim
