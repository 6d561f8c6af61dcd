// A ring file's bytes as checked sections: nothing of the file is believed before it has been measured.
//
// Called by ring_reader.cc and ring_lane.cc on one thread. Must never: hand out an entry beyond the mapping, or trust
// a value that it read twice (the writer may live; whoever can write the file may be hostile).
#ifndef RANKSCOPE_ANALYSIS_RECORDING_RING_LAYOUT_H_
#define RANKSCOPE_ANALYSIS_RECORDING_RING_LAYOUT_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/statusor.h"
#include "schema/ring_abi.h"

namespace rankscope::analysis {

// Loads of memory that another process may be writing: relaxed words, so that no value is torn.
inline uint64_t LoadWord(const uint8_t* at) {
  return __atomic_load_n(reinterpret_cast<const uint64_t*>(at), __ATOMIC_RELAXED);
}
inline uint64_t LoadWordAcquire(const uint8_t* at) {
  return __atomic_load_n(reinterpret_cast<const uint64_t*>(at), __ATOMIC_ACQUIRE);
}
// `bytes` is a multiple of 8, `from` is aligned to 8.
inline void CopyWords(const uint8_t* from, void* to, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 8) {
    const uint64_t word = LoadWord(from + i);
    std::memcpy(static_cast<char*>(to) + i, &word, 8);
  }
}

class RingLayout {
 public:
  // Sentences say what is wrong with `path` and what to do.
  static absl::StatusOr<RingLayout> Check(const uint8_t* data, uint64_t size, const std::string& path);

  const schema::RingHeader& header() const { return header_; }

  uint64_t Count(schema::Section id) const { return section(id).count; }
  // Entry i < Count(id); 8-byte aligned, at least 8 readable bytes, EntryBytes(id) in all.
  const uint8_t* EntryAt(schema::Section id, uint64_t i) const {
    const schema::SectionEntry& s = section(id);
    return data_ + s.offset + i * s.entry_bytes;
  }
  uint64_t EntryBytes(schema::Section id) const { return section(id).entry_bytes; }

  // A copy of entry i; what the writer's version lacks is zero, what it has beyond T is left out.
  template <typename T>
  T Entry(schema::Section id, uint64_t i) const {
    static_assert(sizeof(T) % 8 == 0);
    T out;
    std::memset(static_cast<void*>(&out), 0, sizeof(T));
    if (i >= Count(id)) return out;
    CopyWords(EntryAt(id, i), &out, std::min<uint64_t>(sizeof(T), section(id).entry_bytes / 8 * 8));
    return out;
  }

  // Bytes of the header that change while the process runs, read anew.
  schema::RingHeader FreshHeader() const;

 private:
  const schema::SectionEntry& section(schema::Section id) const { return sections_[static_cast<uint32_t>(id)]; }
  absl::Status AddSection(const schema::SectionEntry& entry, uint64_t size, const std::string& path);

  const uint8_t* data_ = nullptr;
  schema::RingHeader header_{};
  schema::SectionEntry sections_[schema::kSectionLimit] = {};  // by Section; count 0 = not there
};

}  // namespace rankscope::analysis

#endif  // RANKSCOPE_ANALYSIS_RECORDING_RING_LAYOUT_H_
