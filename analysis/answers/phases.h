// Where the host's time goes: data loading, forward, backward, gradient reduction, optimizer, checkpoint, other.
//
// A moment of a rank belongs to one phase: to checkpoint or data loading where one of them is under way, else to the
// innermost range that has a phase (the one that began last). Where a range's phase comes from is kept with it: the
// Python hook said so, the name is one that a framework is known to use, the thread is PyTorch's autograd thread, or
// files of a telling class were read or written. Time in no such range is "other". What the GPU did belongs to the
// phase in which its thread launched it, where the CUDA calls were recorded. Definitions: docs/analysis.md. One
// thread; memory is a minute's ranges (and CUDA calls and kernels, where there are calls) of each rank.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_PHASES_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_PHASES_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analysis/model.h"

namespace rankscope::answers {

const char* PhaseName(schema::Phase phase);
const char* PhaseSourceName(schema::PhaseSource source);

// The phase that a range's name tells, kUnknown if none. `domain` may be empty.
schema::Phase PhaseOfRange(const std::string& domain, const std::string& name);

struct PhaseRank {
  // Exclusive times, by schema::Phase; they and other_ns add up to window_ns.
  std::array<int64_t, schema::kPhaseLimit> phase_ns{};
  std::array<int64_t, 6> source_ns{};  // the same time by schema::PhaseSource
  int64_t window_ns = 0;               // from the first to the last phase's end
  int64_t other_ns = 0;
  // GPU work (kernels, copies, sets, graphs) by the phase of its launch; kOther: launched in none. Sums of lengths:
  // work of several streams counts in each.
  std::array<int64_t, schema::kPhaseLimit> gpu_ns{};
  int64_t gpu_unknown_ns = 0;  // the call that launched it was not recorded
  uint64_t launches = 0;       // CUDA calls that were read
  uint64_t ranges = 0;         // ranges with a phase
  uint64_t garbage_collections = 0;
  int64_t garbage_collection_ns = 0;
  std::map<std::string, std::pair<uint64_t, uint64_t>> file_bytes;  // path class -> bytes read, written
  int64_t cpu_ns = 0;                                               // between the first and the last host sample
  int64_t cpu_window_ns = 0;
  uint64_t resident_peak_bytes = 0;
};

struct RangeSums {
  std::string domain, name;
  schema::Phase phase = schema::Phase::kUnknown;
  uint64_t count = 0;
  int64_t total_ns = 0, max_ns = 0;
};

struct PhaseReport {
  std::vector<PhaseRank> ranks;   // by rank_index
  std::vector<RangeSums> ranges;  // all ranks', by total time; nested ranges count in each
  uint64_t other_ranges = 0;
  bool any = false;         // some range has a phase
  bool any_ranges = false;  // some range was read
};

class PhaseCollector {
 public:
  PhaseCollector(const std::vector<analysis::RankInfo>& ranks, size_t ranges_kept);
  static analysis::KindMask Kinds();
  void Add(const analysis::Event& event);
  PhaseReport Finish();

 private:
  struct Interval {
    int64_t begin_ns, end_ns;
    schema::Phase phase;
    schema::PhaseSource source;
    uint16_t lane;
  };
  // A CUDA call, and what the GPU did because of one.
  struct Launch {
    int64_t begin_ns;
    uint16_t lane;
  };
  struct Work {
    uint32_t correlation;
    bool known;
    Launch launch;
    int64_t end_ns, length_ns;
  };
  struct State {
    PhaseRank sums;
    std::vector<Interval> intervals;
    int64_t first_ns = 0, last_ns = 0;
    int64_t swept_to_ns = INT64_MIN;
    std::map<std::pair<uint32_t, uint32_t>, RangeSums> ranges;  // by domain and name ids
    std::map<uint16_t, Interval> autograd;                      // by lane: backward under way
    absl::flat_hash_map<uint32_t, uint16_t> lane_of_thread;     // by ThreadInfo::pthread_low
    absl::flat_hash_map<uint32_t, Launch> launches;             // by correlation: the last ones
    std::deque<uint32_t> launch_order;
    std::vector<Work> work;
    bool has_calls = false;
    size_t sweep_at_work = 0;
    analysis::Event first_sample, last_sample;
    bool sampled = false;
  };
  void AddRange(State* state, const analysis::RankInfo& info, const analysis::Event& event);
  void AddCall(State* state, uint32_t rank_index, const analysis::Event& event);
  void AddInterval(State* state, const Interval& interval);
  static void AddLaunch(State* state, const analysis::Event& event);
  void AddWork(State* state, uint32_t correlation, const analysis::Event& event);
  bool IsAutograd(uint32_t rank_index, uint16_t lane) const;
  void Sweep(State* state, int64_t to_ns);

  const std::vector<analysis::RankInfo>& ranks_;
  const size_t ranges_kept_;
  std::vector<State> states_;
  std::vector<std::vector<bool>> autograd_lane_;  // by rank, lane
};

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_PHASES_H_
