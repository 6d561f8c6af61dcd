// See ring_layout.h.
#include "analysis/recording/ring_layout.h"

#include "absl/strings/str_cat.h"

namespace rankscope::analysis {

namespace {

using schema::Section;

struct Known {
  Section id;
  const char* name;
  uint32_t smallest_entry;  // what version 1.0 has of an entry; a later minor version may append
  bool required;
};
constexpr Known kKnown[] = {
    {Section::kIdentity, "identity", 8, true},
    {Section::kClockPairs, "clock pairs", sizeof(schema::ClockPair), true},
    {Section::kNames, "names", sizeof(schema::NameEntry), true},
    {Section::kNameBytes, "name bytes", 1, true},
    {Section::kComms, "communicators", sizeof(schema::CommEntry), true},
    {Section::kLosses, "losses", 8, true},
    {Section::kLanes, "lanes", sizeof(schema::LaneHeader), true},
    {Section::kSlots, "in-flight slots", sizeof(schema::InFlightSlot), true},
    {Section::kTotals, "totals", sizeof(schema::TotalCell), true},
    {Section::kRecords, "records", sizeof(schema::EventRecord), true},
    {Section::kCupti, "the GPU source", sizeof(schema::CuptiInfo), false},  // 1.1
    {Section::kStreams, "streams", sizeof(schema::StreamEntry), false},     // 1.1
};

const Known* FindKnown(uint32_t id) {
  for (const Known& known : kKnown) {
    if (static_cast<uint32_t>(known.id) == id) return &known;
  }
  return nullptr;
}

absl::Status Refuse(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

}  // namespace

absl::Status RingLayout::AddSection(const schema::SectionEntry& entry, uint64_t size, const std::string& path) {
  const Known* known = FindKnown(entry.id);
  if (known == nullptr) return absl::OkStatus();  // a later version's
  const std::string which = absl::StrCat("the section table's entry for ", known->name, " ");
  if (entry.entry_bytes < known->smallest_entry || (entry.entry_bytes != 1 && entry.entry_bytes % 8 != 0)) {
    return Refuse(path, absl::StrCat(which, "says ", entry.entry_bytes, " bytes an entry, expected at least ",
                                     known->smallest_entry, "; the file is damaged"));
  }
  if (entry.offset % 8 != 0 || entry.offset < sizeof(schema::RingHeader) || entry.offset > size ||
      entry.count > (size - entry.offset) / entry.entry_bytes) {
    return Refuse(path,
                  absl::StrCat(which, "points beyond the file's ", size, " bytes; the file is damaged or was cut"));
  }
  sections_[entry.id] = entry;
  return absl::OkStatus();
}

absl::StatusOr<RingLayout> RingLayout::Check(const uint8_t* data, uint64_t size, const std::string& path) {
  RingLayout layout;
  if (size < schema::kHeaderRegionBytes) {
    return Refuse(path,
                  absl::StrCat("is ", size, " bytes long, too short for a ring; it was cut or is something else"));
  }
  layout.data_ = data;
  CopyWords(data, &layout.header_, sizeof(schema::RingHeader));
  const schema::RingHeader& header = layout.header_;
  if (header.magic != schema::kRingMagic) {
    if (header.magic == __builtin_bswap64(schema::kRingMagic)) {
      return Refuse(path, "is a ring of a machine with the other byte order; read it on such a machine");
    }
    if (header.magic == 0 && header.byte_order == schema::kByteOrderMark) {
      return Refuse(path, "is a ring that its process had not finished setting up; nothing was recorded in it");
    }
    return Refuse(path, "is not a ring of rankscope");
  }
  if (header.byte_order != schema::kByteOrderMark) {
    return Refuse(path, "is a ring of a machine with the other byte order; read it on such a machine");
  }
  if (header.major != schema::kRingMajor) {
    return Refuse(path, absl::StrCat("is a ring of format ", header.major, ".", header.minor, ", this program reads ",
                                     schema::kRingMajor, ".x; use the rankscope that recorded it"));
  }
  if (header.section_count > schema::kSectionLimit) {
    return Refuse(path, absl::StrCat("says that it has ", header.section_count, " sections; the file is damaged"));
  }
  if (header.file_bytes > size) {
    return Refuse(path, absl::StrCat("was cut: it should have ", header.file_bytes, " bytes and has ", size,
                                     "; copy the whole file"));
  }
  for (uint32_t i = 0; i < header.section_count; ++i) {
    const absl::Status status = layout.AddSection(header.sections[i], size, path);
    if (!status.ok()) return status;
  }
  for (const Known& known : kKnown) {
    if (known.required && layout.sections_[static_cast<uint32_t>(known.id)].entry_bytes == 0) {
      return Refuse(path, absl::StrCat("has no section of ", known.name, "; the file is damaged"));
    }
  }
  return layout;
}

schema::RingHeader RingLayout::FreshHeader() const {
  schema::RingHeader header;
  CopyWords(data_, &header, sizeof(header));
  return header;
}

}  // namespace rankscope::analysis
