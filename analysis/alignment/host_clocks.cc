// See host_clocks.h.
#include "analysis/alignment/host_clocks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "analysis/alignment/provable_bound.h"
#include "analysis/median.h"

namespace rankscope::alignment {

namespace {

// Rounds in which the operations' ends and the hosts' curves are found from each other.
constexpr int kRounds = 3;
// NCCL's ranks do not end an operation at one moment: on 8 GPUs of one host, medians of end differences were off by
// up to 1.5 us (docs/analysis.md, "Clocks"). No estimate is called better than that.
constexpr double kLeastErrorNs = 2000;
// Long operations are left out of the estimate where their ends lie this much wider than those of short ones ...
constexpr double kWider = 2;
// ... as long as a communicator keeps so many.
constexpr size_t kEnoughOperations = 256;

class Estimator {
 public:
  Estimator(const ClockSamples& samples, uint32_t hosts)
      : samples_(samples),
        clocks_(hosts),
        fits_(hosts),
        used_(samples.operations.size(), true),
        end_ns_(samples.operations.size(), 0) {}

  std::vector<HostClock> Run() {
    FindGroups();
    SpreadFromReferences();
    Refine();
    if (LeaveOutLongOnes()) Refine();
    const std::vector<ClockCurve> gauged = Gauged();
    for (uint32_t h = 0; h < clocks_.size(); ++h) {
      HostClock& clock = clocks_[h];
      if (clock.group < 0) continue;
      clock.curve = gauged[h];
      if (reference_[clock.group] == h) {
        clock.error_ns = 0;
        continue;
      }
      const CurveFit &own = fits_[h], &base = fits_[reference_[clock.group]];
      const double error_ns = own.spread_ns + base.spread_ns + 3 * (own.noise_ns + base.noise_ns);
      clock.error_ns = std::llround(std::max(kLeastErrorNs, error_ns));
    }
    Bound();
    return std::move(clocks_);
  }

 private:
  const HostPart* PartsOf(size_t op) const { return samples_.parts.data() + samples_.operations[op].first; }
  uint32_t CountOf(size_t op) const { return samples_.operations[op].count; }

  // Groups: hosts that operations tie together, each tie by as many operations as a curve needs.
  void FindGroups() {
    std::vector<uint32_t> parent(clocks_.size());
    std::iota(parent.begin(), parent.end(), 0u);
    const auto find = [&](uint32_t h) {
      while (parent[h] != h) h = parent[h] = parent[parent[h]];
      return h;
    };
    // Hosts of one communicator meet in all of its operations.
    std::vector<std::pair<uint32_t, size_t>> of_comm;  // communicator, operation
    for (size_t op = 0; op < used_.size(); ++op) of_comm.emplace_back(samples_.operations[op].comm, op);
    std::sort(of_comm.begin(), of_comm.end());
    for (size_t first = 0; first < of_comm.size();) {
      size_t last = first;
      while (last < of_comm.size() && of_comm[last].first == of_comm[first].first) ++last;
      if (last - first >= kLeastPoints) {
        const HostPart* parts = PartsOf(of_comm[first].second);
        for (uint32_t i = 1; i < CountOf(of_comm[first].second); ++i) {
          const uint32_t a = find(parts[0].host), b = find(parts[i].host);
          parent[std::max(a, b)] = std::min(a, b);
        }
      } else {
        for (size_t i = first; i < last; ++i) used_[of_comm[i].second] = false;
      }
      first = last;
    }
    std::vector<uint32_t> size(clocks_.size(), 0);
    for (uint32_t h = 0; h < clocks_.size(); ++h) ++size[find(h)];
    for (uint32_t h = 0; h < clocks_.size(); ++h) {
      const uint32_t root = find(h);
      if (size[root] < 2) continue;
      if (root == h) {  // the lowest of its group comes first
        clocks_[h].group = static_cast<int32_t>(reference_.size());
        reference_.push_back(h);
      }
      clocks_[h].group = clocks_[root].group;
    }
  }

  // The first curves: from the reference outwards, operation by operation that reaches a host which is known.
  void SpreadFromReferences() {
    std::vector<bool> known(clocks_.size(), false);
    for (const uint32_t h : reference_) {
      known[h] = true;
      fits_[h].fitted = true;
    }
    for (bool grew = true; grew;) {
      std::vector<std::vector<CurvePoint>> points(clocks_.size());
      for (size_t op = 0; op < used_.size(); ++op) {
        if (!used_[op] || !FindEnd(op, known)) continue;
        for (uint32_t i = 0; i < CountOf(op); ++i) AddPoint(op, PartsOf(op)[i], known, &points);
      }
      grew = false;
      for (uint32_t h = 0; h < clocks_.size(); ++h) {
        if (known[h] || points[h].size() < kLeastPoints) continue;
        fits_[h] = Fit(&points[h]);
        grew = known[h] = true;
      }
    }
  }

  // When the operation ended, by the hosts in `known`: their median. False where there is none of them.
  bool FindEnd(size_t op, const std::vector<bool>& known) {
    ends_.clear();
    for (uint32_t i = 0; i < CountOf(op); ++i) {
      const HostPart& part = PartsOf(op)[i];
      if (!known[part.host]) continue;
      // Sums of times and corrections, to a fraction of a ns: from the operation's first part on.
      const auto apart_ns = static_cast<double>(part.middle_end_ns - PartsOf(op)[0].middle_end_ns);
      ends_.push_back(apart_ns + fits_[part.host].curve.At(part.middle_end_ns));
    }
    if (ends_.empty()) return false;
    std::sort(ends_.begin(), ends_.end());
    const size_t n = ends_.size();
    end_ns_[op] = (ends_[(n - 1) / 2] + ends_[n / 2]) / 2;
    return true;
  }

  double CorrectionBy(size_t op, const HostPart& part) const {
    return end_ns_[op] - static_cast<double>(part.middle_end_ns - PartsOf(op)[0].middle_end_ns);
  }

  void AddPoint(size_t op, const HostPart& part, const std::vector<bool>& skip,
                std::vector<std::vector<CurvePoint>>* points) const {
    if (!skip[part.host]) (*points)[part.host].push_back({part.middle_end_ns, CorrectionBy(op, part)});
  }

  static CurveFit Fit(std::vector<CurvePoint>* points) {
    std::sort(points->begin(), points->end(),
              [](const CurvePoint& a, const CurvePoint& b) { return a.at_ns < b.at_ns; });
    return FitCurve(*points);
  }

  // Ends from the curves, curves from the ends; the reference is one host among all in this.
  void Refine() {
    const std::vector<bool> all(clocks_.size(), true), none(clocks_.size(), false);
    for (int round = 0; round < kRounds; ++round) {
      std::vector<std::vector<CurvePoint>> points(clocks_.size());
      for (size_t op = 0; op < used_.size(); ++op) {
        if (!used_[op] || !FindEnd(op, all)) continue;
        for (uint32_t i = 0; i < CountOf(op); ++i) AddPoint(op, PartsOf(op)[i], none, &points);
      }
      for (uint32_t h = 0; h < clocks_.size(); ++h) {
        clocks_[h].operations = points[h].size();
        const CurveFit fit = Fit(&points[h]);
        if (fit.fitted) fits_[h] = fit;
      }
    }
  }

  // By communicator, the longer half again and again, while its ends lie wider. True: something was left out.
  bool LeaveOutLongOnes() {
    std::vector<std::vector<size_t>> by_comm;
    for (size_t op = 0; op < used_.size(); ++op) {
      if (!used_[op]) continue;
      const uint32_t comm = samples_.operations[op].comm;
      if (by_comm.size() <= comm) by_comm.resize(comm + 1);
      by_comm[comm].push_back(op);
    }
    bool some = false;
    for (auto& ops : by_comm) {
      std::sort(ops.begin(), ops.end(), [&](size_t a, size_t b) {
        return samples_.operations[a].shortest_ns < samples_.operations[b].shortest_ns;
      });
      size_t keep = ops.size();
      while (keep / 2 >= kEnoughOperations && SpreadOf(ops, keep / 2, keep) > kWider * SpreadOf(ops, 0, keep / 2)) {
        keep /= 2;
      }
      for (size_t i = keep; i < ops.size(); ++i) used_[ops[i]] = false;
      some |= keep < ops.size();
    }
    return some;
  }

  // The median distance of hosts' ends from their operation's.
  double SpreadOf(const std::vector<size_t>& ops, size_t first, size_t last) const {
    std::vector<double> distances;
    for (size_t i = first; i < last; ++i) {
      for (uint32_t p = 0; p < CountOf(ops[i]); ++p) {
        const HostPart& part = PartsOf(ops[i])[p];
        distances.push_back(std::abs(CorrectionBy(ops[i], part) - fits_[part.host].curve.At(part.middle_end_ns)));
      }
    }
    return analysis::UpperMedian(&distances);
  }

  // What takes a host's time to the reference's own clock: to the common time by its curve, and back from there by
  // the reference's.
  std::vector<ClockCurve> Gauged() const {
    std::vector<ClockCurve> gauged(clocks_.size());
    for (uint32_t h = 0; h < clocks_.size(); ++h) {
      if (clocks_[h].group < 0 || reference_[clocks_[h].group] == h) continue;
      const ClockCurve &own = fits_[h].curve, &base = fits_[reference_[clocks_[h].group]].curve;
      const auto at = [&](int64_t host_ns) {
        const double common = own.At(host_ns);  // after host_ns
        double back = 0;                        // y - host_ns, where y + base(y) is the common time
        for (int i = 0; i < 4; ++i) back = common - base.At(host_ns + std::llround(back));
        return back;
      };
      std::vector<CurvePoint> knots;
      for (const CurvePoint& knot : own.knots()) knots.push_back({knot.at_ns, at(knot.at_ns)});
      if (base.knots().size() > 1) {
        for (const CurvePoint& knot : base.knots()) {
          const int64_t here_ns = knot.at_ns + std::llround(knot.correction_ns - own.At(knot.at_ns));
          knots.push_back({here_ns, at(here_ns)});
        }
      }
      std::sort(knots.begin(), knots.end(),
                [](const CurvePoint& a, const CurvePoint& b) { return a.at_ns < b.at_ns; });
      knots.erase(std::unique(knots.begin(), knots.end(),
                              [](const CurvePoint& a, const CurvePoint& b) { return a.at_ns == b.at_ns; }),
                  knots.end());
      gauged[h] = ClockCurve(knots, (own.slope() - base.slope()) / (1 + base.slope()));
    }
    return gauged;
  }

  void Bound() {
    std::vector<double> shape_ns(clocks_.size(), 0);
    for (uint32_t h = 0; h < clocks_.size(); ++h) {
      if (clocks_[h].group < 0 || reference_[clocks_[h].group] == h) continue;
      shape_ns[h] = fits_[h].shape_ns + fits_[reference_[clocks_[h].group]].shape_ns;
    }
    BoundErrors(samples_, reference_, shape_ns, &clocks_);
  }

  const ClockSamples& samples_;
  std::vector<HostClock> clocks_;
  std::vector<uint32_t> reference_;  // by group
  std::vector<CurveFit> fits_;       // to the common time of the group
  std::vector<bool> used_;           // by operation
  std::vector<double> end_ns_;       // by operation: in the common time, after its first part's end on its own clock
  std::vector<double> ends_;         // scratch
};

}  // namespace

std::vector<HostClock> EstimateHostClocks(const ClockSamples& samples, uint32_t hosts) {
  return Estimator(samples, hosts).Run();
}

}  // namespace rankscope::alignment
