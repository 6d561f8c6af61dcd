// One ring file, read: who the process was, what it counted, what was under way, and its lanes for streaming.
//
// Called by ring_set.cc on one thread; afterwards everything is immutable but the mapping, which a live process goes
// on writing. Must never: write to the file, trust a byte of it, or fail because a part is damaged when the rest can
// be read.
#ifndef RANKSCOPE_ANALYSIS_RECORDING_RING_READER_H_
#define RANKSCOPE_ANALYSIS_RECORDING_RING_READER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analysis/model.h"
#include "analysis/recording/mapped_file.h"
#include "analysis/recording/ring_layout.h"
#include "analysis/recording/tick_clock.h"

namespace rankscope::analysis {

// The part of a lane that was in the ring when it was opened: records [first, last) by their index since the lane's
// start.
struct LaneWindow {
  uint16_t lane = 0;
  const uint8_t* records = nullptr;  // the lane's entry 0
  uint64_t entry_bytes = 0;
  uint64_t count = 0;  // entries, a power of two
  uint64_t first = 0, last = 0;
  bool has_gpu_records = false;  // kinds 32 to 47: out of order
};

class RingFile {
 public:
  static absl::StatusOr<std::unique_ptr<RingFile>> Open(const std::string& path);

  // For finding the host's one offset before anything is converted.
  const std::vector<ClockSample>& samples() const { return samples_; }
  const std::string& host() const { return info_.host; }
  const std::string& boot_id() const { return info_.boot_id; }

  // Fits the clock and converts everything that carries ticks.
  void SetClock(int64_t epoch_minus_monotonic_ns);

  RankInfo& info() { return info_; }
  const RankInfo& info() const { return info_; }
  const TickClock& clock() const { return clock_; }
  const std::vector<LaneWindow>& lanes() const { return lanes_; }

 private:
  RingFile(std::unique_ptr<MappedFile> file, RingLayout layout) : file_(std::move(file)), layout_(layout) {}

  void ReadIdentity();
  void ReadClockPairs();
  void ReadNames();
  void ReadComms();
  void ReadLosses();
  void ReadLanes();
  void ReadTotals();
  void ReadSlots();
  void ReadCupti();
  void ReadStreams();
  std::string NameOf(uint32_t id) const;

  std::unique_ptr<MappedFile> file_;
  RingLayout layout_;
  RankInfo info_;
  std::vector<ClockSample> samples_;
  std::vector<LaneWindow> lanes_;
  TickClock clock_;
};

// Takes record `index` of the window; false if it is torn, overwritten or not yet written.
inline bool TakeRecord(const LaneWindow& window, uint64_t index, schema::EventRecord* out) {
  constexpr uint64_t kAhead = 8;
  __builtin_prefetch(window.records + ((index + kAhead) & (window.count - 1)) * window.entry_bytes);
  const uint8_t* at = window.records + (index & (window.count - 1)) * window.entry_bytes;
  const uint64_t commit = LoadWordAcquire(at);
  if (commit != index + 1) return false;
  CopyWords(at, out, sizeof(*out));
#if !defined(__SANITIZE_THREAD__)
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
  return LoadWord(at) == commit;
}

// The kind of record `index`, -1 if it can't be taken: for counting, without copying the record.
inline int PeekKind(const LaneWindow& window, uint64_t index) {
  const uint8_t* at = window.records + (index & (window.count - 1)) * window.entry_bytes;
  if (LoadWordAcquire(at) != index + 1) return -1;
  return static_cast<int>(LoadWord(at + offsetof(schema::EventRecord, kind)) & 0xffff);
}

}  // namespace rankscope::analysis

#endif  // RANKSCOPE_ANALYSIS_RECORDING_RING_READER_H_
