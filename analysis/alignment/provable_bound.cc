// See provable_bound.h.
#include "analysis/alignment/provable_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rankscope::alignment {

namespace {

constexpr double kFar = std::numeric_limits<double>::infinity();
// An operation that seems to end this long before somebody came, beyond the clocks' errors, was not put together
// right.
constexpr double kContradictionNs = 20'000;
// Of an operation's hosts, so many that came last and that ended first are set against all others: with more the
// bound can hardly get tighter.
constexpr size_t kMostExtremes = 64;

class GroupBound {
 public:
  GroupBound(const ClockSamples& samples, uint32_t reference, const std::vector<double>& shape_ns,
             std::vector<HostClock>* clocks)
      : samples_(samples), group_((*clocks)[reference].group), shape_ns_(shape_ns), clocks_(*clocks) {
    place_.assign(clocks_.size(), 0);
    hosts_.push_back(reference);
    for (uint32_t h = 0; h < clocks_.size(); ++h) {
      if (clocks_[h].group != group_ || h == reference) continue;
      place_[h] = static_cast<uint32_t>(hosts_.size());
      hosts_.push_back(h);
    }
    slack_ns_.assign(hosts_.size() * hosts_.size(), kFar);
  }

  void Add(const SampledOperation& op) {
    parts_.clear();
    const int64_t base_ns = samples_.parts[op.first].arrival_ns;
    for (uint32_t i = 0; i < op.count; ++i) {
      const HostPart& part = samples_.parts[op.first + i];
      const HostClock& clock = clocks_[part.host];
      if (clock.group != group_) continue;
      parts_.push_back({place_[part.host], shape_ns_[part.host],
                        static_cast<double>(part.arrival_ns - base_ns) + clock.curve.At(part.arrival_ns),
                        static_cast<double>(part.first_end_ns - base_ns) + clock.curve.At(part.first_end_ns),
                        static_cast<double>(clock.error_ns)});
    }
    if (parts_.size() < 2) return;
    first_ = last_ = parts_;
    const auto few = static_cast<std::ptrdiff_t>(std::min(kMostExtremes, parts_.size()));
    std::partial_sort(first_.begin(), first_.begin() + few, first_.end(),
                      [](const Part& a, const Part& b) { return a.end_ns < b.end_ns; });
    std::partial_sort(last_.begin(), last_.begin() + few, last_.end(),
                      [](const Part& a, const Part& b) { return a.arrival_ns > b.arrival_ns; });
    if (Contradicts()) {
      ++contradictions_;
      return;
    }
    for (std::ptrdiff_t i = 0; i < few; ++i) {
      for (const Part& part : parts_) {
        Limit(first_[static_cast<size_t>(i)], part);
        Limit(part, last_[static_cast<size_t>(i)]);
      }
    }
  }

  void Finish() {
    // The estimate may itself lie outside of what is possible, by so much.
    double outside_ns = 0;
    for (double& slack_ns : slack_ns_) {
      outside_ns = std::max(outside_ns, -slack_ns);
      slack_ns = std::max(slack_ns, 0.0);
    }
    const std::vector<double> above_ns = Distances(false), below_ns = Distances(true);
    for (size_t i = 0; i < hosts_.size(); ++i) {
      HostClock& clock = clocks_[hosts_[i]];
      clock.contradictions = contradictions_;
      const double bound_ns = std::max(above_ns[i], below_ns[i]) + shape_ns_[hosts_[i]] + outside_ns;
      if (bound_ns < 0x1p60) clock.bound_ns = i == 0 ? 0 : std::llround(std::ceil(bound_ns));
    }
  }

 private:
  struct Part {
    uint32_t place = 0;
    double shape_ns = 0;
    double arrival_ns = 0, end_ns = 0;  // corrected; after the operation's first part's arrival on its own clock
    double error_ns = 0;
  };

  // Of two hosts the one ended before the other came, by more than their clocks can be wrong.
  bool Contradicts() const {
    for (size_t i = 0; i < 2; ++i) {
      for (size_t j = 0; j < 2; ++j) {
        const Part &a = first_[i], &b = last_[j];
        const double doubt_ns = kContradictionNs + a.error_ns + b.error_ns + a.shape_ns + b.shape_ns;
        if (a.place != b.place && a.end_ns + doubt_ns < b.arrival_ns) return true;
      }
    }
    return false;
  }

  // error(b) - error(a) <= end(a) - arrival(b), as the clocks show them.
  void Limit(const Part& a, const Part& b) {
    if (a.place == b.place) return;
    double& slack_ns = slack_ns_[a.place * hosts_.size() + b.place];
    slack_ns = std::min(slack_ns, a.end_ns - b.arrival_ns + a.shape_ns + b.shape_ns);
  }

  // Shortest paths from the reference (Dijkstra's, on a dense graph); reversed: to it.
  std::vector<double> Distances(bool reversed) const {
    const size_t n = hosts_.size();
    std::vector<double> distance(n, kFar);
    std::vector<bool> done(n, false);
    distance[0] = 0;
    for (size_t round = 0; round < n; ++round) {
      size_t nearest = n;
      for (size_t i = 0; i < n; ++i) {
        if (!done[i] && (nearest == n || distance[i] < distance[nearest])) nearest = i;
      }
      if (distance[nearest] == kFar) break;
      done[nearest] = true;
      for (size_t i = 0; i < n; ++i) {
        const double edge = reversed ? slack_ns_[i * n + nearest] : slack_ns_[nearest * n + i];
        distance[i] = std::min(distance[i], distance[nearest] + edge);
      }
    }
    return distance;
  }

  const ClockSamples& samples_;
  const int32_t group_;
  const std::vector<double>& shape_ns_;
  std::vector<HostClock>& clocks_;
  std::vector<uint32_t> hosts_, place_;  // the reference first; by host
  std::vector<double> slack_ns_;         // [a][b] in places: the largest error(b) - error(a)
  uint64_t contradictions_ = 0;
  std::vector<Part> parts_, first_, last_;  // of the operation at hand
};

}  // namespace

void BoundErrors(const ClockSamples& samples, const std::vector<uint32_t>& reference,
                 const std::vector<double>& shape_ns, std::vector<HostClock>* clocks) {
  std::vector<std::vector<const SampledOperation*>> of_group(reference.size());
  for (const SampledOperation& op : samples.operations) {
    // An operation ties its hosts together, or there were too few of its kind for any of them.
    for (uint32_t i = 0; i < op.count; ++i) {
      const int32_t group = (*clocks)[samples.parts[op.first + i].host].group;
      if (group < 0) continue;
      of_group[static_cast<size_t>(group)].push_back(&op);
      break;
    }
  }
  for (size_t g = 0; g < reference.size(); ++g) {
    GroupBound bound(samples, reference[g], shape_ns, clocks);
    for (const SampledOperation* op : of_group[g]) bound.Add(*op);
    bound.Finish();
  }
}

}  // namespace rankscope::alignment
