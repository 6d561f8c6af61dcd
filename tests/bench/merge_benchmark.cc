// How fast rings become a timeline, and timelines a stream of events, on one core; and that memory stays flat in the
// number of events.
//
//   merge_benchmark
//
// Rings of eight ranks are made in /dev/shm (or TMPDIR): typical records of a training process (API call, launch,
// completion). `items_per_second` is events a second; `bytes_per_event` is what the timeline takes on disk;
// `peak_MiB` is the process's peak resident memory so far, which counts mapped ring pages too.
#include <benchmark/benchmark.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "analysis/recording/open.h"
#include "analysis/recording/timeline_writer.h"
#include "tests/fakes/ring_builder.h"

namespace {

using namespace rankscope;  // NOLINT: a test program

constexpr int kRanks = 8;
constexpr uint32_t kLanes = 2;

class Files {
 public:
  Files() {
    const char* base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::getenv("TMPDIR");
    path_ = std::string(base != nullptr ? base : "/tmp") + "/rankscope-merge-benchmark." + std::to_string(getpid());
    std::filesystem::create_directories(path_);
  }
  ~Files() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

  std::string Rings(uint32_t records_per_lane) {
    const std::string directory = path_ + "/" + std::to_string(records_per_lane);
    if (!std::filesystem::create_directories(directory)) return directory;
    for (int rank = 0; rank < kRanks; ++rank) {
      testing::RingBuilder builder(kLanes, records_per_lane);
      builder.SetRank(rank, kRanks);
      builder.AddComm({});
      std::mt19937_64 random(static_cast<uint64_t>(rank));
      uint64_t now = 1'000'000'000, op = 0;
      for (uint32_t i = 0; i < records_per_lane; ++i) {
        now += 3000 + random() % 2000;
        const bool api = i % 2 == 0;
        op += api ? 1 : 0;
        schema::EventRecord record = testing::CollRecord(now - 900, now, 0, schema::Function::kAllReduce, i / 2,
                                                         1u << (10 + i % 15), schema::DataType::kBfloat16, op << 8);
        if (api) record.kind = static_cast<uint16_t>(schema::EventKind::kCollApi);
        builder.Append(0, record);
        record.kind = static_cast<uint16_t>(schema::EventKind::kOpComplete);
        record.end_ticks = now + 50'000;
        record.payload.completion = {now, 8, 1, 2, {}, 1u << 20};
        builder.Append(1, record);
      }
      if (!builder.Write(directory + "/" + std::to_string(rank) + ".ring")) std::abort();
    }
    return directory;
  }

 private:
  std::string path_;
};

Files& TheFiles() {
  static Files files;
  return files;
}

double PeakMiB() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void RingsToTimeline(benchmark::State& state) {
  const std::string rings = TheFiles().Rings(static_cast<uint32_t>(state.range(0)));
  uint64_t events = 0, bytes = 0;
  for (auto _ : state) {
    const auto recording = analysis::OpenRecording({rings});
    const auto written = recording.ok() ? analysis::WriteTimeline(**recording, TheFiles().path() + "/t.rsc")
                                        : absl::StatusOr<analysis::WriteResult>(recording.status());
    if (!written.ok()) {
      state.SkipWithError(std::string(written.status().message()).c_str());
      return;
    }
    events += written->events;
    bytes += written->bytes;
  }
  state.SetItemsProcessed(static_cast<int64_t>(events));
  state.counters["bytes_per_event"] = static_cast<double>(bytes) / static_cast<double>(events);
  state.counters["peak_MiB"] = PeakMiB();
}
BENCHMARK(RingsToTimeline)->Arg(1 << 15)->Arg(1 << 17)->Unit(benchmark::kMillisecond);

void Stream(benchmark::State& state, const std::string& path) {
  const auto recording = analysis::OpenRecording({path});
  if (!recording.ok()) {
    state.SkipWithError(std::string(recording.status().message()).c_str());
    return;
  }
  uint64_t events = 0;
  std::vector<analysis::Event> block(4096);
  for (auto _ : state) {
    const auto stream = (*recording)->Events(analysis::kAllKinds);
    while (const size_t count = stream->Read(absl::MakeSpan(block))) events += count;
  }
  state.SetItemsProcessed(static_cast<int64_t>(events));
  state.counters["peak_MiB"] = PeakMiB();
}

void MergeRings(benchmark::State& state) { Stream(state, TheFiles().Rings(static_cast<uint32_t>(state.range(0)))); }
BENCHMARK(MergeRings)->Arg(1 << 15)->Arg(1 << 17)->Unit(benchmark::kMillisecond);

// Reads what RingsToTimeline wrote last.
void MergeTimeline(benchmark::State& state) { Stream(state, TheFiles().path() + "/t.rsc"); }
BENCHMARK(MergeTimeline)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
