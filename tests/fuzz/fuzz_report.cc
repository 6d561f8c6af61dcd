// Any bytes as a timeline, and every answer made of what could be read: text and JSON, never a crash. See
// fuzz_ring.cc for how it runs.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analysis/answers/report.h"
#include "analysis/answers/report_json.h"
#include "analysis/answers/report_text.h"
#include "analysis/recording/open.h"
#include "analysis/recording/timeline_reader.h"
#include "analysis/recording/timeline_writer.h"
#include "tests/fakes/ring_builder.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace rankscope;  // NOLINT: a test program
using schema::EventKind;

// A small file may claim millions of equal events; the first thousands show as much as all of them.
class FirstEvents : public analysis::EventStream {
 public:
  explicit FirstEvents(std::unique_ptr<analysis::EventStream> stream) : stream_(std::move(stream)) {}
  size_t Read(absl::Span<analysis::Event> out) override {
    const size_t got = left_ == 0 ? 0 : stream_->Read(out.subspan(0, std::min(out.size(), left_)));
    left_ -= got;
    return got;
  }
  absl::Status status() const override { return stream_->status(); }

 private:
  std::unique_ptr<analysis::EventStream> stream_;
  size_t left_ = 5000;
};
class FirstOf : public analysis::Recording {
 public:
  explicit FirstOf(const analysis::Recording& whole) : whole_(whole) {}
  const std::vector<analysis::RankInfo>& ranks() const override { return whole_.ranks(); }
  const std::vector<analysis::HostClockInfo>& clocks() const override { return whole_.clocks(); }
  const std::vector<std::string>& warnings() const override { return whole_.warnings(); }
  std::unique_ptr<analysis::EventStream> Events(analysis::KindMask kinds) const override {
    return std::make_unique<FirstEvents>(whole_.Events(kinds));
  }
  std::vector<std::unique_ptr<analysis::EventSource>> Sources(analysis::KindMask kinds) const override {
    return whole_.Sources(kinds);
  }

 private:
  const analysis::Recording& whole_;
};

schema::EventRecord Of(EventKind kind, uint64_t begin, uint64_t end) {
  schema::EventRecord record{};
  record.kind = static_cast<uint16_t>(kind);
  record.begin_ticks = begin;
  record.end_ticks = end;
  return record;
}

// A step of two ranks with everything in it: launches, operations, kernels, copies, waits, memory, ranges, files,
// samples.
std::vector<uint8_t> Seed() {
  std::vector<std::string> rings;
  for (int rank = 0; rank < 2; ++rank) {
    testing::RingBuilder builder(2, 64);
    builder.SetRank(rank, 2);
    schema::CommEntry comm{};
    comm.hash = 5;
    comm.rank = rank;
    comm.ranks = 2;
    comm.flags = schema::kCommIdentityKnown;
    comm.name = builder.AddName("world");
    builder.AddComm(comm);
    const uint32_t kernel_name =
        builder.AddName("_Z40ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE");
    const uint32_t range_name = builder.AddName("DeepSpeedEngine.forward");
    schema::CuptiInfo cupti{};
    cupti.state = static_cast<uint32_t>(schema::CuptiState::kArmed);
    builder.SetCupti(cupti).AddStream(0x7000, 13);
    for (uint64_t i = 0; i < 8; ++i) {
      const uint64_t t = 1'000'000 + i * 100'000;
      schema::EventRecord launch = Of(EventKind::kKernelLaunch, t, t + 2000);
      launch.payload.launch.stream = 0x7000;
      builder.Append(0, launch);
      builder.Append(0, testing::CollRecord(t + 3000, t + 4000, 0, schema::Function::kAllReduce,
                                            static_cast<uint32_t>(i), 1024, schema::DataType::kFloat32, i + 1));
      schema::EventRecord kernel = Of(EventKind::kGpuKernel, t + 10'000, t + 50'000);
      kernel.aux = static_cast<uint16_t>(schema::GpuKernelClass::kNccl);
      kernel.payload.kernel.name = kernel_name;
      kernel.payload.kernel.stream = 13;
      kernel.payload.kernel.correlation = static_cast<uint32_t>(i);
      builder.Append(1, kernel);
      schema::EventRecord range = Of(EventKind::kRange, t, t + 60'000);
      range.payload.range.name = range_name;
      builder.Append(0, range);
      for (const EventKind kind : {EventKind::kGpuMemcpy, EventKind::kGpuSync, EventKind::kGpuMemory,
                                   EventKind::kFileIo, EventKind::kHostSample, EventKind::kGpuGraph})
        builder.Append(1, Of(kind, t + 60'000, t + 70'000));
    }
    rings.push_back(FuzzFile(rank == 0 ? ".report-0.ring" : ".report-1.ring"));
    if (!builder.Write(rings.back())) std::abort();
  }
  const std::string path = FuzzFile(".report-seed.rsc");
  const auto recording = analysis::OpenRecording(rings);
  if (!recording.ok() || !analysis::WriteTimeline(**recording, path).ok()) std::abort();
  std::ifstream in(path, std::ios::binary);
  std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), {}};
  for (const std::string& ring : rings) std::remove(ring.c_str());
  std::remove(path.c_str());
  return bytes;
}

}  // namespace

std::vector<uint8_t> FuzzSeed() { return Seed(); }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string path = FuzzFile(".report.rsc");
  if (!WriteFuzzFile(path, data, size)) return 0;
  const auto timeline = analysis::OpenTimeline(path);
  if (!timeline.ok()) return 0;
  const FirstOf part(**timeline);
  const answers::Report report = answers::BuildReport(part);
  if (answers::RenderText(report).empty() || answers::RenderPhasesText(report).empty()) std::abort();
  answers::RenderHangText(report.hang);
  if (answers::DumpJson(answers::ToJson(report)).empty()) std::abort();
  return 0;
}
