// How the fields of an event lie in a timeline's columns, by kind; and the packing of one column.
//
// One table serves writer and reader. Called on their threads. Must never: read or write beyond an Event, or believe
// a column's length.
#ifndef RANKSCOPE_ANALYSIS_RECORDING_TIMELINE_COLUMNS_H_
#define RANKSCOPE_ANALYSIS_RECORDING_TIMELINE_COLUMNS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "analysis/model.h"
#include "schema/timeline_generated.h"

namespace rankscope::analysis {

struct ColumnSpec {
  timeline::ColumnId id;
  uint8_t offset;  // of the field in Event; DurationNs is computed
  uint8_t bytes;   // of the field: 1, 2, 4 or 8
};

// The columns of a kind, BeginNs and DurationNs first.
const std::vector<ColumnSpec>& ColumnsOf(uint16_t kind);

// A chunk has at most this many events: a reader refuses more, since columns of equal values cost nothing and would
// let a small file claim billions.
inline constexpr uint32_t kMostChunkEvents = 1u << 16;

// A column as the file holds it: value i = base + little-endian unsigned of `width` bytes at i * width, modulo 2^64.
struct ColumnShape {
  uint64_t base = 0;
  uint8_t width = 0;
};

// Packs the columns of one chunk, one after another.
class ColumnPacker {
 public:
  // Looks once at all events, so that columns that are the same all through cost nothing more. `events` must outlive
  // the packing.
  void Begin(absl::Span<const Event> events);
  ColumnShape Measure(const ColumnSpec& spec);
  // Writes the column measured last: events.size() * width bytes.
  void Pack(uint8_t* out) const;

 private:
  absl::Span<const Event> events_;
  std::vector<uint8_t> varies_;   // by byte of an Event: nonzero where two events differ
  std::vector<uint64_t> values_;  // of the column measured last
  ColumnShape shape_;
};

// Writes values [first, first + out.size()) of a column into the events. `data` holds at least that many of `width`
// bytes.
void UnpackColumn(const ColumnSpec& spec, uint64_t base, uint8_t width, const uint8_t* data, size_t first,
                  absl::Span<Event> out);

}  // namespace rankscope::analysis

#endif  // RANKSCOPE_ANALYSIS_RECORDING_TIMELINE_COLUMNS_H_
