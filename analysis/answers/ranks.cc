// See ranks.h.
#include "analysis/answers/ranks.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analysis/answers/format.h"

namespace rankscope::answers {

RankNames::RankNames(const std::vector<analysis::RankInfo>& ranks) {
  absl::flat_hash_map<int32_t, int> holders;
  for (const auto& rank : ranks) ++holders[rank.rank];
  entries_.reserve(ranks.size());
  for (const auto& rank : ranks) {
    Entry entry;
    entry.rank = rank.rank;
    entry.plain = rank.rank >= 0 && holders[rank.rank] == 1;
    if (entry.plain) {
      entry.text = absl::StrCat("rank ", rank.rank);
    } else if (rank.rank >= 0) {
      entry.text = absl::StrCat("rank ", rank.rank, " (pid ", rank.pid, ")");
    } else {
      entry.text = absl::StrCat("pid ", rank.pid, rank.host.empty() ? "" : " on ", rank.host);
    }
    entries_.push_back(std::move(entry));
  }
}

std::string RankNames::One(uint32_t rank_index) const {
  return rank_index < entries_.size() ? entries_[rank_index].text : absl::StrCat("process #", rank_index);
}

std::string RankNames::Many(const std::vector<uint32_t>& rank_indices, size_t limit) const {
  if (rank_indices.empty()) return "no rank";
  std::vector<int64_t> numbers;
  std::vector<std::string> others;
  for (uint32_t index : rank_indices) {
    if (index < entries_.size() && entries_[index].plain) {
      numbers.push_back(entries_[index].rank);
    } else {
      others.push_back(One(index));
    }
  }
  std::string text;
  if (!numbers.empty()) {
    const bool one = numbers.size() == 1;
    text = absl::StrCat(one ? "rank " : "ranks ", FormatNumberList(std::move(numbers), limit));
  }
  for (size_t i = 0; i < others.size(); ++i) {
    if (i == limit) {
      absl::StrAppend(&text, ", ", others.size() - i, " more");
      break;
    }
    absl::StrAppend(&text, text.empty() ? "" : ", ", others[i]);
  }
  return text;
}

int32_t RankNames::Number(uint32_t rank_index) const {
  return rank_index < entries_.size() ? entries_[rank_index].rank : -1;
}

}  // namespace rankscope::answers
