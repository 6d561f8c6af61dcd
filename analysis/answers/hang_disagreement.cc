// See hang_disagreement.h.
#include "analysis/answers/hang_disagreement.h"

#include <algorithm>

#include "analysis/answers/names.h"

namespace rankscope::answers {

namespace {

bool Contains(const std::vector<uint32_t>& members, uint32_t member) {
  return std::find(members.begin(), members.end(), member) != members.end();
}

// Members that are in `here` and have not reached `there`.
std::vector<uint32_t> OnlyIn(const WaitingOperation& here, const WaitingOperation& there) {
  std::vector<uint32_t> members;
  for (const WaitingPart& part : here.in_it) {
    if (Contains(there.not_reached, part.member)) members.push_back(part.member);
  }
  return members;
}

// Where a launched collective stands among all collectives that the rank launched on the communicator, from 0; -1
// unknown.
int64_t PositionOf(const Member& member, const std::vector<analysis::RankInfo>& ranks, const WaitingOperation& op) {
  if (op.key.operation_class != OperationClass::kCollective) return -1;
  const analysis::RankInfo& rank = ranks[member.rank_index];
  int64_t launched = 0;
  for (uint8_t f = 0; f < schema::kFunctionLimit; ++f) {
    if (!IsPointToPoint(f)) launched += static_cast<int64_t>(rank.comms[member.comm_index].launched_by_func[f]);
  }
  int64_t begin_ns = 0;
  for (const WaitingPart& part : op.in_it) {
    if (part.rank_index == member.rank_index) begin_ns = part.arrival_ns;
  }
  int64_t later = 0;
  for (const auto& slot : rank.in_flight) {
    const bool launch = (slot.state & schema::kSlotIssued) != 0 && !IsPointToPoint(slot.func);
    if (launch && slot.comm == member.comm_slot && slot.begin_ns > begin_ns) ++later;
  }
  return launched - 1 - later;
}

}  // namespace

std::vector<KindDisagreement> FindDisagreements(const Communicator& comm,
                                                const std::vector<analysis::RankInfo>& ranks,
                                                const std::vector<WaitingOperation>& operations) {
  std::vector<KindDisagreement> found;
  for (uint32_t a = 0; a < operations.size(); ++a) {
    for (uint32_t b = a + 1; b < operations.size(); ++b) {
      const OperationKey& first = operations[a].key;
      const OperationKey& second = operations[b].key;
      if (first.func == second.func || first.operation_class == OperationClass::kPointToPoint ||
          second.operation_class == OperationClass::kPointToPoint) {
        continue;
      }
      KindDisagreement one;
      one.operation_a = a;
      one.operation_b = b;
      one.members_a = OnlyIn(operations[a], operations[b]);
      one.members_b = OnlyIn(operations[b], operations[a]);
      if (one.members_a.empty() || one.members_b.empty()) continue;
      const int64_t position_a = PositionOf(comm.members[one.members_a[0]], ranks, operations[a]);
      const int64_t position_b = PositionOf(comm.members[one.members_b[0]], ranks, operations[b]);
      if (position_a == position_b) one.position = position_a;
      found.push_back(std::move(one));
    }
  }
  return found;
}

std::vector<FunctionProgress> CompareCounters(const Communicator& comm,
                                              const std::vector<analysis::RankInfo>& ranks) {
  const auto info = [&](const Member& m) -> const analysis::CommInfo& {
    return ranks[m.rank_index].comms[m.comm_index];
  };
  std::vector<FunctionProgress> list;
  for (uint8_t f = 0; f < schema::kFunctionLimit; ++f) {
    if (IsPointToPoint(f)) continue;  // ranks need not send and receive equally often
    FunctionProgress progress;
    progress.func = f;
    progress.by_calls = std::all_of(comm.members.begin(), comm.members.end(),
                                    [&](const Member& m) { return info(m).launched_by_func[f] == 0; });
    const auto count = [&](const Member& m) {
      return progress.by_calls ? info(m).api_by_func[f] : info(m).launched_by_func[f];
    };
    progress.least = UINT64_MAX;
    for (const Member& member : comm.members) {
      progress.most = std::max(progress.most, count(member));
      progress.least = std::min(progress.least, count(member));
    }
    if (progress.most == progress.least) continue;
    for (uint32_t m = 0; m < comm.members.size(); ++m) {
      if (count(comm.members[m]) < progress.most) progress.behind.push_back(m);
    }
    list.push_back(std::move(progress));
  }
  return list;
}

}  // namespace rankscope::answers
