// See rank_builder.h.
#include "analysis/importers/rank_builder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analysis/recording/clean_text.h"

namespace rankscope::analysis {
namespace {

constexpr uint16_t kLastLane = 65000;
constexpr size_t kMostCommunicators = 65000;

// FNV-1a (64 bits), for an identity that is the same in every rank's trace.
uint64_t Hash(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

uint32_t RankBuilder::Name(absl::string_view text) {
  if (text.empty()) return 0;
  const auto found = names_.find(text);
  if (found != names_.end()) return found->second;
  rank_.info.names.push_back(CleanText(text));
  const auto id = static_cast<uint32_t>(rank_.info.names.size());
  names_.emplace(std::string(text), id);
  return id;
}

uint16_t RankBuilder::Lane(int64_t thread_id) {
  const auto [entry, is_new] =
      lanes_.try_emplace(thread_id, static_cast<uint16_t>(std::min<size_t>(lanes_.size(), kLastLane)));
  if (is_new && entry->second < kLastLane) {
    ThreadInfo thread;
    thread.lane = entry->second;
    thread.thread_id = static_cast<uint32_t>(thread_id);
    thread.pthread_low = static_cast<uint32_t>(thread_id);
    rank_.info.threads.push_back(std::move(thread));
  }
  return entry->second;
}

void RankBuilder::NameThread(int64_t thread_id, absl::string_view name) {
  const auto lane = lanes_.find(thread_id);
  if (lane == lanes_.end() || lane->second >= rank_.info.threads.size()) return;
  rank_.info.threads[lane->second].name = CleanText(name);
}

uint16_t RankBuilder::Communicator(const std::string& name, const std::vector<int32_t>& ranks, int32_t size) {
  std::string identity = absl::StrCat(name, "/", size);
  for (const int32_t rank : ranks) absl::StrAppend(&identity, ",", rank);
  const uint64_t hash = Hash(identity);
  std::vector<CommInfo>& comms = rank_.info.comms;
  for (const CommInfo& comm : comms) {
    if (comm.hash == hash) return comm.slot;
  }
  if (comms.size() >= kMostCommunicators) return schema::kCommUnknown;
  CommInfo comm;
  comm.slot = static_cast<uint16_t>(comms.size());
  comm.hash = hash;
  comm.ranks = size;
  comm.flags = schema::kCommIdentityKnown | (size > 0 ? schema::kCommSizeKnown : 0u);
  const auto own = std::find(ranks.begin(), ranks.end(), rank_.info.rank);
  if (rank_.info.rank >= 0 && own != ranks.end()) comm.rank = static_cast<int32_t>(own - ranks.begin());
  comm.name = CleanText(name);
  comms.push_back(std::move(comm));
  return comms.back().slot;
}

void RankBuilder::MarkCounted(uint16_t comm) {
  if (rank_.counted_comms.size() <= comm) rank_.counted_comms.resize(comm + size_t{1});
  rank_.counted_comms[comm] = true;
}

Event& RankBuilder::Add(schema::EventKind kind, uint16_t lane, int64_t begin_ns, int64_t end_ns) {
  Event event;
  event.kind = static_cast<uint16_t>(kind);
  event.lane = lane;
  event.begin_ns = begin_ns;
  event.end_ns = end_ns;
  rank_.events.push_back(event);
  return rank_.events.back();
}

void RankBuilder::CountOperation(uint16_t comm, schema::Function function, uint64_t bytes, int64_t duration_ns) {
  const auto func = static_cast<uint8_t>(function);
  if (comm < rank_.info.comms.size()) ++rank_.info.comms[comm].launched_by_func[func];
  const auto size_class = static_cast<uint8_t>(schema::SizeClass(bytes));
  std::vector<TotalInfo>& totals = rank_.info.totals;
  auto total = std::find_if(totals.begin(), totals.end(),
                            [&](const TotalInfo& t) { return t.func == func && t.size_class == size_class; });
  if (total == totals.end()) {
    totals.emplace_back();
    total = totals.end() - 1;
    total->func = func;
    total->size_class = size_class;
  }
  ++total->launched;
  total->bytes += bytes;
  if (duration_ns <= 0) return;
  ++total->completed;
  total->duration_ns += duration_ns;
  total->duration_max_ns = std::max(total->duration_max_ns, duration_ns);
  // Ticks are nanoseconds here.
  ++total->histogram[schema::DurationBucket(static_cast<uint64_t>(duration_ns))];
}

ImportedRank RankBuilder::Finish(int64_t base_ns) {
  RankInfo& info = rank_.info;
  uint64_t kinds[schema::kEventKindLimit] = {};
  for (Event& event : rank_.events) {
    event.begin_ns += base_ns;
    event.end_ns += base_ns;
    ++kinds[event.kind];
    if (info.start_ns == 0 || event.begin_ns < info.start_ns) info.start_ns = event.begin_ns;
    info.last_event_ns = std::max(info.last_event_ns, event.end_ns);
  }
  info.read_ns = info.last_event_ns;
  info.closed = true;
  std::stable_sort(rank_.events.begin(), rank_.events.end(),
                   [](const Event& a, const Event& b) { return a.end_ns < b.end_ns; });
  for (int kind = 0; kind < schema::kEventKindLimit; ++kind) {
    if (kinds[kind] == 0) continue;
    info.record_kinds |= uint64_t{1} << kind;
    info.kinds.push_back({static_cast<uint16_t>(kind), kinds[kind], kinds[kind], 0, 0});
  }
  for (int reason = 0; reason < schema::kLossReasonLimit; ++reason) {
    if (losses_[reason] > 0) info.losses.push_back({static_cast<uint32_t>(reason), losses_[reason]});
  }
  return std::move(rank_);
}

}  // namespace rankscope::analysis
