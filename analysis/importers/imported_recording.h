// Ranks that an importer made, as a recording that can be written and answered from.
//
// Called by `rankscope import`, on one thread. A rank's events go to a file without a name as they come, so memory is
// one rank's; they are mapped back for reading. Must never: keep a file behind.
#ifndef RANKSCOPE_ANALYSIS_IMPORTERS_IMPORTED_RECORDING_H_
#define RANKSCOPE_ANALYSIS_IMPORTERS_IMPORTED_RECORDING_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "analysis/model.h"

namespace rankscope::analysis {

// One rank, its events by the time of their end. `info.rank` is -1 where neither the trace nor the file's name tells.
struct ImportedRank {
  RankInfo info;
  std::vector<Event> events;
  // By communicator slot: its collectives are numbered by counting from the trace's begin, for the trace has no
  // sequence numbers.
  std::vector<bool> counted_comms;
  std::vector<std::string> warnings;  // about this file
};

class ImportedRecording : public Recording {
 public:
  // `folder`: where the events wait, best beside the timeline.
  explicit ImportedRecording(std::string folder) : folder_(std::move(folder)) {}
  ~ImportedRecording() override;
  ImportedRecording(const ImportedRecording&) = delete;
  ImportedRecording& operator=(const ImportedRecording&) = delete;

  // An error is one sentence for the user (a full disk).
  absl::Status Add(ImportedRank rank);
  // All ranks are there: puts them in order, and takes the communicator from collectives that have no sequence number
  // and whose lists differ between the ranks, for their numbers name different operations then.
  void Finish(const std::string& job);

  const std::vector<RankInfo>& ranks() const override { return ranks_; }
  const std::vector<HostClockInfo>& clocks() const override { return clocks_; }
  const std::vector<std::string>& warnings() const override { return warnings_; }
  std::unique_ptr<EventStream> Events(KindMask kinds) const override;
  std::vector<std::unique_ptr<EventSource>> Sources(KindMask kinds) const override;

 private:
  struct Stored {
    const Event* events = nullptr;  // mapped
    size_t count = 0;
    std::vector<bool> counted;         // by communicator slot
    std::vector<uint64_t> lists;       // by communicator slot: what collectives, in what order, as one number
    std::vector<uint64_t> operations;  // by communicator slot
    std::vector<bool> unmatched;       // by communicator slot
  };
  void LeaveUnmatched();

  const std::string folder_;
  std::vector<RankInfo> ranks_;
  std::vector<Stored> stored_;
  std::vector<HostClockInfo> clocks_;
  std::vector<std::string> warnings_;
};

}  // namespace rankscope::analysis

#endif  // RANKSCOPE_ANALYSIS_IMPORTERS_IMPORTED_RECORDING_H_
