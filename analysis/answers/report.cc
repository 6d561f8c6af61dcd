// See report.h.
#include "analysis/answers/report.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "analysis/answers/names.h"
#include "analysis/answers/operation_feed.h"

namespace rankscope::answers {

using analysis::Event;
using analysis::RankInfo;
using schema::EventKind;

namespace {

class ReportBuilder : public OperationSink {
 public:
  ReportBuilder(const analysis::Recording& recording, const ReportOptions& options)
      : recording_(recording),
        options_(options),
        ranks_(recording.ranks()),
        communicators_(ranks_),
        feed_(ranks_, communicators_, options.matcher, this),
        hang_(ranks_, communicators_, options.hang),
        skew_(ranks_, recording.clocks(), communicators_, options.skew),
        totals_(ranks_),
        gpu_(ranks_, options.kernels_kept),
        phases_(ranks_, options.ranges_kept) {}

  Report Build() {
    StartCounts();
    report_.unfinished = CollectUnfinished(ranks_, communicators_);
    report_.warnings = recording_.warnings();
    ReadEvents();
    report_.join = feed_.Finish();
    report_.gpu = gpu_.Finish();
    report_.phases = phases_.Finish();
    report_.skew = skew_.Finish();
    report_.totals = totals_.Finish();
    report_.matcher = feed_.stats();
    report_.coverage = DescribeCoverage(ranks_, communicators_, report_.matcher);
    if (report_.operations_with_gpu_times > 0) LeaveOutNotesOnEnds();
    report_.hang = hang_.Finish();
    report_.hang.warnings = report_.warnings;
    CountUnfinished();
    DescribeJob();
    report_.communicators = std::move(communicators_);
    return std::move(report_);
  }

  void OnOperation(const MatchedOperation& operation) override {
    skew_.Add(operation);
    totals_.Add(operation);
    if (operation.gpu_times) ++report_.operations_with_gpu_times;
    for (const Participant& part : operation.participants) {
      if (part.completion_ns == 0) continue;
      ++CountsOf(operation.key.comm, part.member).by_func[part.func & (schema::kFunctionLimit - 1)].completed_seen;
    }
    if (!operation.complete) CountMissing(operation);
    if (operation.mismatches == 0 || operation.uncertain) return;
    if (report_.mismatches.size() < options_.mismatches_kept) {
      report_.mismatches.push_back({operation.key, operation.mismatches, operation.participants});
    } else {
      ++report_.mismatches_left_out;
    }
  }

 private:
  // Notes on ends that NCCL alone can't see: their kernels are there.
  void LeaveOutNotesOnEnds() {
    for (auto* notes : {&report_.coverage.not_reported, &report_.coverage.not_trusted}) {
      notes->erase(std::remove_if(notes->begin(), notes->end(),
                                  [](const CoverageNote& note) {
                                    return note.id == "end_inside_a_node" || note.id == "end_from_proxy" ||
                                           note.id == "ends_not_recorded";
                                  }),
                   notes->end());
    }
  }

  void ReadEvents() {
    const auto stream = recording_.Events(WantedKinds());
    std::vector<Event> batch(4096);
    uint64_t told = 0;
    while (const size_t count = stream->Read(absl::MakeSpan(batch))) {
      for (size_t i = 0; i < count; ++i) AddEvent(batch[i]);
      report_.events += count;
      if (options_.progress && report_.events - told >= 1000000) {
        told = report_.events;
        options_.progress(told);
      }
    }
    if (!stream->status().ok()) report_.warnings.emplace_back(stream->status().message());
  }

  // What is not there is not asked for: a recording of NCCL alone is read as before.
  analysis::KindMask WantedKinds() {
    const analysis::KindMask there = RecordedKinds(ranks_);
    wants_gpu_ = (there & GpuCollector::Kinds()) != 0;
    const analysis::KindMask host = analysis::MaskOf(EventKind::kRange) | analysis::MaskOf(EventKind::kFileIo) |
                                    analysis::MaskOf(EventKind::kHostSample);
    wants_phases_ = (there & host) != 0;
    analysis::KindMask wanted = feed_.Kinds() | HangCollector::Kinds();
    if (wants_gpu_) wanted |= GpuCollector::Kinds();
    if (wants_phases_) wanted |= PhaseCollector::Kinds();
    return wanted;
  }

  void AddEvent(const Event& event) {
    if (event.rank_index >= ranks_.size()) return;
    if (report_.window_begin_ns == 0 || event.begin_ns < report_.window_begin_ns) {
      report_.window_begin_ns = event.begin_ns;
    }
    report_.window_end_ns = std::max(report_.window_end_ns, event.end_ns);
    CountEvent(event);
    feed_.Add(event);
    if (wants_gpu_) gpu_.Add(event);
    if (wants_phases_) phases_.Add(event);
    const auto kind = static_cast<EventKind>(event.kind);
    if (kind == EventKind::kP2p || kind == EventKind::kOpEvicted) hang_.Add(event);
    if (kind != EventKind::kOpEvicted) return;
    if (evicted_kept_ < options_.evicted_kept) {
      ++evicted_kept_;
      report_.unfinished.push_back(FromEviction(event, ranks_, communicators_));
    } else {
      ++report_.evicted_left_out;
    }
  }

  MemberCounts& CountsOf(uint32_t comm, uint32_t member) { return report_.counts[first_count_[comm] + member]; }

  void CountEvent(const Event& event) {
    if (event.comm == schema::kCommUnknown) return;
    const uint32_t comm = communicators_.Find(event.rank_index, event.comm);
    if (comm == kNoCommunicator) return;
    auto& by_func = CountsOf(comm, communicators_.MemberOf(event.rank_index, event.comm)).by_func;
    const uint8_t func = event.payload.coll.func;  // at the same place in every operation's payload
    switch (static_cast<EventKind>(event.kind)) {
      case EventKind::kCollApi:
      case EventKind::kP2pApi:
        if (func >= schema::kFunctionLimit) return;
        ++by_func[func].api_seen;
        if ((event.flags & schema::kFlagGraphCaptured) != 0) ++by_func[func].captured_seen;
        break;
      case EventKind::kColl:
      case EventKind::kP2p:
      case EventKind::kCeColl:
        if (func >= schema::kFunctionLimit) return;
        ++by_func[func].launched_seen;
        if ((event.flags & schema::kFlagGraphReplay) != 0) ++by_func[func].replayed_seen;
        break;
      default:
        break;
    }
  }

  void StartCounts() {
    for (const Communicator& comm : communicators_.all()) {
      first_count_.push_back(report_.counts.size());
      for (uint32_t m = 0; m < comm.members.size(); ++m) {
        MemberCounts counts;
        counts.comm = comm.id;
        counts.member = m;
        const auto& info = ranks_[comm.members[m].rank_index].comms[comm.members[m].comm_index];
        for (size_t f = 0; f < schema::kFunctionLimit; ++f) {
          counts.by_func[f].launched = info.launched_by_func[f];
          counts.by_func[f].api_calls = info.api_by_func[f];
          counts.by_func[f].last_seq = info.last_seq_by_func[f];
        }
        report_.counts.push_back(counts);
      }
    }
  }

  void CountUnfinished() {
    for (const UnfinishedOperation& op : report_.unfinished) {
      if (op.comm == kNoCommunicator || op.func >= schema::kFunctionLimit) continue;
      ++CountsOf(op.comm, op.member).by_func[op.func].unfinished;
    }
  }

  // Why the missing ranks are missing: they had not come to it, or their records are gone.
  void CountMissing(const MatchedOperation& operation) {
    ++report_.incomplete.operations;
    bool not_reached = false;
    const Communicator& comm = communicators_[operation.key.comm];
    for (uint32_t m : operation.missing) {
      const auto& info = ranks_[comm.members[m].rank_index].comms[comm.members[m].comm_index];
      const size_t f = operation.key.func;
      switch (operation.key.operation_class) {
        case OperationClass::kCollective:
          not_reached |= info.last_seq_by_func[f] <= operation.key.number;
          break;
        case OperationClass::kApiOnly:
          not_reached |= info.api_by_func[f] <= operation.key.number;
          break;
        case OperationClass::kCopyEngine:
          not_reached |= info.launched_by_func[f] <= operation.key.number;
          break;
        case OperationClass::kPointToPoint: {
          const bool sends = comm.members[m].comm_rank == operation.key.sender;
          const auto side = static_cast<size_t>(sends ? schema::Function::kSend : schema::Function::kRecv);
          // Fewer of that side on the whole communicator than this pair's ordinal: it can't have come to it.
          not_reached |= info.launched_by_func[side] <= operation.key.number;
          break;
        }
      }
    }
    ++(not_reached ? report_.incomplete.not_reached : report_.incomplete.not_recorded);
  }

  void DescribeJob() {
    std::map<std::string, std::vector<uint32_t>> hosts;
    std::set<int32_t> seen;
    report_.ranks = ranks_;
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      const RankInfo& rank = ranks_[r];
      report_.ranks[r].in_flight.clear();
      report_.ranks[r].in_flight.shrink_to_fit();
      hosts[rank.host].push_back(r);
      if (rank.rank >= 0) seen.insert(rank.rank);
      if (rank.world_size > 0)
        report_.world_size = std::max(report_.world_size, static_cast<uint32_t>(rank.world_size));
      if (report_.job.empty()) report_.job = rank.job;
      if (report_.launcher.empty()) report_.launcher = rank.launcher;
      if (report_.command.empty()) report_.command = rank.command;
    }
    for (auto& [host, indices] : hosts) report_.hosts.push_back({host, std::move(indices)});
    // Sizes come from files: no list is made that is longer than a job can be.
    constexpr uint32_t kLargestJob = 1u << 20;
    for (uint32_t r = 0; r < std::min(report_.world_size, kLargestJob) && !seen.empty(); ++r) {
      if (seen.count(static_cast<int32_t>(r)) == 0) report_.missing_ranks.push_back(static_cast<int32_t>(r));
    }
    report_.rank_names = RankNames(ranks_);
    report_.clocks = recording_.clocks();
    report_.notes = communicators_.notes();
  }

  const analysis::Recording& recording_;
  const ReportOptions& options_;
  const std::vector<RankInfo>& ranks_;
  Communicators communicators_;
  Report report_;
  std::vector<size_t> first_count_;  // by communicator: its first entry in report_.counts
  uint64_t evicted_kept_ = 0;
  OperationFeed feed_;
  HangCollector hang_;
  SkewCollector skew_;
  TotalsCollector totals_;
  GpuCollector gpu_;
  PhaseCollector phases_;
  bool wants_gpu_ = false, wants_phases_ = false;
};

}  // namespace

Report BuildReport(const analysis::Recording& recording, const ReportOptions& options) {
  return ReportBuilder(recording, options).Build();
}

}  // namespace rankscope::answers
