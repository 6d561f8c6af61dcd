// What every importer needs to make a rank: interned names, threads, communicators, the bookkeeping of kinds.
//
// One thread, one rank. Ids are as in a ring: names from 1, lanes and communicator slots from 0.
#ifndef RANKSCOPE_ANALYSIS_IMPORTERS_RANK_BUILDER_H_
#define RANKSCOPE_ANALYSIS_IMPORTERS_RANK_BUILDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "analysis/importers/imported_recording.h"
#include "analysis/model.h"

namespace rankscope::analysis {

class RankBuilder {
 public:
  RankInfo& info() { return rank_.info; }
  std::vector<Event>& events() { return rank_.events; }

  uint32_t Name(absl::string_view text);
  // A thread's lane; a new one for a thread that was not seen. Threads beyond 65,000 share the last lane.
  uint16_t Lane(int64_t thread_id);
  // Does nothing for a thread that has no lane.
  void NameThread(int64_t thread_id, absl::string_view name);
  // The slot of the communicator of this identity.
  uint16_t Communicator(const std::string& name, const std::vector<int32_t>& ranks, int32_t size);
  // Its collectives are numbered by counting from the trace's begin.
  void MarkCounted(uint16_t comm);
  void Lose(schema::LossReason reason, uint64_t count = 1) { losses_[static_cast<size_t>(reason)] += count; }
  uint64_t lost(schema::LossReason reason) const { return losses_[static_cast<size_t>(reason)]; }
  Event& Add(schema::EventKind kind, uint16_t lane, int64_t begin_ns, int64_t end_ns);
  void Warn(std::string sentence) { rank_.warnings.push_back(std::move(sentence)); }

  // Counts an operation that was launched, and how long its kernel ran (0: not known).
  void CountOperation(uint16_t comm, schema::Function function, uint64_t bytes, int64_t duration_ns);

  // Sorts, counts, and gives the rank away.
  ImportedRank Finish(int64_t base_ns);

 private:
  ImportedRank rank_;
  absl::flat_hash_map<std::string, uint32_t> names_;
  absl::flat_hash_map<int64_t, uint16_t> lanes_;
  uint64_t losses_[schema::kLossReasonLimit] = {};
};

}  // namespace rankscope::analysis

#endif  // RANKSCOPE_ANALYSIS_IMPORTERS_RANK_BUILDER_H_
