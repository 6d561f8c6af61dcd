// See timeline_columns.h.
#include "analysis/recording/timeline_columns.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

namespace rankscope::analysis {

namespace {

using schema::EventKind;
using timeline::ColumnId;

constexpr uint8_t At(size_t offset) { return static_cast<uint8_t>(offset); }
constexpr size_t kPayload = offsetof(Event, payload);

std::vector<ColumnSpec> Common() {
  return {
      {ColumnId::BeginNs, At(offsetof(Event, begin_ns)), 8}, {ColumnId::DurationNs, At(offsetof(Event, end_ns)), 8},
      {ColumnId::OpId, At(offsetof(Event, op_id)), 8},       {ColumnId::Flags, At(offsetof(Event, flags)), 2},
      {ColumnId::Comm, At(offsetof(Event, comm)), 2},        {ColumnId::Aux, At(offsetof(Event, aux)), 2},
      {ColumnId::Lane, At(offsetof(Event, lane)), 2}};
}

// Coll, P2p, their API calls, CeColl and evictions share one layout; Algo and Proto are zero, and free of cost, where
// there are none.
void AddOperation(std::vector<ColumnSpec>* columns) {
  columns->push_back({ColumnId::Count, At(kPayload), 8});
  columns->push_back({ColumnId::Seq, At(kPayload + 8), 4});
  columns->push_back({ColumnId::Ordinal, At(kPayload + 12), 4});
  columns->push_back({ColumnId::Func, At(kPayload + 16), 1});
  columns->push_back({ColumnId::DataType, At(kPayload + 17), 1});
  columns->push_back({ColumnId::Algo, At(kPayload + 18), 1});
  columns->push_back({ColumnId::Proto, At(kPayload + 19), 1});
  columns->push_back({ColumnId::RootOrPeer, At(kPayload + 20), 4});
}

void AddCompletion(std::vector<ColumnSpec>* columns) {
  columns->push_back({ColumnId::IssueNs, At(kPayload), 8});
  columns->push_back({ColumnId::Children, At(kPayload + 8), 4});
  columns->push_back({ColumnId::Source, At(kPayload + 12), 1});
  columns->push_back({ColumnId::Func, At(kPayload + 13), 1});
  columns->push_back({ColumnId::Count, At(kPayload + 16), 8});
}

void AddWords(std::vector<ColumnSpec>* columns) {
  columns->push_back({ColumnId::Word0, At(kPayload), 8});
  columns->push_back({ColumnId::Word1, At(kPayload + 8), 8});
  columns->push_back({ColumnId::Word2, At(kPayload + 16), 8});
}
static_assert(sizeof(Event) <= 255 && offsetof(schema::CollPayload, seq) == 8 &&
              offsetof(schema::CollPayload, root) == 20);
static_assert(offsetof(schema::CompletionPayload, proxy_ops) == 8 &&
              offsetof(schema::CompletionPayload, source) == 12 && offsetof(schema::CompletionPayload, bytes) == 16);

std::vector<ColumnSpec> BuildColumns(EventKind kind) {
  std::vector<ColumnSpec> columns = Common();
  switch (kind) {
    case EventKind::kColl:
    case EventKind::kP2p:
    case EventKind::kCollApi:
    case EventKind::kP2pApi:
    case EventKind::kCeColl:
    case EventKind::kOpEvicted:
      AddOperation(&columns);
      break;
    case EventKind::kOpComplete:
      AddCompletion(&columns);
      break;
    default:
      AddWords(&columns);
      break;
  }
  return columns;
}

uint8_t WidthOf(uint64_t range) {
  if (range == 0) return 0;
  if (range <= 0xff) return 1;
  if (range <= 0xffff) return 2;
  if (range <= 0xffffffffu) return 4;
  return 8;
}

template <typename T>
T FieldAt(const Event& event, uint8_t offset) {
  T value;
  std::memcpy(&value, reinterpret_cast<const char*>(&event) + offset, sizeof(T));
  return value;
}
template <typename T>
void SetFieldAt(Event* event, uint8_t offset, T value) {
  std::memcpy(reinterpret_cast<char*>(event) + offset, &value, sizeof(T));
}

// Collects a field and its range in one pass over the events.
struct Range {
  uint64_t smallest, largest;
};
template <typename Get>
Range Gather(absl::Span<const Event> events, uint64_t* out, Get get) {
  Range range{~uint64_t{0}, 0};
  for (size_t i = 0; i < events.size(); ++i) {
    const uint64_t value = get(events[i]);
    out[i] = value;
    range.smallest = std::min(range.smallest, value);
    range.largest = std::max(range.largest, value);
  }
  return range;
}
template <typename T>
Range GatherField(absl::Span<const Event> events, uint8_t offset, uint64_t* out) {
  return Gather(events, out, [offset](const Event& event) { return uint64_t{FieldAt<T>(event, offset)}; });
}
Range GatherColumn(const ColumnSpec& spec, absl::Span<const Event> events, uint64_t* out) {
  if (spec.id == ColumnId::DurationNs) {
    return Gather(events, out,
                  [](const Event& event) { return static_cast<uint64_t>(event.end_ns - event.begin_ns); });
  }
  switch (spec.bytes) {
    case 1:
      return GatherField<uint8_t>(events, spec.offset, out);
    case 2:
      return GatherField<uint16_t>(events, spec.offset, out);
    case 4:
      return GatherField<uint32_t>(events, spec.offset, out);
    default:
      return GatherField<uint64_t>(events, spec.offset, out);
  }
}

template <typename T>
void Narrow(const std::vector<uint64_t>& values, uint64_t base, uint8_t* out) {
  for (size_t i = 0; i < values.size(); ++i) {
    const T value = static_cast<T>(values[i] - base);
    std::memcpy(out + i * sizeof(T), &value, sizeof(T));
  }
}

template <typename T, typename Stored>
void Scatter(uint8_t offset, uint64_t base, const uint8_t* data, absl::Span<Event> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, data + i * sizeof(Stored), sizeof(Stored));
    SetFieldAt<T>(&out[i], offset, static_cast<T>(base + stored));
  }
}

template <typename T>
void ScatterWidth(uint8_t offset, uint64_t base, uint8_t width, const uint8_t* data, absl::Span<Event> out) {
  switch (width) {
    case 1:
      return Scatter<T, uint8_t>(offset, base, data, out);
    case 2:
      return Scatter<T, uint16_t>(offset, base, data, out);
    case 4:
      return Scatter<T, uint32_t>(offset, base, data, out);
    case 8:
      return Scatter<T, uint64_t>(offset, base, data, out);
    default:
      for (Event& event : out) SetFieldAt<T>(&event, offset, static_cast<T>(base));
  }
}

}  // namespace

const std::vector<ColumnSpec>& ColumnsOf(uint16_t kind) {
  static const std::array<std::vector<ColumnSpec>, schema::kEventKindLimit> kColumns = [] {
    std::array<std::vector<ColumnSpec>, schema::kEventKindLimit> columns;
    for (int k = 0; k < schema::kEventKindLimit; ++k) columns[k] = BuildColumns(static_cast<EventKind>(k));
    return columns;
  }();
  return kColumns[kind < schema::kEventKindLimit ? kind : 0];
}

void ColumnPacker::Begin(absl::Span<const Event> events) {
  events_ = events;
  values_.resize(events.size());
  constexpr size_t kWords = sizeof(Event) / 8;
  static_assert(sizeof(Event) % 8 == 0);
  uint64_t first[kWords], differs[kWords] = {};
  std::memcpy(first, events.data(), sizeof(Event));
  for (const Event& event : events) {
    uint64_t words[kWords];
    std::memcpy(words, &event, sizeof(Event));
    for (size_t w = 0; w < kWords; ++w) differs[w] |= words[w] ^ first[w];
  }
  varies_.resize(sizeof(Event));
  std::memcpy(varies_.data(), differs, sizeof(Event));
}

ColumnShape ColumnPacker::Measure(const ColumnSpec& spec) {
  const auto begin = varies_.begin() + spec.offset;
  const bool constant = std::all_of(begin, begin + spec.bytes, [](uint8_t bits) { return bits == 0; });
  if (constant && spec.id != ColumnId::DurationNs) {
    shape_ = {GatherColumn(spec, events_.subspan(0, 1), values_.data()).smallest, 0};
    return shape_;
  }
  const Range range = GatherColumn(spec, events_, values_.data());
  shape_ = {range.smallest, WidthOf(range.largest - range.smallest)};
  return shape_;
}

void ColumnPacker::Pack(uint8_t* out) const {
  switch (shape_.width) {
    case 1:
      return Narrow<uint8_t>(values_, shape_.base, out);
    case 2:
      return Narrow<uint16_t>(values_, shape_.base, out);
    case 4:
      return Narrow<uint32_t>(values_, shape_.base, out);
    case 8:
      return Narrow<uint64_t>(values_, shape_.base, out);
    default:
      return;
  }
}

void UnpackColumn(const ColumnSpec& spec, uint64_t base, uint8_t width, const uint8_t* data, size_t first,
                  absl::Span<Event> out) {
  data += first * width;
  switch (spec.bytes) {
    case 1:
      return ScatterWidth<uint8_t>(spec.offset, base, width, data, out);
    case 2:
      return ScatterWidth<uint16_t>(spec.offset, base, width, data, out);
    case 4:
      return ScatterWidth<uint32_t>(spec.offset, base, width, data, out);
    default:
      return ScatterWidth<uint64_t>(spec.offset, base, width, data, out);
  }
}

}  // namespace rankscope::analysis
