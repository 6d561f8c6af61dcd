// Any bytes as a ring: a sentence or a reading, never a crash. Runs as a libFuzzer target (clang, RANKSCOPE_FUZZ=ON)
// and, over deterministic mutations, as a test everywhere (mutation_main.cc).
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "analysis/recording/ring_reader.h"
#include "tests/fakes/ring_builder.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace rankscope;  // NOLINT: a test program

std::vector<uint8_t> Seed() {
  testing::RingBuilder builder(2, 16);
  builder.SetRank(1, 2);
  schema::CommEntry comm{};
  comm.name = builder.AddName("world");
  builder.AddComm(comm);
  builder.AddTotal(0, schema::Function::kAllReduce, 4, {});
  builder.AddSlot(1, schema::EventKind::kColl, schema::kSlotOpen | schema::kSlotIsOperation, {});
  for (uint32_t i = 0; i < 20; ++i)
    builder.Append(i % 2, testing::CollRecord(i, i + 1, 0, schema::Function::kAllReduce, i, 8));
  schema::CuptiInfo cupti{};
  cupti.state = static_cast<uint32_t>(schema::CuptiState::kArmed);
  builder.SetCupti(cupti).AddStream(0x7000, 13);
  return builder.Bytes();
}

}  // namespace

std::vector<uint8_t> FuzzSeed() { return Seed(); }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string path = FuzzFile(".ring");
  if (!WriteFuzzFile(path, data, size)) return 0;
  auto ring = analysis::RingFile::Open(path);
  if (!ring.ok()) {
    if (ring.status().message().empty()) std::abort();
    return 0;
  }
  (*ring)->SetClock(analysis::EpochOffset((*ring)->samples()));
  schema::EventRecord record;
  for (const analysis::LaneWindow& lane : (*ring)->lanes()) {
    for (uint64_t i = lane.first; i < lane.last; ++i) analysis::TakeRecord(lane, i, &record);
  }
  return 0;
}
