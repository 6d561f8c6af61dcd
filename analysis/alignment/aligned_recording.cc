// See aligned_recording.h.
#include "analysis/alignment/aligned_recording.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analysis/alignment/clock_samples.h"
#include "analysis/alignment/coarse_clocks.h"
#include "analysis/alignment/host_clocks.h"
#include "analysis/recording/merge.h"

namespace rankscope::alignment {

namespace {

using analysis::Event;
using analysis::EventSource;
using analysis::RankInfo;
using analysis::Recording;

class AlignedSource : public EventSource {
 public:
  // `curves`: by rank_index.
  AlignedSource(std::unique_ptr<EventSource> source, const std::vector<const ClockCurve*>& curves)
      : source_(std::move(source)), curves_(curves), begin_(nullptr), end_(nullptr), issue_(nullptr) {}

  size_t Read(absl::Span<Event> out) override {
    const size_t count = source_->Read(out);
    for (Event& event : out.subspan(0, count)) Align(&event);
    return count;
  }
  absl::Status status() const override { return source_->status(); }

 private:
  void Align(Event* event) {
    if (event->rank_index >= curves_.size()) return;
    if (curve_ != curves_[event->rank_index]) {  // once: a source is of one rank
      curve_ = curves_[event->rank_index];
      begin_ = end_ = issue_ = ClockConverter(curve_);
    }
    event->begin_ns = begin_(event->begin_ns);
    event->end_ns = end_(event->end_ns);
    if (event->kind != static_cast<uint16_t>(schema::EventKind::kOpComplete)) return;
    uint64_t& issue = event->payload.completion.issue_ticks;
    issue = static_cast<uint64_t>(issue_(static_cast<int64_t>(issue)));
  }

  const std::unique_ptr<EventSource> source_;
  const std::vector<const ClockCurve*>& curves_;
  const ClockCurve* curve_ = nullptr;
  ClockConverter begin_, end_, issue_;
};

void AlignRank(const ClockCurve& curve, RankInfo* rank) {
  ClockConverter convert(&curve);
  const auto align = [&](auto&... times) { ((times = convert(times)), ...); };
  align(rank->start_ns, rank->read_ns, rank->last_event_ns, rank->cupti.armed_ns, rank->cupti.blind_since_ns);
  for (analysis::CommInfo& comm : rank->comms) align(comm.init_ns, comm.finalize_ns);
  for (analysis::InFlightInfo& slot : rank->in_flight) {
    align(slot.issue_ns, slot.begin_ns, slot.end_ns, slot.last_progress_ns);
  }
}

class AlignedRecording : public Recording {
 public:
  // `curves`: by host.
  AlignedRecording(const Recording& base, const std::vector<uint32_t>& host_of, std::vector<ClockCurve> curves,
                   std::vector<analysis::HostClockInfo> clocks)
      : base_(base), curves_(std::move(curves)), clocks_(std::move(clocks)), ranks_(base.ranks()) {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      curve_of_.push_back(&curves_[host_of[r]]);
      AlignRank(*curve_of_[r], &ranks_[r]);
    }
  }

  const std::vector<RankInfo>& ranks() const override { return ranks_; }
  const std::vector<analysis::HostClockInfo>& clocks() const override { return clocks_; }
  const std::vector<std::string>& warnings() const override { return base_.warnings(); }
  std::unique_ptr<analysis::EventStream> Events(analysis::KindMask kinds) const override {
    return analysis::MergeSources(Sources(kinds));
  }
  std::vector<std::unique_ptr<EventSource>> Sources(analysis::KindMask kinds) const override {
    std::vector<std::unique_ptr<EventSource>> sources = base_.Sources(kinds);
    for (auto& source : sources) source = std::make_unique<AlignedSource>(std::move(source), curve_of_);
    return sources;
  }

  void Own(std::unique_ptr<Recording> base) { owned_ = std::move(base); }

 private:
  std::unique_ptr<Recording> owned_;
  const Recording& base_;
  const std::vector<ClockCurve> curves_;
  const std::vector<analysis::HostClockInfo> clocks_;
  std::vector<RankInfo> ranks_;
  std::vector<const ClockCurve*> curve_of_;  // by rank_index
};

// The hosts in the order of their lowest rank_index; by rank_index, its host.
std::vector<uint32_t> HostsOf(const std::vector<RankInfo>& ranks, std::vector<uint32_t>* first_rank) {
  std::vector<uint32_t> host_of;
  absl::flat_hash_map<std::pair<std::string, std::string>, uint32_t> known;
  for (const RankInfo& rank : ranks) {
    const auto [at, is_new] = known.emplace(std::pair(rank.host, rank.boot_id), static_cast<uint32_t>(known.size()));
    if (is_new) first_rank->push_back(rank.rank_index);
    host_of.push_back(at->second);
  }
  return host_of;
}

// The middle of what is known of a host, on its own clock: where its offset is told.
int64_t MiddleOf(const ClockCurve& curve) {
  const auto& knots = curve.knots();
  return knots[knots.size() / 2].at_ns;
}

std::unique_ptr<AlignedRecording> Align(const Recording& recording, const AlignOptions& options) {
  if (!NeedsAlignment(recording)) return nullptr;
  const std::vector<RankInfo>& ranks = recording.ranks();
  std::vector<uint32_t> first_rank;
  const std::vector<uint32_t> host_of = HostsOf(ranks, &first_rank);
  const auto hosts = static_cast<uint32_t>(first_rank.size());

  // Clocks that are seconds apart are first brought near each other, else their operations can't be put together.
  const std::vector<int64_t> coarse_ns = CoarseOffsets(ranks, host_of, hosts);
  std::vector<ClockCurve> coarse;
  for (const int64_t offset_ns : coarse_ns) coarse.emplace_back(CurvePoint{0, static_cast<double>(offset_ns)}, 0.0);
  const AlignedRecording near(recording, host_of, coarse, {});
  SampleOptions sample_options;
  sample_options.progress = options.progress;
  const ClockSamples samples = CollectClockSamples(near, host_of, sample_options);
  const std::vector<HostClock> found = EstimateHostClocks(samples, hosts);

  std::vector<ClockCurve> curves;
  std::vector<analysis::HostClockInfo> clocks;
  for (uint32_t h = 0; h < hosts; ++h) {
    analysis::HostClockInfo clock;
    clock.host = ranks[first_rank[h]].host;
    clock.boot_id = ranks[first_rank[h]].boot_id;
    clock.group = found[h].group;
    clock.error_ns = found[h].error_ns;
    clock.bound_ns = found[h].bound_ns;
    clock.operations = found[h].operations;
    clock.contradictions = found[h].contradictions;
    if (clock.group < 0) {
      curves.push_back(coarse[h]);
      clock.offset_ns = coarse_ns[h];
    } else {
      curves.push_back(Shifted(found[h].curve, coarse_ns[h]));
      clock.offset_ns = std::llround(curves.back().At(MiddleOf(curves.back())));
      clock.drift_ppb = std::llround(found[h].curve.slope() * 1e9);
    }
    clocks.push_back(std::move(clock));
  }
  return std::make_unique<AlignedRecording>(recording, host_of, std::move(curves), std::move(clocks));
}

}  // namespace

bool NeedsAlignment(const Recording& recording) {
  const auto& clocks = recording.clocks();
  if (std::any_of(clocks.begin(), clocks.end(), [](const auto& clock) { return clock.group >= 0; })) return false;
  std::vector<uint32_t> first_rank;
  HostsOf(recording.ranks(), &first_rank);
  return first_rank.size() > 1;
}

std::unique_ptr<Recording> AlignHosts(const Recording& recording, const AlignOptions& options) {
  return Align(recording, options);
}

std::unique_ptr<Recording> AlignHosts(std::unique_ptr<Recording> recording, const AlignOptions& options) {
  std::unique_ptr<AlignedRecording> aligned = Align(*recording, options);
  if (aligned == nullptr) return recording;
  aligned->Own(std::move(recording));
  return aligned;
}

}  // namespace rankscope::alignment
