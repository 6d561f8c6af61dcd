// See communicators.h.
#include "analysis/answers/communicators.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "analysis/answers/format.h"

namespace rankscope::answers {

namespace {

using analysis::CommInfo;
using analysis::RankInfo;

// What groups entries. kind 0: by NCCL's hash; 1: by order of creation; 2: alone.
struct GroupKey {
  int kind = 0;
  uint64_t value = 0;
  uint64_t order = 0;
  bool operator<(const GroupKey& other) const {
    return std::tie(kind, value, order) < std::tie(other.kind, other.value, other.order);
  }
};

bool IdentityKnown(const CommInfo& comm) { return (comm.flags & schema::kCommIdentityKnown) != 0; }

bool HadEvents(const CommInfo& comm) {
  for (int f = 0; f < schema::kFunctionLimit; ++f) {
    if (comm.launched_by_func[static_cast<size_t>(f)] != 0 || comm.api_by_func[static_cast<size_t>(f)] != 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

class CommunicatorBuilder {
 public:
  CommunicatorBuilder(const std::vector<RankInfo>& ranks, Communicators* out) : ranks_(ranks), out_(out) {}

  void Build() {
    GroupKnown();
    GroupUnknown();
    SplitContradictions();
    Finish();
  }

 private:
  void GroupKnown() {
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      std::map<std::pair<uint64_t, int32_t>, uint64_t> seen;
      for (uint32_t i = 0; i < ranks_[r].comms.size(); ++i) {
        const CommInfo& comm = ranks_[r].comms[i];
        if (!IdentityKnown(comm)) continue;
        const uint64_t instance = seen[{comm.hash, comm.rank}]++;
        Add({0, comm.hash, instance}, r, i, false);
        // Where a hash stands in each process's order of creation, for the entries that have none.
        known_at_[i].insert({comm.hash, instance});
      }
    }
  }

  // Without NCCL's hash only the order of creation is left. A process that never saw an event of a communicator does
  // not know its hash up to API v3: it is put to the one hash that all others have at the same place.
  void GroupUnknown() {
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      for (uint32_t i = 0; i < ranks_[r].comms.size(); ++i) {
        const CommInfo& comm = ranks_[r].comms[i];
        if (IdentityKnown(comm)) continue;
        const auto at = known_at_.find(i);
        if ((comm.flags & schema::kCommIdentityMissing) == 0 && at != known_at_.end() && at->second.size() == 1) {
          const auto& [hash, instance] = *at->second.begin();
          Add({0, hash, instance}, r, i, true);
        } else {
          Add({1, i, 0}, r, i, true);
        }
      }
    }
  }

  void Add(const GroupKey& key, uint32_t rank_index, uint32_t comm_index, bool assumed) {
    const CommInfo& info = ranks_[rank_index].comms[comm_index];
    Member member;
    member.rank_index = rank_index;
    member.comm_index = comm_index;
    member.comm_slot = info.slot;
    member.comm_rank = info.rank;
    member.identity_assumed = assumed;
    groups_[key].push_back(member);
  }

  // Two processes with one communicator rank can't be in one communicator: then the order of creation told nothing,
  // and each entry stays alone.
  void SplitContradictions() {
    std::vector<GroupKey> wrong;
    for (const auto& [key, members] : groups_) {
      if (key.kind != 1) continue;
      std::set<int32_t> ranks;
      bool repeated = false;
      for (const Member& member : members) {
        repeated |= member.comm_rank >= 0 && !ranks.insert(member.comm_rank).second;
      }
      if (repeated) wrong.push_back(key);
    }
    for (const GroupKey& key : wrong) {
      out_->notes_.push_back(absl::StrCat(
          "NCCL gave no identity for the communicators that the processes made as number ", key.value + 1,
          ", and their ranks contradict that they are one: their operations are not matched across ranks"));
      const std::vector<Member> members = groups_[key];
      groups_.erase(key);
      for (const Member& member : members) groups_[{2, key.value, member.rank_index}].push_back(member);
    }
  }

  void Finish() {
    for (auto& [key, members] : groups_) {
      Communicator comm;
      comm.hash = key.kind == 0 ? key.value : 0;
      comm.instance = key.kind == 0 ? static_cast<uint32_t>(key.order) : 0;
      comm.identity_known = key.kind == 0;
      comm.finalized = !members.empty();
      std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
        return std::tie(a.comm_rank, a.rank_index, a.comm_slot) < std::tie(b.comm_rank, b.rank_index, b.comm_slot);
      });
      bool had_events = false;
      for (const Member& member : members) {
        AddFacts(ranks_[member.rank_index].comms[member.comm_index], &comm);
        comm.identity_assumed |= member.identity_assumed;
        had_events |= HadEvents(ranks_[member.rank_index].comms[member.comm_index]);
      }
      comm.members = std::move(members);
      Measure(&comm);
      assumed_ += comm.identity_assumed && had_events && comm.members.size() > 1 ? 1 : 0;
      out_->all_.push_back(std::move(comm));
    }
    std::stable_sort(out_->all_.begin(), out_->all_.end(),
                     [](const Communicator& a, const Communicator& b) { return a.init_ns < b.init_ns; });
    Place();
    if (assumed_ > 0) {
      out_->notes_.push_back(absl::StrCat("identity assumed: NCCL gave no identity for ",
                                          Plural(assumed_, "communicator"), " on some or all ranks (an ",
                                          "old profiler table, or no plugin and NCCL before 2.25); they were put "
                                          "together by their order of creation in each process"));
    }
  }

  static void AddFacts(const CommInfo& info, Communicator* comm) {
    if ((info.flags & schema::kCommSizeKnown) != 0 && info.ranks > 0) {
      comm->size_known = true;
      comm->size = std::max(comm->size, static_cast<uint32_t>(info.ranks));
      comm->nodes = std::max(comm->nodes, info.nodes);
    }
    comm->api_version = std::max(comm->api_version, info.api_version);
    if (comm->name.empty()) comm->name = info.name;
    if (info.init_ns != 0 && (comm->init_ns == 0 || info.init_ns < comm->init_ns)) comm->init_ns = info.init_ns;
    comm->finalized &= (info.flags & schema::kCommFinalized) != 0;
  }

  static void Measure(Communicator* comm) {
    std::vector<int32_t> seen;
    for (const Member& member : comm->members) {
      if (member.comm_rank >= 0) seen.push_back(member.comm_rank);
    }
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    if (!comm->size_known) {
      const uint32_t by_rank = seen.empty() ? 0u : static_cast<uint32_t>(seen.back()) + 1u;
      comm->size = std::max(by_rank, static_cast<uint32_t>(comm->members.size()));
    }
    // A member of unknown rank fills some place; which one is not known.
    const size_t unknown = comm->members.size() - seen.size();
    if (seen.size() + unknown >= comm->size) return;
    // Sizes come from files: a list of missing ranks is kept to what a job can have.
    constexpr uint32_t kLargestJob = 1u << 20;
    size_t next = 0;
    for (uint32_t r = 0; r < std::min(comm->size, kLargestJob); ++r) {
      if (next < seen.size() && seen[next] == static_cast<int32_t>(r)) {
        ++next;
      } else {
        comm->missing_comm_ranks.push_back(static_cast<int32_t>(r));
      }
    }
  }

  void Place() {
    out_->places_.resize(ranks_.size());
    for (uint32_t id = 0; id < out_->all_.size(); ++id) {
      Communicator& comm = out_->all_[id];
      comm.id = id;
      for (uint32_t m = 0; m < comm.members.size(); ++m) {
        auto& places = out_->places_[comm.members[m].rank_index];
        const uint16_t slot = comm.members[m].comm_slot;
        if (slot >= places.size()) places.resize(size_t{slot} + 1);
        places[slot] = {id, m};
      }
    }
  }

  const std::vector<RankInfo>& ranks_;
  Communicators* out_;
  std::map<GroupKey, std::vector<Member>> groups_;
  std::map<uint32_t, std::set<std::pair<uint64_t, uint64_t>>> known_at_;  // order of creation -> (hash, instance)
  uint64_t assumed_ = 0;
};

Communicators::Communicators(const std::vector<analysis::RankInfo>& ranks) {
  CommunicatorBuilder(ranks, this).Build();
}

uint32_t Communicators::Find(uint32_t rank_index, uint16_t comm_slot) const {
  if (rank_index >= places_.size() || comm_slot >= places_[rank_index].size()) return kNoCommunicator;
  return places_[rank_index][comm_slot].id;
}

uint32_t Communicators::MemberOf(uint32_t rank_index, uint16_t comm_slot) const {
  if (Find(rank_index, comm_slot) == kNoCommunicator) return 0;
  return places_[rank_index][comm_slot].member;
}

std::string CommunicatorLabel(const Communicator& comm) {
  return absl::StrCat("communicator ", comm.id, " (", Plural(comm.size, "rank"),
                      comm.name.empty() ? "" : absl::StrCat(", '", comm.name, "'"), ")");
}

}  // namespace rankscope::answers
