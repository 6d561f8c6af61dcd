// See report_words.h.
#include "analysis/answers/report_words.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "analysis/answers/bandwidth.h"
#include "analysis/answers/format.h"
#include "analysis/answers/names.h"

namespace rankscope::answers {

std::string OperationLabel(const OperationKey& key) {
  switch (key.operation_class) {
    case OperationClass::kPointToPoint:
      return absl::StrCat("Send/Recv ", key.sender, "->", key.receiver, " #", key.number);
    case OperationClass::kApiOnly:
      return absl::StrCat(FunctionName(key.func), " call #", key.number);
    case OperationClass::kCopyEngine:
      return absl::StrCat(FunctionName(key.func), " (copy engine) #", key.number);
    case OperationClass::kCollective:
      break;
  }
  return absl::StrCat(FunctionName(key.func), " #", key.number,
                      key.repeat == 0 ? "" : absl::StrCat(" (repeat ", key.repeat, ")"));
}

std::string OperationDetail(uint8_t func, uint64_t bytes, uint8_t dtype, uint8_t algo, uint8_t proto) {
  std::string text = FormatBytes(bytes);
  if (BytesArePerRank(func)) text += " a rank";
  absl::StrAppend(&text, ", ", DataTypeName(dtype));
  if (!AlgorithmName(algo).empty()) absl::StrAppend(&text, ", ", AlgorithmName(algo), " ", ProtocolName(proto));
  return text;
}

const char* VerdictKey(SkewVerdict verdict) {
  switch (verdict) {
    case SkewVerdict::kNothingToCompare:
      return "nothing_to_compare";
    case SkewVerdict::kNobody:
      return "nobody";
    case SkewVerdict::kStragglers:
      return "stragglers";
  }
  return "unknown";
}

const char* VerdictKey(HangVerdict verdict) {
  switch (verdict) {
    case HangVerdict::kNothingWaits:
      return "nothing_waits";
    case HangVerdict::kRanksMissing:
      return "ranks_missing";
    case HangVerdict::kDisagreement:
      return "disagreement";
    case HangVerdict::kStuckTogether:
      return "stuck_together";
  }
  return "unknown";
}

const char* ClassKey(OperationClass operation_class) {
  switch (operation_class) {
    case OperationClass::kCollective:
      return "collective";
    case OperationClass::kPointToPoint:
      return "point_to_point";
    case OperationClass::kCopyEngine:
      return "copy_engine";
    case OperationClass::kApiOnly:
      return "api_only";
  }
  return "unknown";
}

const char* ProgressKey(OperationProgress progress) {
  switch (progress) {
    case OperationProgress::kNotAnOperation:
      return "not_an_operation";
    case OperationProgress::kFinished:
      return "finished";
    case OperationProgress::kUnfinished:
      return "unfinished";
    case OperationProgress::kNotObservable:
      return "not_observable";
  }
  return "unknown";
}

const char* StateKey(RankState state) {
  switch (state) {
    case RankState::kAlive:
      return "alive";
    case RankState::kGone:
      return "gone";
    case RankState::kSaidGoodbye:
      return "closed";
  }
  return "unknown";
}

std::vector<std::string> MismatchKeys(uint8_t mismatches) {
  std::vector<std::string> keys;
  if ((mismatches & kMismatchBytes) != 0) keys.emplace_back("bytes");
  if ((mismatches & kMismatchType) != 0) keys.emplace_back("data_type");
  if ((mismatches & kMismatchRoot) != 0) keys.emplace_back("root");
  return keys;
}

std::string CommRanksText(const std::vector<int32_t>& comm_ranks) {
  return absl::StrCat(comm_ranks.size() == 1 ? "communicator rank " : "communicator ranks ",
                      FormatNumberList({comm_ranks.begin(), comm_ranks.end()}));
}

std::string MembersText(const RankNames& names, const Communicator& comm, const std::vector<uint32_t>& members) {
  std::vector<uint32_t> rank_indices;
  std::vector<int32_t> comm_ranks;
  std::set<uint32_t> different;
  for (const Member& member : comm.members) different.insert(member.rank_index);
  for (uint32_t m : members) {
    if (m >= comm.members.size()) continue;
    rank_indices.push_back(comm.members[m].rank_index);
    comm_ranks.push_back(comm.members[m].comm_rank);
  }
  if (different.size() < comm.members.size() && !comm_ranks.empty()) return CommRanksText(comm_ranks);
  return names.Many(rank_indices);
}

}  // namespace rankscope::answers
