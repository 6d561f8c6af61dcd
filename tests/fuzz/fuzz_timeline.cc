// Any bytes as a timeline: a sentence or a reading, never a crash. See fuzz_ring.cc for how it runs.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "analysis/recording/open.h"
#include "analysis/recording/timeline_reader.h"
#include "analysis/recording/timeline_writer.h"
#include "tests/fakes/ring_builder.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace rankscope;  // NOLINT: a test program

std::vector<uint8_t> Seed() {
  const std::string ring_path = FuzzFile(".seed.ring"), path = FuzzFile(".seed.rsc");
  testing::RingBuilder builder(1, 64);
  builder.SetRank(0, 1);
  builder.AddComm({});
  for (uint32_t i = 0; i < 40; ++i)
    builder.Append(0, testing::CollRecord(i, 3 * i + 1, 0, schema::Function::kAllGather, i, 8u << (i % 20)));
  if (!builder.Write(ring_path)) std::abort();
  const auto rings = analysis::OpenRecording({ring_path});
  analysis::WriteOptions options;
  options.chunk_events = 16;
  if (!rings.ok() || !analysis::WriteTimeline(**rings, path, options).ok()) std::abort();
  std::ifstream in(path, std::ios::binary);
  std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), {}};
  std::remove(ring_path.c_str());
  std::remove(path.c_str());
  return bytes;
}

}  // namespace

std::vector<uint8_t> FuzzSeed() { return Seed(); }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string path = FuzzFile(".rsc");
  if (!WriteFuzzFile(path, data, size)) return 0;
  const auto timeline = analysis::OpenTimeline(path);
  if (!timeline.ok()) {
    if (timeline.status().message().empty()) std::abort();
    return 0;
  }
  std::vector<analysis::Event> block(512);
  const auto stream = (*timeline)->Events(analysis::kAllKinds);
  // A small file may claim many equal events; a fraction shows as much as all of them.
  for (int i = 0; i < 200 && stream->Read(absl::MakeSpan(block)) != 0; ++i) {
  }
  return 0;
}
