// See range_names.h.
#include "shim/range_names.h"

#include <string.h>

#include "recorder/atomic_word.h"
#include "recorder/nccl_call.h"

namespace rankscope::shim {

using recorder::AddShared;
using recorder::CompareExchange;
using recorder::LoadAcquire;
using recorder::LoadRelaxed;
using recorder::StoreRelaxed;
using recorder::StoreRelease;

constinit KeptText g_domains[kDomainLimit] = {
    {"", 0, 0, 0, 0}, {"rankscope", 0, 0, 0, 0}, {"rankscope.group", 0, 0, 0, 0}, {"NCCL", 0, 0, 0, 0}};

namespace {

constexpr uint32_t kStringLimit = 4096;
constexpr size_t kTextRoomBytes = 256 << 10;  // for domains and registered strings, as long as the process lives
constexpr size_t kLongestText = 1023;

constinit KeptText g_strings[kStringLimit] = {};
constinit char g_text_room[kTextRoomBytes] = {};
constinit uint64_t g_text_used = 0;
constinit uint32_t g_string_count = 0;
constinit uint32_t g_domain_count = kKnownDomains;

// Eight bytes at a time: a name's own address is often new (Python's strings). `*length` is the text's.
uint32_t HashOf(const char* text, size_t* length) {
  const size_t bytes = strnlen(text, kLongestText);
  *length = bytes;
  uint64_t hash = bytes;
  size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    uint64_t word;
    memcpy(&word, text + i, 8);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  uint64_t rest = 0;
  for (; i < bytes; ++i) rest = rest << 8 | static_cast<unsigned char>(text[i]);
  hash = (hash ^ rest) * 0x9e3779b97f4a7c15u;
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

bool BeginsWith(const char* text, const char* prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

uint8_t NcclCallNamed(const char* call) {
  using schema::Function;
  static constexpr struct {
    const char* name;
    Function function;
  } kCalls[] = {
      {"AllGather", Function::kAllGather}, {"AllReduce", Function::kAllReduce},
      {"AlltoAll", Function::kAlltoAll},   {"Broadcast", Function::kBroadcast},
      {"Gather", Function::kGather},       {"Reduce", Function::kReduce},
      {"Scatter", Function::kScatter},     {"ReduceScatter", Function::kReduceScatter},
      {"Send", Function::kSend},           {"Recv", Function::kRecv},
  };
  for (const auto& known : kCalls) {
    if (strcmp(call, known.name) == 0) return static_cast<uint8_t>(known.function);
  }
  // ncclCommInitAll makes several in one process and names none of them.
  if (BeginsWith(call, "CommInitRank") || strcmp(call, "CommSplit") == 0 || strcmp(call, "CommShrink") == 0 ||
      strcmp(call, "CommInitAll") == 0) {
    return recorder::kNcclCallCommInit;
  }
  if (strcmp(call, "CommFinalize") == 0 || strcmp(call, "CommDestroy") == 0 || strcmp(call, "CommAbort") == 0) {
    return recorder::kNcclCallCommEnd;
  }
  return recorder::kNcclCallNone;
}

uint8_t TraitsOf(const char* text) {
  if (BeginsWith(text, "nccl")) return static_cast<uint8_t>(NcclCallNamed(text + 4) << 4);
  if (!BeginsWith(text, "DeepSpeed")) return 0;
  if (strcmp(text, "DeepSpeedEngine.forward") == 0) return kNameEngineForward | kNameDeepSpeed;
  // With the dot: a user's own DeepSpeedTrainer.step is none of DeepSpeed's.
  if (BeginsWith(text, "DeepSpeedEngine.") || BeginsWith(text, "DeepSpeedZeroOptimizer") ||
      BeginsWith(text, "DeepSpeedZeroOffload.")) {
    return kNameDeepSpeed;
  }
  return 0;
}

schema::Phase HookPhaseOf(const char* text) {
  using schema::Phase;
  static constexpr struct {
    const char* name;
    Phase phase;
  } kPhases[] = {
      {"data_loading", Phase::kDataLoading},
      {"forward", Phase::kForward},
      {"backward", Phase::kBackward},
      {"gradient_reduction", Phase::kGradientReduction},
      {"optimizer", Phase::kOptimizer},
      {"checkpoint", Phase::kCheckpoint},
      {"checkpoint_save", Phase::kCheckpoint},
      {"checkpoint_load", Phase::kCheckpoint},
      {"gc", Phase::kOther},
  };
  for (const auto& known : kPhases) {
    if (strcmp(text, known.name) == 0) return known.phase;
  }
  return Phase::kUnknown;
}

const char* KeepText(const char* text, size_t length) {
  const uint64_t offset = AddShared(g_text_used, length + 1);
  if (offset + length + 1 > kTextRoomBytes) {
    recorder::CountLoss(schema::LossReason::kNameTableFull);
    return nullptr;
  }
  memcpy(g_text_room + offset, text, length);  // the room was zero: its NUL is there
  return g_text_room + offset;
}

KeptText* FindKept(KeptText* table, uint32_t count, const char* text, size_t length, uint32_t hash) {
  for (uint32_t i = 0; i < count; ++i) {
    const char* kept = LoadAcquire(table[i].text);
    if (kept == nullptr || (table[i].hash != hash && table[i].hash != 0)) continue;
    if (strncmp(kept, text, length) == 0 && kept[length] == '\0') return &table[i];
  }
  return nullptr;
}

void FillKept(KeptText* entry, const char* text, uint32_t hash) {
  entry->hash = hash;
  entry->traits = TraitsOf(text);
  entry->phase = static_cast<uint8_t>(HookPhaseOf(text));
  StoreRelease(entry->text, text);
}

RememberedText* FindText(NameCache* cache, const char* text, uint32_t hash) {
  for (uint32_t way = 0; way < 2; ++way) {
    RememberedText& entry = cache->texts[(hash ^ way) & (kTextEntries - 1)];
    if (entry.used != 0 && entry.hash == hash && strcmp(entry.text, text) == 0) return &entry;
  }
  return nullptr;
}

NameInfo InfoOf(const RememberedText& entry) {
  return {entry.id, entry.traits, static_cast<schema::Phase>(entry.phase)};
}

}  // namespace

uint32_t DomainNamed(const char* name) {
  if (name == nullptr || name[0] == '\0') return kDomainDefault;
  size_t length = 0;
  const uint32_t hash = HashOf(name, &length);
  uint32_t count = LoadRelaxed(g_domain_count);
  if (count > kDomainOverflow) count = kDomainOverflow;
  if (const KeptText* known = FindKept(g_domains, count, name, length, hash)) {
    return static_cast<uint32_t>(known - g_domains);
  }
  uint32_t index = count;
  if (index < kDomainOverflow) index = AddShared(g_domain_count, 1u);
  const char* text = index < kDomainOverflow ? KeepText(name, length) : nullptr;
  if (text == nullptr) {
    recorder::CountLoss(schema::LossReason::kNameTableFull);
    CompareExchange(g_domains[kDomainOverflow].text, static_cast<const char*>(nullptr), "(more domains)");
    return kDomainOverflow;
  }
  FillKept(&g_domains[index], text, hash);
  return index;
}

uint32_t InternKept(KeptText* kept, schema::NameKind kind) {
  const char* text = LoadAcquire(kept->text);
  if (text == nullptr) return 0;
  const uint32_t id = recorder::InternName(text, kind);
  StoreRelaxed(kept->id_word, static_cast<uint64_t>(recorder::g_session.generation) << 32 | id);
  return id;
}

void* RegisterString(const char* text) {
  if (text == nullptr || text[0] == '\0') return nullptr;
  size_t length = 0;
  const uint32_t hash = HashOf(text, &length);
  uint32_t count = LoadRelaxed(g_string_count);
  if (count > kStringLimit) count = kStringLimit;
  if (KeptText* known = FindKept(g_strings, count, text, length, hash)) return known;
  if (count == kStringLimit) {
    recorder::CountLoss(schema::LossReason::kNameTableFull);
    return nullptr;
  }
  const char* kept = KeepText(text, length);
  if (kept == nullptr) return nullptr;
  const uint32_t index = AddShared(g_string_count, 1u);
  if (index >= kStringLimit) {
    recorder::CountLoss(schema::LossReason::kNameTableFull);
    return nullptr;
  }
  FillKept(&g_strings[index], kept, hash);
  return &g_strings[index];
}

NameInfo RegisteredName(const void* handle) {
  const uint64_t distance = reinterpret_cast<uint64_t>(handle) - reinterpret_cast<uint64_t>(g_strings);
  if (distance >= sizeof(g_strings) || distance % sizeof(KeptText) != 0) return {};
  KeptText* kept = &g_strings[distance / sizeof(KeptText)];
  const uint64_t word = LoadRelaxed(kept->id_word);
  uint32_t id = static_cast<uint32_t>(word);
  if (__builtin_expect((word >> 32) != recorder::g_session.generation, 0)) {
    id = InternKept(kept, schema::NameKind::kRange);
  }
  return {id, kept->traits, schema::Phase::kUnknown};
}

void ForgetNames(NameCache* cache) {
  for (RememberedAddress& entry : cache->addresses) entry.address = nullptr;
  for (RememberedText& entry : cache->texts) entry.used = 0;
}

NameInfo NameOf(NameCache* cache, const char* text) {
  if (text == nullptr) return {};
  const uint64_t address = reinterpret_cast<uint64_t>(text);
  RememberedAddress& by_address = cache->addresses[(address ^ address >> 7) & (kAddressEntries - 1)];
  if (by_address.address == text) {
    const RememberedText& entry = cache->texts[by_address.entry];
    if (entry.used != 0 && strcmp(entry.text, text) == 0) return InfoOf(entry);
  }
  size_t length = 0;
  const uint32_t hash = HashOf(text, &length);
  RememberedText* entry = FindText(cache, text, hash);
  if (entry == nullptr) {
    NameInfo info = {recorder::InternName(text, schema::NameKind::kRange), TraitsOf(text), HookPhaseOf(text)};
    if (length >= kTextBytes) return info;
    entry = &cache->texts[hash & (kTextEntries - 1)];
    if (entry->used != 0) entry = &cache->texts[(hash ^ 1) & (kTextEntries - 1)];
    memcpy(entry->text, text, length);
    entry->text[length] = '\0';
    entry->hash = hash;
    entry->id = info.id;
    entry->traits = info.traits;
    entry->phase = static_cast<uint8_t>(info.phase);
    entry->used = 1;
  }
  by_address.address = text;
  by_address.entry = static_cast<uint32_t>(entry - cache->texts);
  return InfoOf(*entry);
}

void NarrowText(const wchar_t* wide, char* out, size_t out_bytes) {
  size_t used = 0;
  for (; wide != nullptr && *wide != L'\0'; ++wide) {
    uint32_t c;
    static_assert(sizeof(c) == sizeof(*wide));
    memcpy(&c, wide, sizeof(c));
    if (c > 0x10ffffu || (c >= 0xd800u && c <= 0xdfffu)) c = 0xfffd;
    const size_t bytes = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (used + bytes >= out_bytes) break;
    if (bytes == 1) {
      out[used++] = static_cast<char>(c);
      continue;
    }
    static constexpr uint32_t kLead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = bytes; i-- > 1; c >>= 6) out[used + i] = static_cast<char>(0x80 | (c & 0x3f));
    out[used] = static_cast<char>(kLead[bytes] | c);
    used += bytes;
  }
  out[used] = '\0';
}

}  // namespace rankscope::shim
