// The names of ranges, as ids of the ring: fast where a name was seen before, right where its address is used again
// for another.
//
// Push calls look here on the training's threads: a known name costs its length and one comparison; no lock, no
// allocation. Domain and string handles, which the training makes once, keep a copy of their text: the ring may come
// later than they, and a forked child has another.
#ifndef RANKSCOPE_SHIM_RANGE_NAMES_H_
#define RANKSCOPE_SHIM_RANGE_NAMES_H_

#include <cstddef>
#include <cstdint>

#include "schema/ring_abi.h"

namespace rankscope::shim {

// What a thread remembers of the names that it used last.
struct NameCache {
  static constexpr uint32_t kEntries = 128;
  uint32_t ids[kEntries];
  uint32_t generation;  // of the session whose ids these are
};

// A text, cut at what the ring keeps of a name. A number behind a '#' at its end ("ProfilerStep#12") is not part of
// the name: `number` gets it (else 0), and `bytes` ends behind the '#'.
struct NameText {
  const char* text;
  size_t bytes;
  uint64_t number;
};
NameText Measure(const char* text);

// The id of a name, 0 where the table is full (counted) or the text is empty. The ring must be active.
uint32_t NameId(NameCache* cache, const NameText& name, schema::NameKind kind);

// A text that outlives its ring: a domain's or a registered string's. Handles are pointers to these.
struct Handle {
  char* text;        // never changed once it is there
  uint32_t is_nccl;  // the domain "NCCL"
  uint64_t id;       // generation << 32 | id of the ring; 0 = not yet
};
// nullptr when there is no room for another (counted once a call). Any thread.
Handle* NewDomain(const char* name);
Handle* NewString(const char* text);
// True if `handle` is one of ours: what comes back through NVTX is not believed.
bool IsDomain(const void* handle);
bool IsString(const void* handle);
uint32_t HandleId(Handle* handle, schema::NameKind kind);

// wchar_t text as UTF-8, cut to the room; what is no character becomes '?'.
void FromWide(const wchar_t* wide, char* out, size_t out_bytes);

}  // namespace rankscope::shim

#endif  // RANKSCOPE_SHIM_RANGE_NAMES_H_
