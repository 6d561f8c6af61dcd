// Hosts whose clocks are known, and operations as such hosts would have recorded them: the truth against which the
// estimate is tested and measured.
//
// Tests and benchmarks only. Shares no code with what it tests: the truth is the planted formula, inverted.
#ifndef RANKSCOPE_ANALYSIS_ALIGNMENT_PLANTED_CLOCKS_H_
#define RANKSCOPE_ANALYSIS_ALIGNMENT_PLANTED_CLOCKS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "analysis/alignment/clock_samples.h"

namespace rankscope::alignment {

inline constexpr int64_t kPlantedStartNs = 1'764'590'000'000'000'000;  // 1 Dec 2025

// A clock that shows the true time, plus an offset, plus what it gained since the start; its rate may change once.
struct PlantedClock {
  double offset_ns = 0, drift = 0;
  double bend = 0, bend_after_ns = 0;  // from then on the drift is drift + bend

  // True times and readings as ns after kPlantedStartNs, which a double holds to a fraction of a ns.
  double Reading(double true_ns) const {
    return true_ns + offset_ns + drift * true_ns + bend * std::max(0.0, true_ns - bend_after_ns);
  }
  double TrueTime(double reading_ns) const {
    double true_ns = reading_ns;
    for (int i = 0; i < 8; ++i) true_ns -= Reading(true_ns) - reading_ns;  // contracts by 1e-4 each time
    return true_ns;
  }
};

class PlantedClocks {
 public:
  // Offsets and drifts are uniform in [-most, most].
  PlantedClocks(uint32_t hosts, uint64_t seed, double most_offset_ns = 50e6, double most_drift = 50e-6)
      : random_(seed), clocks_(hosts) {
    std::uniform_real_distribution<double> side(-1, 1);
    for (PlantedClock& clock : clocks_) {
      clock.offset_ns = most_offset_ns * side(random_);
      clock.drift = most_drift * side(random_);
    }
  }

  PlantedClock& operator[](uint32_t host) { return clocks_[host]; }
  uint32_t hosts() const { return static_cast<uint32_t>(clocks_.size()); }

  int64_t Shows(uint32_t host, double true_ns) const {
    return kPlantedStartNs + std::llround(clocks_[host].Reading(true_ns));
  }
  // What takes a reading of `host` to that of `reference` at the same moment.
  double Correction(uint32_t host, uint32_t reference, int64_t shown_ns) const {
    const auto reading_ns = static_cast<double>(shown_ns - kPlantedStartNs);
    return clocks_[reference].Reading(clocks_[host].TrueTime(reading_ns)) - reading_ns;
  }

  struct Job {
    uint32_t comm = 0;
    size_t operations = 1000;
    double span_ns = 60e9, transfer_ns = 100e3;
    double lateness_ns = 200e3;  // arrivals: the mean of an exponential after the operation's beginning
    // How much later than the transfer a host ends: the mean of an exponential; of some, ten times that.
    double end_noise_ns = 3000, tail_share = 0.05;
    std::vector<uint32_t> hosts{};  // none: all
  };

  // Adds the job's operations at random times. Nobody ends before all have come, whatever the noise.
  void Add(const Job& job) {
    std::vector<uint32_t> hosts = job.hosts;
    if (hosts.empty()) {
      for (uint32_t h = 0; h < this->hosts(); ++h) hosts.push_back(h);
    }
    std::uniform_real_distribution<double> when(0, job.span_ns), share(0, 1);
    std::exponential_distribution<double> one(1);
    std::vector<double> arrival_ns(hosts.size());
    for (size_t i = 0; i < job.operations; ++i) {
      const double begin_ns = when(random_);
      double all_there_ns = 0;
      for (double& ns : arrival_ns) {
        ns = begin_ns + job.lateness_ns * one(random_);
        all_there_ns = std::max(all_there_ns, ns);
      }
      SampledOperation op{job.comm, static_cast<uint32_t>(samples_.parts.size()), static_cast<uint32_t>(hosts.size()),
                          INT64_MAX};
      for (size_t h = 0; h < hosts.size(); ++h) {
        const double noise_ns = job.end_noise_ns * one(random_) * (share(random_) < job.tail_share ? 10 : 1);
        const int64_t end_ns = Shows(hosts[h], all_there_ns + job.transfer_ns + noise_ns);
        const HostPart part{hosts[h], Shows(hosts[h], arrival_ns[h]), end_ns, end_ns};
        op.shortest_ns = std::min(op.shortest_ns, end_ns - part.arrival_ns);
        samples_.parts.push_back(part);
      }
      ended_.emplace_back(all_there_ns + job.transfer_ns, op);
      ++samples_.seen;
    }
  }

  // In the order in which they ended.
  ClockSamples& Samples() {
    std::sort(ended_.begin(), ended_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    samples_.operations.clear();
    for (const auto& [end_ns, op] : ended_) samples_.operations.push_back(op);
    return samples_;
  }

 private:
  std::mt19937_64 random_;
  std::vector<PlantedClock> clocks_;
  ClockSamples samples_;
  std::vector<std::pair<double, SampledOperation>> ended_;
};

}  // namespace rankscope::alignment

#endif  // RANKSCOPE_ANALYSIS_ALIGNMENT_PLANTED_CLOCKS_H_
