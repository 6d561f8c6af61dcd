// See ring_set.h.
#include "analysis/recording/ring_set.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analysis/recording/merge.h"
#include "analysis/recording/ring_reader.h"

namespace rankscope::analysis {

namespace {

namespace fs = std::filesystem;

// Records of CUPTI come when their buffer is full or flushed: a second's worth at 10,000 kernels a second, and some
// room.
constexpr size_t kGpuWindow = 1 << 14;
constexpr KindMask kGpuKinds = ((KindMask{1} << 48) - 1) & ~((KindMask{1} << 32) - 1);

// One lane's records as events.
class LaneSource : public EventSource {
 public:
  LaneSource(const RingFile* ring, const LaneWindow& window, KindMask kinds)
      : rank_index_(ring->info().rank_index),
        window_(window),
        next_(window.first),
        kinds_(kinds),
        begin_clock_(&ring->clock()),
        end_clock_(&ring->clock()),
        issue_clock_(&ring->clock()) {}

  size_t Read(absl::Span<Event> out) override {
    size_t written = 0;
    schema::EventRecord record;
    while (written < out.size() && next_ < window_.last) {
      const uint64_t index = next_++;
      if (!TakeRecord(window_, index, &record)) continue;
      if (record.kind >= schema::kEventKindLimit || ((kinds_ >> record.kind) & 1) == 0) continue;
      Convert(record, &out[written++]);
    }
    return written;
  }

 private:
  void Convert(const schema::EventRecord& record, Event* event) {
    event->rank_index = rank_index_;
    event->kind = record.kind;
    event->flags = record.flags;
    event->comm = record.comm;
    event->aux = record.aux;
    event->lane = window_.lane;
    event->begin_ns = begin_clock_.ToEpochNs(record.begin_ticks);
    event->end_ns = std::max(event->begin_ns, end_clock_.ToEpochNs(record.end_ticks));
    event->op_id = record.op_id;
    for (int i = 0; i < 3; ++i) event->payload.words[i] = record.payload.words[i];
    if (record.kind == static_cast<uint16_t>(schema::EventKind::kOpComplete)) {
      event->payload.completion.issue_ticks =
          static_cast<uint64_t>(issue_clock_.ToEpochNs(record.payload.completion.issue_ticks));
    }
  }

  const uint32_t rank_index_;
  const LaneWindow window_;
  uint64_t next_;
  const KindMask kinds_;
  TickConverter begin_clock_, end_clock_, issue_clock_;
};

class RingRecording : public Recording {
 public:
  RingRecording(std::vector<std::unique_ptr<RingFile>> rings, std::vector<std::string> warnings)
      : rings_(std::move(rings)), warnings_(std::move(warnings)) {
    ShareClocks();
    Order();
  }

  const std::vector<RankInfo>& ranks() const override { return ranks_; }
  const std::vector<HostClockInfo>& clocks() const override { return clocks_; }
  const std::vector<std::string>& warnings() const override { return warnings_; }

  std::unique_ptr<EventStream> Events(KindMask kinds) const override { return MergeSources(Sources(kinds)); }
  std::vector<std::unique_ptr<EventSource>> Sources(KindMask kinds) const override {
    std::vector<std::unique_ptr<EventSource>> sources;
    for (const auto& ring : rings_) {
      for (const LaneWindow& lane : ring->lanes()) {
        std::unique_ptr<EventSource> source = std::make_unique<LaneSource>(ring.get(), lane, kinds);
        if (lane.has_gpu_records && (kinds & kGpuKinds) != 0) source = SortWithin(std::move(source), kGpuWindow);
        sources.push_back(std::move(source));
      }
    }
    return sources;
  }

 private:
  // All processes of one boot of one host have one monotonic clock, hence one offset to the epoch.
  void ShareClocks() {
    std::map<std::pair<std::string, std::string>, std::vector<ClockSample>> hosts;
    for (const auto& ring : rings_) {
      auto& samples = hosts[{ring->host(), ring->boot_id()}];
      samples.insert(samples.end(), ring->samples().begin(), ring->samples().end());
    }
    for (const auto& [host, samples] : hosts) {
      HostClockInfo clock;
      clock.host = host.first;
      clock.boot_id = host.second;
      clock.bound_ns = hosts.size() == 1 ? 0 : -1;
      clocks_.push_back(clock);
    }
    for (const auto& ring : rings_) ring->SetClock(EpochOffset(hosts[{ring->host(), ring->boot_id()}]));
  }

  void Order() {
    std::sort(rings_.begin(), rings_.end(), [](const auto& a, const auto& b) {
      const RankInfo &x = a->info(), &y = b->info();
      // Processes whose rank nobody knows come last.
      return std::tuple(static_cast<uint32_t>(x.rank), x.host, x.start_ns, x.pid, x.ring_path) <
             std::tuple(static_cast<uint32_t>(y.rank), y.host, y.start_ns, y.pid, y.ring_path);
    });
    std::set<std::string> jobs;
    for (size_t i = 0; i < rings_.size(); ++i) {
      rings_[i]->info().rank_index = static_cast<uint32_t>(i);
      ranks_.push_back(rings_[i]->info());
      jobs.insert(rings_[i]->info().job);
      if (i > 0 && ranks_[i].rank >= 0 && ranks_[i].rank == ranks_[i - 1].rank) {
        warnings_.push_back(absl::StrCat("rank ", ranks_[i].rank, " has several rings (", ranks_[i - 1].ring_path,
                                         ", ", ranks_[i].ring_path, "): a restart, or two jobs under one name"));
      }
    }
    if (jobs.size() > 1) {
      warnings_.push_back(
          absl::StrCat("the rings are of ", jobs.size(), " jobs; give one job's folder to look at it alone"));
    }
  }

  std::vector<std::unique_ptr<RingFile>> rings_;
  std::vector<RankInfo> ranks_;
  std::vector<HostClockInfo> clocks_;
  std::vector<std::string> warnings_;
};

bool IsRingName(const fs::path& path) { return path.extension() == ".ring"; }

}  // namespace

absl::StatusOr<std::vector<std::string>> FindRings(const std::string& directory) {
  std::vector<std::string> found;
  std::error_code error;
  fs::directory_iterator top(directory, fs::directory_options::skip_permission_denied, error);
  if (error) return absl::NotFoundError(absl::StrCat("cannot list ", directory, ": ", error.message()));
  for (const fs::directory_entry& entry : top) {
    if (IsRingName(entry.path())) found.push_back(entry.path().string());
    if (!entry.is_directory(error)) continue;
    for (const fs::directory_entry& inner :
         fs::directory_iterator(entry.path(), fs::directory_options::skip_permission_denied, error)) {
      if (IsRingName(inner.path())) found.push_back(inner.path().string());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

absl::StatusOr<std::unique_ptr<Recording>> OpenRings(absl::Span<const std::string> paths,
                                                     const std::function<void(double)>& progress) {
  std::vector<std::unique_ptr<RingFile>> rings;
  std::vector<std::string> warnings;
  absl::Status first_error;
  for (size_t i = 0; i < paths.size(); ++i) {
    absl::StatusOr<std::unique_ptr<RingFile>> ring = RingFile::Open(paths[i]);
    if (ring.ok()) {
      rings.push_back(*std::move(ring));
    } else {
      warnings.push_back(absl::StrCat("left out: ", ring.status().message()));
      if (first_error.ok()) first_error = ring.status();
    }
    if (progress) progress(static_cast<double>(i + 1) / static_cast<double>(paths.size()));
  }
  if (rings.empty()) {
    if (!first_error.ok()) return first_error;
    return absl::NotFoundError("no rings were given");
  }
  std::unique_ptr<Recording> recording = std::make_unique<RingRecording>(std::move(rings), std::move(warnings));
  return recording;
}

}  // namespace rankscope::analysis
