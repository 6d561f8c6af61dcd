// See coarse_clocks.h.
#include "analysis/alignment/coarse_clocks.h"

#include <cstdlib>

#include "analysis/answers/communicators.h"
#include "analysis/median.h"

namespace rankscope::alignment {

namespace {

constexpr int64_t kNearNs = 1'000'000'000;

}  // namespace

std::vector<int64_t> CoarseOffsets(const std::vector<analysis::RankInfo>& ranks, const std::vector<uint32_t>& host_of,
                                   uint32_t hosts) {
  const answers::Communicators communicators(ranks);
  std::vector<int64_t> offset_ns(hosts, 0);
  std::vector<bool> known(hosts, false);
  if (hosts > 0) known[0] = true;
  for (bool grew = true; grew;) {
    grew = false;
    std::vector<std::vector<int64_t>> votes(hosts);
    for (const answers::Communicator& comm : communicators.all()) {
      if (!comm.identity_known || comm.identity_assumed) continue;
      std::vector<int64_t> created_ns;  // by those that are known
      const auto init_ns = [&](const answers::Member& member) {
        return ranks[member.rank_index].comms[member.comm_index].init_ns;
      };
      for (const answers::Member& member : comm.members) {
        const uint32_t host = host_of[member.rank_index];
        if (known[host] && IsTime(init_ns(member))) created_ns.push_back(init_ns(member) + offset_ns[host]);
      }
      if (created_ns.empty()) continue;
      const int64_t then_ns = analysis::UpperMedian(&created_ns);
      for (const answers::Member& member : comm.members) {
        const uint32_t host = host_of[member.rank_index];
        if (!known[host] && IsTime(init_ns(member))) votes[host].push_back(then_ns - init_ns(member));
      }
    }
    for (uint32_t h = 0; h < hosts; ++h) {
      if (known[h] || votes[h].empty()) continue;
      grew = known[h] = true;
      const int64_t median_ns = analysis::UpperMedian(&votes[h]);
      if (std::abs(median_ns) > kNearNs) offset_ns[h] = median_ns;
    }
  }
  return offset_ns;
}

ClockCurve Shifted(const ClockCurve& curve, int64_t offset_ns) {
  std::vector<CurvePoint> knots = curve.knots();
  for (CurvePoint& knot : knots) {
    knot.at_ns -= offset_ns;
    knot.correction_ns += static_cast<double>(offset_ns);
  }
  return ClockCurve(knots, curve.slope());
}

}  // namespace rankscope::alignment
