// What a report costs an event: 8 ranks, three events an operation and rank (call, launch, completion), and the same
// for 1,024 ranks.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "analysis/answers/fake_recording.h"
#include "analysis/answers/report.h"

namespace rankscope::answers {
namespace {

// A stream that makes its events as they are asked for, so that the recording costs no memory.
class MadeRecording : public analysis::Recording {
 public:
  MadeRecording(uint32_t ranks, uint64_t operations) : base_(ranks), ranks_(ranks), operations_(operations) {
    std::vector<uint32_t> all(ranks);
    for (uint32_t r = 0; r < ranks; ++r) all[r] = r;
    base_.AddComm(1, all);
    for (auto& rank : base_.mutable_ranks()) {
      rank.comms[0].launched_by_func[2] = rank.comms[0].api_by_func[2] = rank.comms[0].last_seq_by_func[2] =
          operations;
    }
  }
  const std::vector<analysis::RankInfo>& ranks() const override { return base_.ranks(); }
  const std::vector<analysis::HostClockInfo>& clocks() const override { return base_.clocks(); }
  const std::vector<std::string>& warnings() const override { return base_.warnings(); }
  std::unique_ptr<analysis::EventStream> Events(analysis::KindMask) const override {
    return std::make_unique<Stream>(ranks_, operations_);
  }
  // All ranks come in one stream here.
  std::vector<std::unique_ptr<analysis::EventSource>> Sources(analysis::KindMask) const override { return {}; }

 private:
  class Stream : public analysis::EventStream {
   public:
    Stream(uint32_t ranks, uint64_t operations) : ranks_(ranks), total_(operations * ranks * 3) {}
    size_t Read(absl::Span<analysis::Event> out) override {
      const size_t count = static_cast<size_t>(std::min<uint64_t>(out.size(), total_ - next_));
      for (size_t i = 0; i < count; ++i) out[i] = Make(next_++);
      return count;
    }
    absl::Status status() const override { return absl::OkStatus(); }

   private:
    // All calls of an operation, then all launches, then all completions; 100 us an operation.
    analysis::Event Make(uint64_t index) const {
      const uint64_t operation = index / (uint64_t{ranks_} * 3), phase = index / ranks_ % 3;
      const auto rank = static_cast<uint32_t>(index % ranks_);
      analysis::Event event;
      event.rank_index = rank;
      event.comm = 0;
      event.op_id = (operation + 1) << 8;
      event.begin_ns =
          kStartNs + static_cast<int64_t>(operation * 100'000 + phase * 30'000 + (operation * 7 + rank) % 97);
      event.end_ns = event.begin_ns + 500;
      if (phase == 0) {
        event.kind = static_cast<uint16_t>(schema::EventKind::kCollApi);
        event.payload.api = {1024, 7, static_cast<uint32_t>(operation), 2, 8, {}, -1};
      } else if (phase == 1) {
        event.kind = static_cast<uint16_t>(schema::EventKind::kColl);
        event.payload.coll = {1024, static_cast<uint32_t>(operation), static_cast<uint32_t>(operation), 2, 8, 2, 3,
                              -1};
      } else {
        event.kind = static_cast<uint16_t>(schema::EventKind::kOpComplete);
        event.payload.completion = {0, 4, 1, 2, {}, 4096};
      }
      return event;
    }
    uint32_t ranks_;
    uint64_t total_, next_ = 0;
  };
  FakeRecording base_;
  uint32_t ranks_;
  uint64_t operations_;
};

void BM_Report(benchmark::State& state) {
  const auto ranks = static_cast<uint32_t>(state.range(0));
  const auto operations = static_cast<uint64_t>(state.range(1));
  const MadeRecording recording(ranks, operations);
  uint64_t counted = 0;
  for (auto _ : state) {
    const Report report = BuildReport(recording);
    counted = report.skew.counted;
    benchmark::DoNotOptimize(counted);
  }
  if (counted != operations) state.SkipWithError("not all operations were matched");
  state.SetItemsProcessed(static_cast<int64_t>(static_cast<uint64_t>(state.iterations()) * operations * ranks * 3));
}
BENCHMARK(BM_Report)
    ->Args({8, 10'000})
    ->Args({8, 100'000})
    ->Args({8, 333'333})
    ->Args({1024, 2'000})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace rankscope::answers

BENCHMARK_MAIN();
