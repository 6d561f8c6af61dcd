// See imported_recording.h.
#include "analysis/importers/imported_recording.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <numeric>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "analysis/recording/clean_text.h"
#include "analysis/recording/merge.h"

namespace rankscope::analysis {
namespace {

static_assert(std::is_trivially_copyable_v<Event>);

class StoredSource : public EventSource {
 public:
  StoredSource(const Event* events, size_t count, uint32_t rank_index, KindMask kinds,
               const std::vector<bool>* unmatched)
      : events_(events), count_(count), rank_index_(rank_index), kinds_(kinds), unmatched_(unmatched) {}

  size_t Read(absl::Span<Event> out) override {
    size_t written = 0;
    while (written < out.size() && next_ < count_) {
      const Event& event = events_[next_++];
      if ((kinds_ >> event.kind & 1) == 0) continue;
      Event& to = out[written++];
      to = event;
      to.rank_index = rank_index_;
      if (event.comm < unmatched_->size() && (*unmatched_)[event.comm]) to.comm = schema::kCommUnknown;
    }
    return written;
  }

 private:
  const Event* const events_;
  const size_t count_;
  const uint32_t rank_index_;
  const KindMask kinds_;
  const std::vector<bool>* const unmatched_;
  size_t next_ = 0;
};

uint64_t Mix(uint64_t x) {  // splitmix64's finaliser
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

// The events in a file without a name, mapped; nullptr where there are none.
absl::StatusOr<const Event*> Store(const std::vector<Event>& events, const std::string& folder) {
  const size_t bytes = events.size() * sizeof(Event);
  if (bytes == 0) return nullptr;
  std::string path = absl::StrCat(folder.empty() ? "." : folder, "/.rankscope-import-XXXXXX");
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0)
    return absl::PermissionDeniedError(absl::StrCat("cannot create a file in ", folder, ": ", ErrnoText(errno)));
  unlink(path.c_str());
  const char* from = reinterpret_cast<const char*>(events.data());
  size_t done = 0;
  while (done < bytes) {
    const ssize_t wrote = write(fd, from + done, bytes - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      const int error = wrote < 0 ? errno : ENOSPC;
      close(fd);
      return absl::ResourceExhaustedError(absl::StrCat("cannot keep ", bytes, " bytes of events in ", folder, ": ",
                                                       ErrnoText(error), "; free some room or write elsewhere (-o)"));
    }
    done += static_cast<size_t>(wrote);
  }
  void* mapped = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  close(fd);
  if (mapped == MAP_FAILED)
    return absl::ResourceExhaustedError(absl::StrCat("cannot map a file in ", folder, ": ", ErrnoText(error)));
  return static_cast<const Event*>(mapped);
}

}  // namespace

ImportedRecording::~ImportedRecording() {
  for (const Stored& stored : stored_) {
    if (stored.events != nullptr) munmap(const_cast<Event*>(stored.events), stored.count * sizeof(Event));
  }
}

absl::Status ImportedRecording::Add(ImportedRank rank) {
  const absl::StatusOr<const Event*> events = Store(rank.events, folder_);
  if (!events.ok()) return events.status();
  Stored stored;
  stored.events = *events;
  stored.count = rank.events.size();
  stored.counted = std::move(rank.counted_comms);
  const size_t comms = rank.info.comms.size();
  stored.counted.resize(comms);
  stored.lists.resize(comms);
  stored.operations.resize(comms);
  stored.unmatched.resize(comms);
  for (const Event& event : rank.events) {
    if (event.comm >= comms) continue;
    if (event.kind == static_cast<uint16_t>(schema::EventKind::kColl)) {
      const schema::CollPayload& coll = event.payload.coll;
      // A sum does not mind that operations end out of order.
      stored.lists[event.comm] += Mix(Mix(uint64_t{coll.func} << 32 | coll.seq) ^ coll.count);
      ++stored.operations[event.comm];
    } else if (event.kind == static_cast<uint16_t>(schema::EventKind::kP2p)) {
      ++stored.operations[event.comm];
    }
  }
  for (std::string& warning : rank.warnings) warnings_.push_back(std::move(warning));
  ranks_.push_back(std::move(rank.info));
  stored_.push_back(std::move(stored));
  return absl::OkStatus();
}

void ImportedRecording::LeaveUnmatched() {
  struct Place {
    size_t rank_index, slot;
  };
  std::map<uint64_t, std::vector<Place>> by_hash;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    for (size_t slot = 0; slot < ranks_[r].comms.size(); ++slot) {
      if (stored_[r].operations[slot] > 0) by_hash[ranks_[r].comms[slot].hash].push_back({r, slot});
    }
  }
  for (const auto& [hash, places] : by_hash) {
    bool counted = false, differ = false;
    for (const Place& place : places) {
      counted |= stored_[place.rank_index].counted[place.slot];
      differ |= stored_[place.rank_index].lists[place.slot] != stored_[places[0].rank_index].lists[places[0].slot];
    }
    if (!counted || !differ) continue;
    for (const Place& place : places) {
      Stored& stored = stored_[place.rank_index];
      stored.unmatched[place.slot] = true;
      std::vector<LossInfo>& losses = ranks_[place.rank_index].losses;
      const auto reason = static_cast<uint32_t>(schema::LossReason::kImportUnmatched);
      if (losses.empty() || losses.back().reason != reason) losses.push_back({reason, 0});
      losses.back().count += stored.operations[place.slot];
    }
    const CommInfo& comm = ranks_[places[0].rank_index].comms[places[0].slot];
    warnings_.push_back(absl::StrCat(
        "process group ", comm.name, ": the lists of collectives of its ", places.size(),
        " traces differ, and they have no sequence numbers; they are not matched, and there is no skew for them"));
  }
}

void ImportedRecording::Finish(const std::string& job) {
  std::vector<size_t> order(ranks_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ranks_[a].rank < ranks_[b].rank; });
  std::vector<RankInfo> ranks;
  std::vector<Stored> stored;
  for (const size_t i : order) {
    ranks.push_back(std::move(ranks_[i]));
    stored.push_back(std::move(stored_[i]));
    stored_[i].events = nullptr;
    ranks.back().rank_index = static_cast<uint32_t>(ranks.size() - 1);
    ranks.back().job = job;
  }
  ranks_ = std::move(ranks);
  stored_ = std::move(stored);
  for (const RankInfo& rank : ranks_) {
    const auto known =
        std::find_if(clocks_.begin(), clocks_.end(), [&](const HostClockInfo& c) { return c.host == rank.host; });
    if (known != clocks_.end()) continue;
    HostClockInfo clock;
    clock.host = rank.host;
    clocks_.push_back(std::move(clock));
  }
  LeaveUnmatched();
}

std::unique_ptr<EventStream> ImportedRecording::Events(KindMask kinds) const { return MergeSources(Sources(kinds)); }

std::vector<std::unique_ptr<EventSource>> ImportedRecording::Sources(KindMask kinds) const {
  std::vector<std::unique_ptr<EventSource>> sources;
  for (size_t r = 0; r < stored_.size(); ++r) {
    sources.push_back(std::make_unique<StoredSource>(stored_[r].events, stored_[r].count, static_cast<uint32_t>(r),
                                                     kinds, &stored_[r].unmatched));
  }
  return sources;
}

}  // namespace rankscope::analysis
