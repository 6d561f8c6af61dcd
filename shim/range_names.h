// The names of ranges: texts become ids of the ring's name table, cheaply enough for every push.
//
// Three kinds of text. Domains and registered strings come once and are referred to by a handle, which is the address
// of an entry of ours; their text is kept here, since it may come before the recorder runs and must outlive a fork.
// Other texts come with every push: each thread remembers the last ones by address AND by all their bytes, so that a
// reused address can't lie. Any thread, no lock, no allocation; what finds no room is counted. Must never keep a
// caller's pointer to be read later without its bytes having been compared in the same call.
#ifndef RANKSCOPE_SHIM_RANGE_NAMES_H_
#define RANKSCOPE_SHIM_RANGE_NAMES_H_

#include <cstddef>
#include <cstdint>

#include "recorder/session.h"
#include "schema/event_abi.h"

namespace rankscope::shim {

inline constexpr uint32_t kDomainLimit = 64;
// Domains that are always there. The last one takes in those that find no room.
enum KnownDomain : uint32_t {
  kDomainDefault = 0,
  kDomainHook = 1,
  kDomainGroup = 2,
  kDomainNccl = 3,
  kKnownDomains = 4
};
inline constexpr uint32_t kDomainOverflow = kDomainLimit - 1;

// What a name says about the range, apart from how it is called.
enum NameTraits : uint8_t {
  kNameEngineForward = 1 << 0,  // exactly DeepSpeedEngine.forward: nothing of DeepSpeed's can be open around it
  kNameDeepSpeed = 1 << 1,      // a range that DeepSpeed's own decorator leaves open when an exception passes
};
// The upper four bits: NcclCall::what, if the range is of NCCL's domain.
constexpr uint8_t NcclCallOf(uint8_t traits) { return traits >> 4; }
struct NameInfo {
  uint32_t id = 0;  // interned; 0 = no name
  uint8_t traits = 0;
  schema::Phase phase = schema::Phase::kUnknown;  // as the Python hook means the name
};

// A text with the id that the present session gave it.
struct KeptText {
  const char* text;  // nullptr = not yet usable
  uint64_t id_word;  // generation of the session << 32 | id
  uint32_t hash;
  uint8_t traits;
  uint8_t phase;
};

extern KeptText g_domains[kDomainLimit];

// Index of the domain of this name; made if it is new.
uint32_t DomainNamed(const char* name);
// Handles are addresses of entries; what isn't one is the default domain.
inline void* DomainHandleOf(uint32_t index) { return index == kDomainDefault ? nullptr : &g_domains[index]; }
inline uint32_t DomainFromHandle(const void* handle) {
  const uint64_t distance = reinterpret_cast<uint64_t>(handle) - reinterpret_cast<uint64_t>(g_domains);
  const uint64_t index = distance / sizeof(KeptText);
  return index < kDomainLimit && distance % sizeof(KeptText) == 0 ? static_cast<uint32_t>(index) : kDomainDefault;
}
uint32_t InternKept(KeptText* kept, schema::NameKind kind);
// The domain's id in the ring; 0 for the default domain. The recorder must be active.
inline uint32_t DomainNameId(uint32_t index) {
  if (index == kDomainDefault) return 0;
  const uint64_t word = recorder::LoadRelaxed(g_domains[index].id_word);
  if (__builtin_expect((word >> 32) == recorder::g_session.generation, 1)) return static_cast<uint32_t>(word);
  return InternKept(&g_domains[index], schema::NameKind::kDomain);
}

// The handle of a registered string; nullptr where there is no room (counted): its ranges have no name.
void* RegisterString(const char* text);
NameInfo RegisteredName(const void* handle);

// A thread's memory of the texts that came with its last pushes. Written and read by that thread alone.
inline constexpr int kTextEntries = 128;
inline constexpr int kAddressEntries = 128;
inline constexpr size_t kTextBytes = 176;  // DeepSpeed's longest name has 124
struct RememberedText {
  uint32_t hash;
  uint32_t id;
  uint8_t traits;
  uint8_t phase;
  uint8_t used;
  char text[kTextBytes];  // with its NUL
};
struct RememberedAddress {
  const char* address;
  uint32_t entry;  // of texts
};
struct NameCache {
  RememberedAddress addresses[kAddressEntries];
  RememberedText texts[kTextEntries];
};
void ForgetNames(NameCache* cache);
NameInfo NameOf(NameCache* cache, const char* text);

// UTF-8 of a wide text, cut to the room; what is no character becomes U+FFFD.
inline constexpr size_t kWideTextBytes = 1024;
void NarrowText(const wchar_t* wide, char* out, size_t out_bytes);

}  // namespace rankscope::shim

#endif  // RANKSCOPE_SHIM_RANGE_NAMES_H_
