// See timeline_writer.h.
#include "analysis/recording/timeline_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analysis/recording/clean_text.h"
#include "analysis/recording/timeline_columns.h"
#include "analysis/recording/timeline_messages.h"

namespace rankscope::analysis {

namespace {

namespace tl = timeline;

constexpr char kTrailerMark[9] = "RKTLEND1";
constexpr uint16_t kFormatMajor = 1, kFormatMinor = 0;

// The file under its temporary name. Not committed = removed.
class OutputFile {
 public:
  explicit OutputFile(std::string path)
      : path_(std::move(path)), temporary_(absl::StrCat(path_, ".tmp-", getpid())) {}
  ~OutputFile() {
    if (fd_ >= 0) {
      close(fd_);
      unlink(temporary_.c_str());
    }
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  absl::Status Open() {
    struct stat info;
    if (stat(path_.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
      return absl::InvalidArgumentError(absl::StrCat(path_, " exists and is not a regular file; name another one"));
    }
    fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return fd_ >= 0 ? absl::OkStatus() : Failed("create", errno);
  }

  absl::Status Append(const void* data, size_t bytes) {
    offset_ += bytes;
    if (bytes >= kDirectBytes) {
      const absl::Status status = Flush();
      return status.ok() ? Write(static_cast<const uint8_t*>(data), bytes) : status;
    }
    buffer_.insert(buffer_.end(), static_cast<const uint8_t*>(data), static_cast<const uint8_t*>(data) + bytes);
    return buffer_.size() >= kFlushBytes ? Flush() : absl::OkStatus();
  }

  absl::Status Commit() {
    absl::Status status = Flush();
    if (!status.ok()) return status;
    if (fsync(fd_) != 0) return Failed("write", errno);
    if (rename(temporary_.c_str(), path_.c_str()) != 0) return Failed("rename to its name", errno);
    close(fd_);
    fd_ = -1;
    return absl::OkStatus();
  }

  uint64_t offset() const { return offset_; }

 private:
  static constexpr size_t kFlushBytes = 1 << 20, kDirectBytes = 1 << 16;

  absl::Status Failed(const char* verb, int error) const {
    const std::string sentence = absl::StrCat("cannot ", verb, " ", temporary_, ": ", ErrnoText(error));
    return error == ENOSPC
               ? absl::ResourceExhaustedError(absl::StrCat(sentence, "; free some room or write elsewhere (-o)"))
               : absl::PermissionDeniedError(sentence);
  }

  absl::Status Flush() {
    const absl::Status status = Write(buffer_.data(), buffer_.size());
    buffer_.clear();
    return status;
  }

  absl::Status Write(const uint8_t* data, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
      const ssize_t wrote = write(fd_, data + done, bytes - done);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return Failed("write", wrote < 0 ? errno : ENOSPC);
      done += static_cast<size_t>(wrote);
    }
    return absl::OkStatus();
  }

  const std::string path_, temporary_;
  int fd_ = -1;
  uint64_t offset_ = 0;
  std::vector<uint8_t> buffer_;
};

class Writer {
 public:
  Writer(const Recording& recording, const std::string& path, const WriteOptions& options)
      : recording_(recording), options_(options), file_(path) {}

  absl::StatusOr<WriteResult> Run() {
    absl::Status status = file_.Open();
    if (status.ok()) status = WriteHeader();
    for (const RankInfo& rank : recording_.ranks()) {
      if (!status.ok()) break;
      const auto table = PackRankInfo(&builder_, rank);
      status = Finish(tl::Body::RankInfo, table.Union(), 0, rank.rank_index, 0, 0, 0);
    }
    if (status.ok()) status = WriteEvents();
    if (status.ok()) status = WriteIndex();
    if (status.ok()) status = file_.Commit();
    if (!status.ok()) return status;
    return WriteResult{events_, file_.offset()};
  }

 private:
  absl::Status WriteHeader() {
    std::vector<flatbuffers::Offset<tl::HostClock>> clocks;
    for (const HostClockInfo& clock : recording_.clocks()) {
      clocks.push_back(tl::CreateHostClock(
          builder_, builder_.CreateString(clock.host), builder_.CreateString(clock.boot_id), clock.offset_ns,
          clock.bound_ns, clock.error_ns, clock.drift_ppb, clock.operations, clock.group, clock.contradictions));
    }
    const auto alignment = builder_.CreateVector(clocks);
    const auto writer = builder_.CreateString("rankscope");
    const auto job = builder_.CreateString(recording_.ranks().empty() ? "" : recording_.ranks()[0].job);
    const bool aligned = std::any_of(recording_.clocks().begin(), recording_.clocks().end(),
                                     [](const HostClockInfo& clock) { return clock.group >= 0; });
    const auto method = builder_.CreateString(recording_.clocks().size() <= 1 ? "one-host"
                                              : aligned                       ? "operations"
                                                                              : "wall-clock");
    const auto header = tl::CreateHeader(builder_, kFormatMajor, kFormatMinor, writer, job,
                                         static_cast<uint64_t>(time(nullptr)) * 1'000'000'000, alignment, method);
    return Finish(tl::Body::Header, header.Union(), 0, 0, 0, 0, 0);
  }

  // Ends the message in builder_, appends it, notes it in the index.
  absl::Status Finish(tl::Body type, flatbuffers::Offset<void> body, uint16_t kind, uint32_t rank_index,
                      uint32_t events, uint64_t first_ns, uint64_t last_ns) {
    builder_.FinishSizePrefixed(tl::CreateMessage(builder_, type, body), tl::MessageIdentifier());
    const uint64_t offset = file_.offset();
    absl::Status status = file_.Append(builder_.GetBufferPointer(), builder_.GetSize());
    builder_.Clear();
    static constexpr char kZeros[8] = {};
    if (status.ok() && file_.offset() % 8 != 0) status = file_.Append(kZeros, 8 - file_.offset() % 8);
    if (type == tl::Body::RankInfo || type == tl::Body::Chunk) {
      index_.push_back(tl::CreateIndexEntry(index_builder_, offset, kind, rank_index, events, first_ns, last_ns));
    }
    return status;
  }

  uint32_t ChunkEvents() const {
    if (options_.chunk_events != 0) return std::min(options_.chunk_events, kMostChunkEvents);
    // Every rank may fill a handful of chunks at once; all of them together stay near this size.
    // (Chunks of this many events fit the second-level cache while their columns are packed; measured.)
    constexpr uint64_t kBudgetBytes = 128ull << 20, kUsualKinds = 6, kBestEvents = 1024;
    const uint64_t streams = std::max<uint64_t>(1, recording_.ranks().size() * kUsualKinds);
    return static_cast<uint32_t>(std::clamp<uint64_t>(kBudgetBytes / sizeof(Event) / streams, 256, kBestEvents));
  }

  absl::Status WriteEvents() {
    const uint32_t limit = ChunkEvents();
    open_.resize(recording_.ranks().size());
    uint64_t expected = 0;
    for (const RankInfo& rank : recording_.ranks()) {
      for (const KindCountInfo& kind : rank.kinds) expected += kind.read;
    }
    const std::unique_ptr<EventStream> stream = recording_.Events(kAllKinds);
    std::vector<Event> block(256);
    while (const size_t count = stream->Read(absl::MakeSpan(block))) {
      for (size_t i = 0; i < count; ++i) {
        const Event& event = block[i];
        if (event.rank_index >= open_.size() || event.kind >= schema::kEventKindLimit) continue;
        auto& kinds = open_[event.rank_index];
        if (kinds.size() <= event.kind) kinds.resize(event.kind + 1u);
        std::vector<Event>& chunk = kinds[event.kind];
        if (chunk.capacity() == 0) chunk.reserve(limit);
        chunk.push_back(event);
        if (chunk.size() < limit) continue;
        const absl::Status status = WriteChunk(&chunk);
        if (!status.ok()) return status;
      }
      events_ += count;
      if (options_.progress && expected > 0)
        options_.progress(std::min(1.0, static_cast<double>(events_) / static_cast<double>(expected)));
    }
    if (!stream->status().ok()) return stream->status();
    for (auto& kinds : open_) {
      for (std::vector<Event>& chunk : kinds) {
        const absl::Status status = WriteChunk(&chunk);
        if (!status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  absl::Status WriteChunk(std::vector<Event>* chunk) {
    if (chunk->empty()) return absl::OkStatus();
    const uint16_t kind = chunk->front().kind;
    const uint32_t rank_index = chunk->front().rank_index;
    int64_t first_ns = chunk->front().begin_ns, last_ns = 0;
    for (const Event& event : *chunk) {
      first_ns = std::min(first_ns, event.begin_ns);
      last_ns = std::max(last_ns, event.end_ns);
    }
    std::vector<flatbuffers::Offset<tl::Column>> columns;
    packer_.Begin(*chunk);
    for (const ColumnSpec& spec : ColumnsOf(kind)) {
      const ColumnShape shape = packer_.Measure(spec);
      if (shape.width == 0 && shape.base == 0) continue;  // a column that isn't there is all zero
      flatbuffers::Offset<flatbuffers::Vector<uint8_t>> data;
      if (shape.width != 0) {
        uint8_t* bytes = nullptr;
        data = builder_.CreateUninitializedVector<uint8_t>(chunk->size() * shape.width, &bytes);
        packer_.Pack(bytes);
      }
      columns.push_back(tl::CreateColumn(builder_, spec.id, shape.width, shape.base, data));
    }
    const auto events = static_cast<uint32_t>(chunk->size());
    const auto table = tl::CreateChunk(builder_, rank_index, kind, events, static_cast<uint64_t>(first_ns),
                                       static_cast<uint64_t>(last_ns), builder_.CreateVector(columns));
    chunk->clear();
    return Finish(tl::Body::Chunk, table.Union(), kind, rank_index, events, static_cast<uint64_t>(first_ns),
                  static_cast<uint64_t>(last_ns));
  }

  absl::Status WriteIndex() {
    const uint64_t offset = file_.offset();
    const auto index = tl::CreateIndex(index_builder_, index_builder_.CreateVector(index_), events_);
    index_builder_.FinishSizePrefixed(tl::CreateMessage(index_builder_, tl::Body::Index, index.Union()),
                                      tl::MessageIdentifier());
    absl::Status status = file_.Append(index_builder_.GetBufferPointer(), index_builder_.GetSize());
    static constexpr char kZeros[8] = {};
    if (status.ok() && file_.offset() % 8 != 0) status = file_.Append(kZeros, 8 - file_.offset() % 8);
    uint8_t trailer[24];
    const uint64_t end = file_.offset();
    std::memcpy(trailer, &offset, 8);
    std::memcpy(trailer + 8, &end, 8);
    std::memcpy(trailer + 16, kTrailerMark, 8);
    return status.ok() ? file_.Append(trailer, sizeof(trailer)) : status;
  }

  const Recording& recording_;
  const WriteOptions& options_;
  OutputFile file_;
  flatbuffers::FlatBufferBuilder builder_{1 << 20}, index_builder_{1 << 16};
  std::vector<flatbuffers::Offset<tl::IndexEntry>> index_;
  std::vector<std::vector<std::vector<Event>>> open_;  // by rank, by kind
  ColumnPacker packer_;
  uint64_t events_ = 0;
};

}  // namespace

absl::StatusOr<WriteResult> WriteTimeline(const Recording& recording, const std::string& path,
                                          const WriteOptions& options) {
  return Writer(recording, path, options).Run();
}

}  // namespace rankscope::analysis
