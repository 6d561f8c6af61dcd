// Rings read back, whole and damaged. What is in them is built by tests/fakes/ring_builder, so every expectation is
// arithmetic.
#include "analysis/recording/ring_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <random>
#include <thread>

#include "tests/fakes/ring_builder.h"

namespace rankscope::analysis {
namespace {

using ::rankscope::testing::CollRecord;
using ::rankscope::testing::RingBuilder;
using schema::EventKind;
using schema::Function;
using ::testing::HasSubstr;

class RingReaderTest : public ::testing::Test {
 protected:
  RingReaderTest() : path_(::testing::TempDir() + "ring_reader_test." + std::to_string(getpid()) + ".ring") {}
  ~RingReaderTest() override { std::remove(path_.c_str()); }

  void WriteBytes(const std::vector<uint8_t>& bytes) {
    std::ofstream out(path_, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  std::unique_ptr<RingFile> Open() {
    absl::StatusOr<std::unique_ptr<RingFile>> ring = RingFile::Open(path_);
    EXPECT_TRUE(ring.ok()) << ring.status();
    if (!ring.ok()) return nullptr;
    (*ring)->SetClock(EpochOffset((*ring)->samples()));
    return *std::move(ring);
  }
  std::string Refusal() {
    const absl::StatusOr<std::unique_ptr<RingFile>> ring = RingFile::Open(path_);
    return ring.ok() ? "was read" : std::string(ring.status().message());
  }
  static std::vector<schema::EventRecord> Records(const RingFile& ring) {
    std::vector<schema::EventRecord> records;
    schema::EventRecord record;
    for (const LaneWindow& lane : ring.lanes()) {
      for (uint64_t i = lane.first; i < lane.last; ++i) {
        if (TakeRecord(lane, i, &record)) records.push_back(record);
      }
    }
    return records;
  }
  static uint64_t ReadOf(const RingFile& ring, EventKind kind, uint64_t KindCountInfo::*field) {
    for (const KindCountInfo& count : ring.info().kinds) {
      if (count.kind == static_cast<uint16_t>(kind)) return count.*field;
    }
    return 0;
  }

  const std::string path_;
};

TEST_F(RingReaderTest, ReadsIdentityCommunicatorsTotalsAndRecords) {
  RingBuilder builder(2, 8);
  builder.SetRank(3, 8);
  builder.identity().nccl_api_version = 6;
  schema::CommEntry comm{};
  comm.hash = 0xabc;
  comm.rank = 3;
  comm.ranks = 8;
  comm.flags = schema::kCommIdentityKnown;
  comm.name = builder.AddName("world", schema::NameKind::kComm);
  comm.launched_by_func[static_cast<int>(Function::kAllReduce)] = 5;
  builder.AddComm(comm);
  schema::TotalCell total{};
  total.launched = 2;
  total.bytes = 100;
  builder.AddTotal(0, Function::kAllReduce, 6, total).AddTotal(1, Function::kAllReduce, 6, total);
  builder.AddLoss(schema::LossReason::kStaleHandle, 4);
  for (uint32_t i = 0; i < 5; ++i) builder.Append(0, CollRecord(100 + i, 110 + i, 0, Function::kAllReduce, i, 25));
  ASSERT_TRUE(builder.Write(path_));

  const std::unique_ptr<RingFile> ring = Open();
  ASSERT_NE(ring, nullptr);
  const RankInfo& info = ring->info();
  EXPECT_EQ(info.rank, 3);
  EXPECT_EQ(info.nccl_api_version, 6);
  ASSERT_EQ(info.comms.size(), 1u);
  EXPECT_EQ(info.comms[0].hash, 0xabcu);
  EXPECT_EQ(info.comms[0].name, "world");
  EXPECT_EQ(info.comms[0].launched_by_func[static_cast<int>(Function::kAllReduce)], 5u);
  ASSERT_EQ(info.totals.size(), 1u) << "cells of one key are added up over the lanes";
  EXPECT_EQ(info.totals[0].launched, 4u);
  EXPECT_EQ(info.totals[0].bytes, 200u);
  ASSERT_EQ(info.losses.size(), 1u);
  EXPECT_EQ(info.losses[0].count, 4u);
  EXPECT_EQ(Records(*ring).size(), 5u);
  EXPECT_EQ(info.torn_records, 0u);
  EXPECT_FALSE(info.alive) << "no process of that boot lives here";
}

TEST_F(RingReaderTest, TotalsThatOneLaneTookBackAreSummedModulo2To64) {
  RingBuilder builder(2, 8);
  schema::TotalCell first{}, second{};
  first.completed = 7;
  first.duration_ticks = 1000;
  second.completed = ~0ull - 1;  // minus 2
  second.duration_ticks = static_cast<uint64_t>(-300);
  builder.AddTotal(0, Function::kAllReduce, 3, first).AddTotal(1, Function::kAllReduce, 3, second);
  ASSERT_TRUE(builder.Write(path_));
  const std::unique_ptr<RingFile> ring = Open();
  ASSERT_NE(ring, nullptr);
  EXPECT_EQ(ring->info().totals[0].completed, 5u);
  EXPECT_EQ(ring->info().totals[0].duration_ns, 700);
}

TEST_F(RingReaderTest, AnOverwrittenLapIsToldFromTheNewestOne) {
  RingBuilder builder(1, 8);
  for (uint32_t i = 0; i < 21; ++i) builder.Append(0, CollRecord(100 + i, 100 + i, 0, Function::kAllReduce, i, 1));
  ASSERT_TRUE(builder.Write(path_));
  const std::unique_ptr<RingFile> ring = Open();
  ASSERT_NE(ring, nullptr);
  const std::vector<schema::EventRecord> records = Records(*ring);
  ASSERT_EQ(records.size(), 8u);
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(records[i].payload.coll.seq, 13 + i);
  EXPECT_EQ(ReadOf(*ring, EventKind::kColl, &KindCountInfo::committed), 21u);
  EXPECT_EQ(ReadOf(*ring, EventKind::kColl, &KindCountInfo::overwritten), 13u);
}

TEST_F(RingReaderTest, ARecordThatAKilledWriterLeftHalfIsSkippedAndCounted) {
  RingBuilder builder(1, 8);
  builder.Append(0, CollRecord(1, 2, 0, Function::kAllReduce, 0, 1))
      .AppendTorn(0)
      .Append(0, CollRecord(3, 4, 0, Function::kAllReduce, 1, 1));
  ASSERT_TRUE(builder.Write(path_));
  const std::unique_ptr<RingFile> ring = Open();
  ASSERT_NE(ring, nullptr);
  EXPECT_EQ(Records(*ring).size(), 2u);
  EXPECT_EQ(ring->info().torn_records, 1u);
}

TEST_F(RingReaderTest, OnlyWhatIsUnderWayIsReportedAsInFlight) {
  RingBuilder builder(1, 8);
  schema::InFlightSlot open{}, waiting{}, done{}, stopped{};
  open.seq = 1;
  waiting.seq = 2;
  waiting.children_started = 3;
  waiting.children_stopped = 1;
  done.seq = 3;
  done.children_started = done.children_stopped = 2;
  stopped.seq = 4;
  const uint8_t issued = schema::kSlotIssued | schema::kSlotIsOperation;
  builder.AddSlot(0, EventKind::kColl, issued | schema::kSlotOpen, open);
  builder.AddSlot(0, EventKind::kColl, issued, waiting);
  builder.AddSlot(0, EventKind::kColl, issued, done);
  builder.AddSlot(0, EventKind::kColl, issued, stopped);
  ASSERT_TRUE(builder.Write(path_));
  const std::unique_ptr<RingFile> ring = Open();
  ASSERT_NE(ring, nullptr);
  ASSERT_EQ(ring->info().in_flight.size(), 2u);
  EXPECT_EQ(ring->info().in_flight[0].seq, 1u);
  EXPECT_EQ(ring->info().in_flight[1].seq, 2u);
  EXPECT_EQ(ring->info().in_flight[1].children_started, 3u);
}

TEST_F(RingReaderTest, RefusesWithASentence) {
  RingBuilder builder(1, 8);
  const std::vector<uint8_t> good = builder.Bytes();

  WriteBytes({});
  EXPECT_THAT(Refusal(), HasSubstr("too short for a ring"));
  WriteBytes(std::vector<uint8_t>(8192, 0x41));
  EXPECT_THAT(Refusal(), HasSubstr("is not a ring of rankscope"));
  std::vector<uint8_t> bytes = good;
  bytes.resize(good.size() - 1);
  WriteBytes(bytes);
  EXPECT_THAT(Refusal(), HasSubstr("was cut"));

  builder.header().major = 2;
  WriteBytes(builder.Bytes());
  EXPECT_THAT(Refusal(),
              HasSubstr("is a ring of format 2." + std::to_string(schema::kRingMinor) + ", this program reads 1.x"));
  builder.header().major = 1;
  builder.header().magic = 0;
  WriteBytes(builder.Bytes());
  EXPECT_THAT(Refusal(), HasSubstr("had not finished setting up"));
  builder.header().magic = __builtin_bswap64(schema::kRingMagic);
  WriteBytes(builder.Bytes());
  EXPECT_THAT(Refusal(), HasSubstr("other byte order"));
}

TEST_F(RingReaderTest, ASectionThatPointsOutsideIsRefused) {
  const std::vector<uint8_t> good = RingBuilder(1, 8).Bytes();
  for (size_t entry = 0; entry < 10; ++entry) {
    for (const size_t field : {4u, 8u, 16u}) {
      for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 31, uint64_t{1} << 63, ~uint64_t{0}}) {
        std::vector<uint8_t> bytes = good;
        std::memcpy(bytes.data() + 256 + 24 * entry + field, &value, field == 4 ? 4 : 8);
        WriteBytes(bytes);
        const absl::StatusOr<std::unique_ptr<RingFile>> ring = RingFile::Open(path_);
        if (ring.ok()) {
          (*ring)->SetClock(0);  // may be readable; must not crash
        } else {
          EXPECT_THAT(std::string(ring.status().message()), HasSubstr(path_));
        }
      }
    }
  }
}

TEST_F(RingReaderTest, EveryCutIsASentenceOrAReadableRing) {
  RingBuilder builder(2, 8);
  for (uint32_t i = 0; i < 5; ++i) builder.Append(0, CollRecord(i, i, 0, Function::kAllReduce, i, 1));
  const std::vector<uint8_t> good = builder.Bytes();
  for (size_t size = 0; size < good.size(); size += 97) {
    WriteBytes(std::vector<uint8_t>(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)));
    EXPECT_NE(Refusal(), "was read") << size;
  }
}

TEST_F(RingReaderTest, RandomBytesNeverCrash) {
  RingBuilder builder(2, 8);
  for (uint32_t i = 0; i < 20; ++i) builder.Append(i % 2, CollRecord(i, i, 0, Function::kAllReduce, i, 1));
  schema::CommEntry comm{};
  comm.name = builder.AddName("x");
  builder.AddComm(comm);
  const std::vector<uint8_t> good = builder.Bytes();
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    std::mt19937 random(seed);
    std::vector<uint8_t> bytes = good;
    // Half of the damage hits the header and the small tables, where it hurts most.
    for (int i = 0; i < 20; ++i)
      bytes[random() % (i % 2 == 0 ? bytes.size() : 2048)] = static_cast<uint8_t>(random());
    std::memcpy(bytes.data(), good.data(), 16);
    WriteBytes(bytes);
    absl::StatusOr<std::unique_ptr<RingFile>> ring = RingFile::Open(path_);
    if (!ring.ok()) continue;
    (*ring)->SetClock(EpochOffset((*ring)->samples()));
    Records(**ring);
  }
}

TEST_F(RingReaderTest, ANewerMinorVersionWithLongerEntriesAndUnknownSectionsIsRead) {
  RingBuilder builder(1, 8);
  builder.header().minor = 7;
  builder.Append(0, CollRecord(5, 6, 0, Function::kAllReduce, 9, 1));
  std::vector<uint8_t> bytes = builder.Bytes();
  // Records that are 96 bytes long, at the file's end; and a section that nobody knows.
  schema::RingHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  schema::SectionEntry& records = header.sections[9];
  const uint64_t old_offset = records.offset;
  std::vector<uint8_t> longer(8 * 96, 0xee);
  for (size_t i = 0; i < 8; ++i) std::memcpy(longer.data() + 96 * i, bytes.data() + old_offset + 64 * i, 64);
  records.offset = bytes.size();
  records.entry_bytes = 96;
  bytes.insert(bytes.end(), longer.begin(), longer.end());
  header.sections[10] = {31, 4096, 1ull << 60, 1ull << 60};
  header.section_count = 11;
  header.file_bytes = bytes.size();
  std::memcpy(bytes.data(), &header, sizeof(header));
  WriteBytes(bytes);
  const std::unique_ptr<RingFile> ring = Open();
  ASSERT_NE(ring, nullptr);
  const std::vector<schema::EventRecord> found = Records(*ring);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].payload.coll.seq, 9u);
}

TEST_F(RingReaderTest, ALiveWriterNeverMakesATornRecordLookWhole) {
  // One thread writes by the protocol of schema/ring_abi.h, words that are all functions of the index; the reader
  // must never see a mix.
  constexpr uint64_t kCount = 64;
  alignas(64) static uint64_t ring[kCount * 8];
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t index = 0; !stop.load(std::memory_order_relaxed); ++index) {
      uint64_t* out = &ring[(index % kCount) * 8];
      __atomic_store_n(&out[0], 0, __ATOMIC_RELAXED);
#if !defined(__SANITIZE_THREAD__)
      std::atomic_thread_fence(std::memory_order_release);
#endif
      for (int w = 1; w < 8; ++w) __atomic_store_n(&out[w], index * 8 + static_cast<uint64_t>(w), __ATOMIC_RELAXED);
      __atomic_store_n(&out[0], index + 1, __ATOMIC_RELEASE);
    }
  });
  LaneWindow window;
  window.records = reinterpret_cast<const uint8_t*>(ring);
  window.entry_bytes = 64;
  window.count = kCount;
  uint64_t good = 0;
  // Until enough records were seen whole, however slowly the machine lets the writer begin.
  for (uint64_t tries = 0; tries < 2'000'000 || good < 1000; ++tries) {
    const uint64_t commit = LoadWordAcquire(window.records + (tries % kCount) * 64);
    if (commit == 0) continue;
    uint64_t words[8];
    if (!TakeRecord(window, commit - 1, reinterpret_cast<schema::EventRecord*>(words))) continue;
    ++good;
    for (uint64_t w = 1; w < 8; ++w) ASSERT_EQ(words[w], (commit - 1) * 8 + w);
  }
  stop = true;
  writer.join();
  EXPECT_GT(good, 0u);
}

}  // namespace
}  // namespace rankscope::analysis
