// See clock_samples.h.
#include "analysis/alignment/clock_samples.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "analysis/alignment/clock_curve.h"
#include "analysis/answers/operation_feed.h"
#include "analysis/median.h"

namespace rankscope::alignment {

namespace {

using answers::MatchedOperation;
using answers::Participant;

// Who can't leave before everybody has come. Not Broadcast or Scatter (the root may leave early), not Reduce or
// Gather (all but the root may), not Send (it may be buffered).
bool HoldsEverybody(uint8_t func) {
  switch (static_cast<schema::Function>(func)) {
    case schema::Function::kAllReduce:
    case schema::Function::kAllGather:
    case schema::Function::kReduceScatter:
    case schema::Function::kAlltoAll:
      return true;
    default:
      return false;
  }
}

class Collector : public answers::OperationSink {
 public:
  Collector(const answers::Communicators& communicators, const std::vector<uint32_t>& host_of,
            const SampleOptions& options)
      : communicators_(communicators), host_of_(host_of), most_parts_(options.most_parts) {}

  void OnOperation(const MatchedOperation& op) override {
    const bool sure = op.complete && !op.uncertain && !op.first_of_comm && op.mismatches == 0;
    const bool collective = op.key.operation_class == answers::OperationClass::kCollective;
    if (!sure || !collective || !HoldsEverybody(op.key.func) || op.bytes == 0) return;
    if (!FillHosts(op)) return;
    ++samples_.seen;
    SampledOperation sampled;
    sampled.comm = op.key.comm;
    sampled.first = static_cast<uint32_t>(samples_.parts.size());
    sampled.count = static_cast<uint32_t>(hosts_.size());
    sampled.shortest_ns = INT64_MAX;
    for (Host& host : hosts_) {
      const int64_t middle_end_ns = analysis::UpperMedian(&host.ends_ns);
      const int64_t first_end_ns = *std::min_element(host.ends_ns.begin(), host.ends_ns.end());
      samples_.parts.push_back({host.host, host.arrival_ns, first_end_ns, middle_end_ns});
      sampled.shortest_ns = std::min(sampled.shortest_ns, middle_end_ns - host.arrival_ns);
    }
    samples_.operations.push_back(sampled);
    if (samples_.parts.size() > most_parts_) Thin();
  }

  ClockSamples Take() { return std::move(samples_); }

 private:
  struct Host {
    uint32_t host = 0;
    int64_t arrival_ns = INT64_MIN;
    std::vector<int64_t> ends_ns;
  };

  // The operation's hosts, two or more, each with an end that was observed; false where that is not so.
  bool FillHosts(const MatchedOperation& op) {
    hosts_.clear();
    place_.clear();
    const auto& members = communicators_[op.key.comm].members;
    auto source = schema::CompletionSource::kNone;
    for (const Participant& part : op.participants) {
      if (part.unfinished || !IsTime(part.arrival_ns)) return false;
      const uint32_t host = host_of_[members[part.member].rank_index];
      const auto [at, is_new] = place_.emplace(host, hosts_.size());
      if (is_new) hosts_.push_back({host, INT64_MIN, {}});
      Host& mine = hosts_[at->second];
      mine.arrival_ns = std::max(mine.arrival_ns, part.arrival_ns);
      // Inside a node some ranks have nothing on the network, whose end is what is observed where there is no GPU's.
      if (!IsTime(part.completion_ns)) continue;
      if (source != schema::CompletionSource::kNone && part.source != source) return false;
      source = part.source;
      mine.ends_ns.push_back(part.completion_ns);
    }
    return hosts_.size() >= 2 &&
           std::none_of(hosts_.begin(), hosts_.end(), [](const Host& host) { return host.ends_ns.empty(); });
  }

  void Thin() {
    ClockSamples kept;
    kept.seen = samples_.seen;
    absl::flat_hash_map<uint32_t, size_t> waiting;  // by communicator: the one before, which has no partner yet
    std::vector<bool> drop(samples_.operations.size());
    for (size_t i = 0; i < samples_.operations.size(); ++i) {
      const auto [at, is_new] = waiting.emplace(samples_.operations[i].comm, i);
      if (is_new) continue;
      const size_t before = at->second;
      drop[samples_.operations[before].shortest_ns <= samples_.operations[i].shortest_ns ? i : before] = true;
      waiting.erase(at);
    }
    for (size_t i = 0; i < samples_.operations.size(); ++i) {
      if (drop[i]) continue;
      SampledOperation op = samples_.operations[i];
      const auto first = samples_.parts.begin() + op.first;
      op.first = static_cast<uint32_t>(kept.parts.size());
      kept.parts.insert(kept.parts.end(), first, first + op.count);
      kept.operations.push_back(op);
    }
    samples_ = std::move(kept);
  }

  const answers::Communicators& communicators_;
  const std::vector<uint32_t>& host_of_;
  const size_t most_parts_;
  ClockSamples samples_;
  std::vector<Host> hosts_;                      // of the operation at hand
  absl::flat_hash_map<uint32_t, size_t> place_;  // host -> position in hosts_
};

}  // namespace

ClockSamples CollectClockSamples(const analysis::Recording& recording, const std::vector<uint32_t>& host_of,
                                 const SampleOptions& options) {
  const auto& ranks = recording.ranks();
  const answers::Communicators communicators(ranks);
  Collector collector(communicators, host_of, options);
  answers::OperationFeed feed(ranks, communicators, {}, &collector);
  const auto stream = recording.Events(feed.Kinds());
  std::vector<analysis::Event> batch(4096);
  uint64_t events = 0, told = 0;
  while (const size_t count = stream->Read(absl::MakeSpan(batch))) {
    for (size_t i = 0; i < count; ++i) {
      if (batch[i].rank_index < ranks.size()) feed.Add(batch[i]);
    }
    events += count;
    if (options.progress && events - told >= 1'000'000) options.progress(told = events);
  }
  feed.Finish();
  return collector.Take();
}

}  // namespace rankscope::alignment
