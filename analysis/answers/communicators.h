// Which communicators the job had: the CommInfo entries of all ranks, grouped into job-wide communicators.
//
// Two entries are the same communicator if NCCL gave them the same hash; where one process has the same (hash, rank)
// more than once, the order of creation tells them apart (docs/design.md, "Keys across ranks"). Entries whose hash
// NCCL did not give are grouped by order of creation, which is an assumption and marked so. Built once a report, from
// Recording::ranks() alone.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_COMMUNICATORS_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_COMMUNICATORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/model.h"

namespace rankscope::answers {

inline constexpr uint32_t kNoCommunicator = 0xffffffffu;

struct Member {
  uint32_t rank_index = 0;
  uint16_t comm_slot = 0;   // CommInfo::slot in that process
  uint32_t comm_index = 0;  // position in RankInfo::comms
  int32_t comm_rank = -1;   // -1 unknown
  bool identity_assumed = false;
};

struct Communicator {
  uint32_t id = 0;                // position in Communicators::all()
  uint64_t hash = 0;              // 0 where NCCL gave none
  uint32_t instance = 0;          // 0, 1, ...: same hash, told apart by the order of creation
  bool identity_known = false;    // the hash is NCCL's
  bool identity_assumed = false;  // at least one member was put here by the order of creation
  bool size_known = false;        // NCCL told it (API v4 on); else inferred from the members seen
  uint32_t size = 0;
  int32_t nodes = 0;  // 0 unknown
  uint32_t api_version = 0;
  std::string name;                         // "" where the user set none
  int64_t init_ns = 0;                      // the first member's
  std::vector<Member> members;              // by comm_rank, then rank_index
  std::vector<int32_t> missing_comm_ranks;  // of 0..size-1, those that no process of the recording is
  bool finalized = false;                   // on all members
};

class Communicators {
 public:
  Communicators() = default;
  explicit Communicators(const std::vector<analysis::RankInfo>& ranks);

  // In the order of their creation.
  const std::vector<Communicator>& all() const { return all_; }
  // What a communicator slot of a process stands for; kNoCommunicator if there is no such slot.
  uint32_t Find(uint32_t rank_index, uint16_t comm_slot) const;
  // Its position among the communicator's members; only meaningful where Find gives one.
  uint32_t MemberOf(uint32_t rank_index, uint16_t comm_slot) const;
  const Communicator& operator[](uint32_t id) const { return all_[id]; }
  // Sentences about what was assumed.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  friend class CommunicatorBuilder;
  struct Place {
    uint32_t id = kNoCommunicator;
    uint32_t member = 0;
  };
  std::vector<Communicator> all_;
  std::vector<std::vector<Place>> places_;  // [rank_index][comm_slot]
  std::vector<std::string> notes_;
};

// "communicator 3 (8 ranks, 'dp')"; short and unique in a report.
std::string CommunicatorLabel(const Communicator& comm);

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_COMMUNICATORS_H_
