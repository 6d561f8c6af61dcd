// How ranks are named in answers: by their job rank where it is known and only one process has it, else by process.
//
// Built once a report from Recording::ranks(). Answers refer to ranks by rank_index (position in that list).
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_RANKS_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_RANKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/model.h"

namespace rankscope::answers {

class RankNames {
 public:
  RankNames() = default;
  explicit RankNames(const std::vector<analysis::RankInfo>& ranks);
  // "rank 3", or "pid 1234 on node7" where the rank is unknown, or "rank 3 (pid 1234)" where two processes had it.
  std::string One(uint32_t rank_index) const;
  // "ranks 0-7, 12" / "rank 3" / "ranks 0, 1 and pid 1234 on node7"; "no rank" for an empty list.
  std::string Many(const std::vector<uint32_t>& rank_indices, size_t limit = 12) const;
  // The job rank, -1 where it is unknown.
  int32_t Number(uint32_t rank_index) const;

 private:
  struct Entry {
    int32_t rank = -1;
    bool plain = false;  // the number alone names it
    std::string text;
  };
  std::vector<Entry> entries_;
};

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_RANKS_H_
