// See timeline_reader.h.
#include "analysis/recording/timeline_reader.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analysis/recording/clean_text.h"
#include "analysis/recording/mapped_file.h"
#include "analysis/recording/merge.h"
#include "analysis/recording/timeline_columns.h"
#include "analysis/recording/timeline_messages.h"

namespace rankscope::analysis {

namespace {

namespace tl = timeline;

constexpr uint64_t kTrailerBytes = 24;
constexpr uint64_t kIdentifierEnd = 12;  // size prefix, root offset, identifier
constexpr uint32_t kMostTables = 1u << 24;

// A chunk whose every column was checked.
struct CheckedChunk {
  uint64_t events = 0;
  int64_t first_ns = 0;
  struct Part {
    const ColumnSpec* spec;
    uint64_t base;
    uint8_t width;
    const uint8_t* data;
  };
  std::vector<Part> parts;
  uint32_t rank_index = 0;
  uint16_t kind = 0;
};

class ChunkSource : public EventSource {
 public:
  explicit ChunkSource(std::vector<const CheckedChunk*> chunks) : chunks_(std::move(chunks)) {}

  size_t Read(absl::Span<Event> out) override {
    while (chunk_ < chunks_.size() && next_ == chunks_[chunk_]->events) {
      ++chunk_;
      next_ = 0;
    }
    if (chunk_ == chunks_.size()) return 0;
    const CheckedChunk& chunk = *chunks_[chunk_];
    out = out.subspan(0, std::min<uint64_t>(out.size(), chunk.events - next_));
    Event blank;
    blank.comm = 0;
    blank.rank_index = chunk.rank_index;
    blank.kind = chunk.kind;
    std::fill(out.begin(), out.end(), blank);
    for (const CheckedChunk::Part& part : chunk.parts)
      UnpackColumn(*part.spec, part.base, part.width, part.data, next_, out);
    for (Event& event : out) Restore(&event);
    next_ += out.size();
    return out.size();
  }

 private:
  // DurationNs was unpacked into end_ns; whatever the file says, times stay sane.
  static void Restore(Event* event) {
    constexpr int64_t kFarFutureNs = int64_t{1} << 62;
    event->begin_ns = std::clamp<int64_t>(event->begin_ns, 0, kFarFutureNs);
    event->end_ns = std::clamp<int64_t>(event->end_ns, 0, kFarFutureNs - event->begin_ns) + event->begin_ns;
  }

  const std::vector<const CheckedChunk*> chunks_;
  size_t chunk_ = 0;
  uint64_t next_ = 0;
};

class TimelineRecording : public Recording {
 public:
  explicit TimelineRecording(std::unique_ptr<MappedFile> file) : file_(std::move(file)) {}

  absl::Status Load() {
    const absl::Status status = CheckStart();
    if (!status.ok()) return status;
    if (!LoadByIndex()) LoadByScan();
    if (ranks_by_index_.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(file_->path(), ": holds no rank; it was cut at its beginning or is damaged"));
    }
    for (auto& [index, rank] : ranks_by_index_) {
      if (index != ranks_.size()) {
        return absl::InvalidArgumentError(absl::StrCat(file_->path(), ": the description of rank number ",
                                                       ranks_.size(), " is missing; the file is damaged"));
      }
      ranks_.push_back(std::move(rank));
    }
    KeepChunksOfKnownRanks();
    return absl::OkStatus();
  }

  const std::vector<RankInfo>& ranks() const override { return ranks_; }
  const std::vector<HostClockInfo>& clocks() const override { return clocks_; }
  const std::vector<std::string>& warnings() const override { return warnings_; }

  std::unique_ptr<EventStream> Events(KindMask kinds) const override { return MergeSources(Sources(kinds)); }
  std::vector<std::unique_ptr<EventSource>> Sources(KindMask kinds) const override {
    std::map<std::pair<uint32_t, uint16_t>, std::vector<const CheckedChunk*>> streams;
    for (const CheckedChunk& chunk : chunks_) {
      if (((kinds >> chunk.kind) & 1) != 0) streams[{chunk.rank_index, chunk.kind}].push_back(&chunk);
    }
    std::vector<std::unique_ptr<EventSource>> sources;
    for (auto& [key, chunks] : streams) sources.push_back(std::make_unique<ChunkSource>(std::move(chunks)));
    return sources;
  }

 private:
  absl::Status CheckStart() {
    const uint64_t size = file_->size();
    if (size >= kIdentifierEnd && std::memcmp(file_->data() + 8, "RKTL", 4) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(file_->path(), " is not a timeline of rankscope"));
    }
    uint64_t end = 0;
    const tl::Message* message = MessageAt(0, &end);
    const tl::Header* header = message == nullptr ? nullptr : message->body_as_Header();
    if (header == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(file_->path(), size < kIdentifierEnd
                                                                        ? " is too short for a timeline; it was cut"
                                                                        : ": its header is damaged"));
    }
    if (header->format_major() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(file_->path(), " is a timeline of format ",
                                                     header->format_major(), ".", header->format_minor(),
                                                     ", this program reads 1.x; use a newer rankscope"));
    }
    if (const auto* alignment = header->alignment()) {
      for (uint32_t i = 0; i < alignment->size(); ++i) {
        const tl::HostClock* clock = alignment->Get(i);
        const auto text = [](const flatbuffers::String* s) {
          return s == nullptr ? std::string() : CleanText(s->c_str());
        };
        HostClockInfo info;
        info.host = text(clock->host());
        info.boot_id = text(clock->boot_id());
        info.offset_ns = clock->offset_ns();
        info.bound_ns = clock->bound_ns();
        info.error_ns = clock->error_ns();
        info.drift_ppb = clock->drift_ppb();
        info.operations = clock->operations();
        info.group = clock->group();
        info.contradictions = clock->contradictions();
        clocks_.push_back(std::move(info));
      }
    }
    return absl::OkStatus();
  }

  // The verified message whose size prefix is at `offset`, nullptr if there is none; *end is where it stops.
  const tl::Message* MessageAt(uint64_t offset, uint64_t* end) const {
    const uint64_t size = file_->size();
    if (offset % 8 != 0 || offset > size || size - offset < kIdentifierEnd) return nullptr;
    uint32_t prefix;
    std::memcpy(&prefix, file_->data() + offset, 4);
    if (prefix < 8 || prefix > size - offset - 4) return nullptr;
    flatbuffers::Verifier verifier(file_->data() + offset, size_t{prefix} + 4, 64, kMostTables);
    if (!tl::VerifySizePrefixedMessageBuffer(verifier)) return nullptr;
    *end = offset + 4 + prefix;
    return tl::GetSizePrefixedMessage(file_->data() + offset);
  }

  bool LoadByIndex() {
    const uint64_t size = file_->size();
    if (size < kTrailerBytes) return false;
    const uint8_t* trailer = file_->data() + size - kTrailerBytes;
    if (std::memcmp(trailer + 16, "RKTLEND1", 8) != 0) return false;
    uint64_t offset = 0, end = 0;
    std::memcpy(&offset, trailer, 8);
    const tl::Message* message = MessageAt(offset, &end);
    const tl::Index* index = message == nullptr ? nullptr : message->body_as_Index();
    if (index == nullptr || index->entries() == nullptr) return false;
    for (uint32_t i = 0; i < index->entries()->size(); ++i) {
      const uint64_t at = index->entries()->Get(i)->offset();
      const tl::Message* part = MessageAt(at, &end);
      if (part == nullptr) {
        damaged_++;
        continue;
      }
      Take(*part);
    }
    if (damaged_ > 0)
      warnings_.push_back(absl::StrCat(file_->path(), ": ", damaged_, " damaged parts were left out"));
    return true;
  }

  // A writer that was killed left no index: everything that is whole counts.
  void LoadByScan() {
    const uint64_t size = file_->size();
    uint64_t offset = 0;
    while (size - offset >= kIdentifierEnd) {
      uint64_t end = 0;
      const tl::Message* message = MessageAt(offset, &end);
      if (message == nullptr) break;
      Take(*message);
      offset = std::min((end + 7) / 8 * 8, size);
    }
    warnings_.push_back(absl::StrCat(file_->path(), ": has no index, so it was cut or not finished; the first ",
                                     offset, " of ", size, " bytes could be read"));
  }

  void Take(const tl::Message& message) {
    if (const tl::RankInfo* rank = message.body_as_RankInfo()) {
      if (rank->rank_index() < kMostRanks) ranks_by_index_[rank->rank_index()] = UnpackRankInfo(*rank);
    } else if (const tl::Chunk* chunk = message.body_as_Chunk()) {
      std::optional<CheckedChunk> checked = CheckChunk(*chunk);
      if (checked.has_value()) {
        chunks_.push_back(*std::move(checked));
      } else {
        damaged_++;
      }
    }
  }

  static std::optional<CheckedChunk> CheckChunk(const tl::Chunk& chunk) {
    if (chunk.kind() == 0 || chunk.kind() >= schema::kEventKindLimit || chunk.events() > kMostChunkEvents)
      return std::nullopt;
    CheckedChunk checked;
    checked.events = chunk.events();
    checked.rank_index = chunk.rank_index();
    checked.kind = chunk.kind();
    if (chunk.columns() == nullptr) return std::nullopt;
    for (uint32_t i = 0; i < chunk.columns()->size(); ++i) {
      const tl::Column* column = chunk.columns()->Get(i);
      const uint8_t width = column->width();
      if (width != 0 && width != 1 && width != 2 && width != 4 && width != 8) return std::nullopt;
      // A chunk of no events needs no bytes, and may have a column without any.
      const flatbuffers::Vector<uint8_t>* data = column->data();
      if ((data == nullptr ? 0 : data->size()) < checked.events * width) return std::nullopt;
      const std::vector<ColumnSpec>& specs = ColumnsOf(checked.kind);
      const auto spec =
          std::find_if(specs.begin(), specs.end(), [&](const ColumnSpec& s) { return s.id == column->id(); });
      if (spec == specs.end()) continue;  // a later version's
      checked.parts.push_back(
          {&*spec, column->base(), width, width == 0 || data == nullptr ? nullptr : data->data()});
    }
    return checked;
  }

  void KeepChunksOfKnownRanks() {
    const auto unknown = [&](const CheckedChunk& chunk) { return chunk.rank_index >= ranks_.size(); };
    const auto first = std::remove_if(chunks_.begin(), chunks_.end(), unknown);
    if (first != chunks_.end())
      warnings_.push_back(absl::StrCat(file_->path(), ": events of ranks that it doesn't describe were left out"));
    chunks_.erase(first, chunks_.end());
  }

  static constexpr uint32_t kMostRanks = 1u << 20;

  std::unique_ptr<MappedFile> file_;
  std::map<uint32_t, RankInfo> ranks_by_index_;
  std::vector<RankInfo> ranks_;
  std::vector<HostClockInfo> clocks_;
  std::vector<std::string> warnings_;
  std::vector<CheckedChunk> chunks_;
  uint64_t damaged_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Recording>> OpenTimeline(const std::string& path) {
  absl::StatusOr<std::unique_ptr<MappedFile>> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  auto timeline = std::make_unique<TimelineRecording>(*std::move(file));
  const absl::Status status = timeline->Load();
  if (!status.ok()) return status;
  return std::unique_ptr<Recording>(std::move(timeline));
}

}  // namespace rankscope::analysis
