// Timelines: what is written comes back, whole, cut or damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>

#include "analysis/recording/open.h"
#include "analysis/recording/timeline_reader.h"
#include "analysis/recording/timeline_writer.h"
#include "schema/timeline_generated.h"
#include "tests/fakes/ring_builder.h"

namespace rankscope::analysis {
namespace {

using ::rankscope::testing::CollRecord;
using ::rankscope::testing::RingBuilder;
using schema::EventKind;
using schema::Function;
using ::testing::HasSubstr;

class TimelineTest : public ::testing::Test {
 protected:
  TimelineTest() : dir_(::testing::TempDir() + "timeline_test." + std::to_string(getpid())) {
    std::filesystem::create_directories(dir_ + "/rings");
  }
  ~TimelineTest() override { std::filesystem::remove_all(dir_); }

  // Four ranks, two lanes each, `records` collectives a lane, with some of every sort of payload among them.
  std::unique_ptr<Recording> Rings(uint32_t records) {
    for (int rank = 0; rank < 4; ++rank) {
      RingBuilder builder(2, 1024);
      builder.SetRank(rank, 4);
      schema::CommEntry comm{};
      comm.hash = 77;
      comm.rank = rank;
      comm.ranks = 4;
      comm.flags = schema::kCommIdentityKnown;
      comm.name = builder.AddName("world");
      builder.AddComm(comm);
      schema::InFlightSlot slot{};
      slot.children_started = 2;
      slot.children_stopped = 1;
      slot.count = 99;
      builder.AddSlot(0, EventKind::kColl, schema::kSlotIssued | schema::kSlotIsOperation, slot);
      builder.AddLoss(schema::LossReason::kNoLane, 3);
      std::mt19937_64 random(static_cast<uint64_t>(rank));
      uint64_t now = 1'000'000;
      for (uint32_t i = 0; i < 2 * records; ++i) {
        now += random() % 1000;
        schema::EventRecord record =
            CollRecord(now - random() % 500, now, 0, Function::kAllReduce, i, random() % 1'000'000);
        if (i % 7 == 3) {
          record.kind = static_cast<uint16_t>(EventKind::kOpComplete);
          record.payload.completion = {now - 400, 3, 1, 2, {}, random()};
        } else if (i % 7 == 5) {
          record.kind = static_cast<uint16_t>(EventKind::kP2p);
          record.payload.p2p = {random(), 0, i, 9, 7, {}, -1};
        } else if (i % 7 == 6) {
          record.kind = static_cast<uint16_t>(EventKind::kProxyStep);
          for (uint64_t& word : record.payload.words) word = random();
        }
        record.flags = static_cast<uint16_t>(random());
        record.aux = static_cast<uint16_t>(random());
        record.op_id = random();
        builder.Append(i % 2, record);
      }
      EXPECT_TRUE(builder.Write(dir_ + "/rings/" + std::to_string(rank) + ".ring"));
    }
    return Open(dir_ + "/rings");
  }
  static std::unique_ptr<Recording> Open(const std::string& path) {
    absl::StatusOr<std::unique_ptr<Recording>> recording = OpenRecording({path});
    EXPECT_TRUE(recording.ok()) << recording.status();
    return recording.ok() ? *std::move(recording) : nullptr;
  }
  static std::vector<Event> ReadAll(const Recording& recording, KindMask kinds = kAllKinds) {
    std::vector<Event> all, part(333);
    const std::unique_ptr<EventStream> stream = recording.Events(kinds);
    while (const size_t count = stream->Read(absl::MakeSpan(part))) {
      all.insert(all.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count));
    }
    EXPECT_TRUE(stream->status().ok());
    return all;
  }
  // Everything of an event, lanes of one time in any order.
  static std::vector<std::string> Keys(const std::vector<Event>& events) {
    std::vector<std::string> keys;
    for (const Event& e : events) {
      std::string key;
      for (const uint64_t v :
           {uint64_t{e.rank_index}, uint64_t{e.kind}, uint64_t{e.flags}, uint64_t{e.comm}, uint64_t{e.aux},
            uint64_t{e.lane}, static_cast<uint64_t>(e.begin_ns), static_cast<uint64_t>(e.end_ns), e.op_id,
            e.payload.words[0], e.payload.words[1], e.payload.words[2]}) {
        key += std::to_string(v) + " ";
      }
      keys.push_back(key);
    }
    std::sort(keys.begin(), keys.end());
    return keys;
  }
  std::string ReadFile(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void WriteFile(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  const std::string dir_;
};

TEST_F(TimelineTest, EveryFieldOfEveryEventComesBackWhateverTheChunkLimit) {
  const std::unique_ptr<Recording> rings = Rings(300);
  ASSERT_NE(rings, nullptr);
  const std::vector<Event> expected = ReadAll(*rings);
  ASSERT_EQ(expected.size(), 4u * 600);
  for (const uint32_t chunk_events : {1u, 7u, 100u, 0u}) {
    WriteOptions options;
    options.chunk_events = chunk_events;
    const absl::StatusOr<WriteResult> written = WriteTimeline(*rings, dir_ + "/t.rsc", options);
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(written->events, expected.size());
    EXPECT_EQ(written->bytes, std::filesystem::file_size(dir_ + "/t.rsc"));
    const std::unique_ptr<Recording> timeline = Open(dir_ + "/t.rsc");
    ASSERT_NE(timeline, nullptr);
    EXPECT_TRUE(timeline->warnings().empty());
    const std::vector<Event> events = ReadAll(*timeline);
    EXPECT_EQ(Keys(events), Keys(expected));
    EXPECT_TRUE(std::is_sorted(events.begin(), events.end(),
                               [](const Event& a, const Event& b) { return a.end_ns < b.end_ns; }));
  }
}

TEST_F(TimelineTest, RanksComeBackWithAllThatTheRingsSaid) {
  const std::unique_ptr<Recording> rings = Rings(3);
  ASSERT_NE(rings, nullptr);
  ASSERT_TRUE(WriteTimeline(*rings, dir_ + "/t.rsc").ok());
  const std::unique_ptr<Recording> timeline = Open(dir_ + "/t.rsc");
  ASSERT_NE(timeline, nullptr);
  ASSERT_EQ(timeline->ranks().size(), 4u);
  for (int rank = 0; rank < 4; ++rank) {
    const RankInfo& info = timeline->ranks()[static_cast<size_t>(rank)];
    EXPECT_EQ(info.rank, rank);
    EXPECT_EQ(info.host, "host-0");
    ASSERT_EQ(info.comms.size(), 1u);
    EXPECT_EQ(info.comms[0].hash, 77u);
    EXPECT_EQ(info.comms[0].name, "world");
    ASSERT_EQ(info.in_flight.size(), 1u);
    EXPECT_EQ(info.in_flight[0].count, 99u);
    ASSERT_EQ(info.losses.size(), 1u);
    EXPECT_EQ(info.losses[0].count, 3u);
  }
  ASSERT_EQ(timeline->clocks().size(), 1u);
  EXPECT_EQ(timeline->clocks()[0].bound_ns, 0) << "one host: exact";
}

TEST_F(TimelineTest, TheGpuSourceComesThroughAndItsRecordsAreInOrder) {
  RingBuilder builder(2, 1024);
  builder.SetRank(0, 1);
  schema::CuptiInfo cupti{};
  cupti.state = static_cast<uint32_t>(schema::CuptiState::kYielded);
  cupti.api_version = 130001;
  cupti.result = 39;
  cupti.clock = static_cast<uint32_t>(schema::CuptiClock::kOurs);
  cupti.enabled_kinds = 1 << 10;
  cupti.armed_ticks = 5'000'000;
  cupti.blind_ns = 77;
  cupti.stride[10] = 216;
  std::snprintf(cupti.library, sizeof(cupti.library), "/x/libcupti.so.13");
  std::snprintf(cupti.holder, sizeof(cupti.holder), "somebody");
  builder.SetCupti(cupti).AddStream(0x7000, 13, 1).AddStream(0x8000, 14);
  builder.header().doors = schema::kDoorCuda | schema::kDoorPlugin;
  for (uint64_t i = 0; i < 304; ++i) {
    schema::EventRecord record{};
    record.kind = static_cast<uint16_t>(EventKind::kGpuKernel);
    record.begin_ticks = 1'000'000 + (i ^ 7) * 100;  // within each eight in reverse
    record.end_ticks = record.begin_ticks + 50;
    record.payload.kernel.correlation = static_cast<uint32_t>(i ^ 7);
    builder.Append(0, record);
    builder.Append(1, CollRecord(1'000'000 + i * 100, 1'000'020 + i * 100, 0, Function::kAllReduce,
                                 static_cast<uint32_t>(i), 8));
  }
  ASSERT_TRUE(builder.Write(dir_ + "/rings/gpu.ring"));
  const absl::StatusOr<std::unique_ptr<Recording>> rings = OpenRecording({dir_ + "/rings/gpu.ring"});
  ASSERT_TRUE(rings.ok()) << rings.status();
  ASSERT_TRUE(WriteTimeline(**rings, dir_ + "/gpu.rsc").ok());
  const std::unique_ptr<Recording> timeline = Open(dir_ + "/gpu.rsc");
  for (const Recording* recording : std::initializer_list<const Recording*>{rings->get(), timeline.get()}) {
    ASSERT_NE(recording, nullptr);
    const RankInfo& rank = recording->ranks()[0];
    EXPECT_EQ(rank.doors, schema::kDoorCuda | schema::kDoorPlugin);
    EXPECT_EQ(rank.cupti.state, cupti.state);
    EXPECT_EQ(rank.cupti.api_version, 130001u);
    EXPECT_EQ(rank.cupti.result, 39);
    EXPECT_EQ(rank.cupti.armed_ns, static_cast<int64_t>(RingBuilder::kEpochNs) + 5'000'000);
    EXPECT_EQ(rank.cupti.blind_ns, 77u);
    ASSERT_EQ(rank.cupti.strides.size(), 64u);
    EXPECT_EQ(rank.cupti.strides[10], 216);
    EXPECT_EQ(rank.cupti.library, "/x/libcupti.so.13");
    EXPECT_EQ(rank.cupti.holder, "somebody");
    ASSERT_EQ(rank.streams.size(), 2u);
    EXPECT_EQ(rank.streams[1].handle, 0x8000u);
    EXPECT_EQ(rank.streams[1].stream_id, 14u);
    const std::vector<Event> events = ReadAll(*recording);
    ASSERT_EQ(events.size(), 608u);
    EXPECT_TRUE(std::is_sorted(events.begin(), events.end(),
                               [](const Event& a, const Event& b) { return a.end_ns < b.end_ns; }));
    uint32_t next = 0;
    for (const Event& event : events) {
      if (event.kind == static_cast<uint16_t>(EventKind::kGpuKernel)) {
        ASSERT_EQ(event.payload.kernel.correlation, next++);
      }
    }
  }
}

TEST_F(TimelineTest, OnlyTheKindsThatWereAskedForAreDelivered) {
  const std::unique_ptr<Recording> rings = Rings(100);
  ASSERT_NE(rings, nullptr);
  ASSERT_TRUE(WriteTimeline(*rings, dir_ + "/t.rsc").ok());
  const std::unique_ptr<Recording> timeline = Open(dir_ + "/t.rsc");
  ASSERT_NE(timeline, nullptr);
  for (const Recording* recording : {rings.get(), timeline.get()}) {
    const std::vector<Event> events = ReadAll(*recording, MaskOf(EventKind::kP2p));
    EXPECT_EQ(events.size(), 4u * 28);  // i % 7 == 5 for i in [0, 200): 5, 12, ..., 194
    for (const Event& event : events) EXPECT_EQ(event.kind, static_cast<uint16_t>(EventKind::kP2p));
  }
}

TEST_F(TimelineTest, ATruncatedFileIsReadAsFarAsItGoesAndSaysSo) {
  const std::unique_ptr<Recording> rings = Rings(200);
  ASSERT_NE(rings, nullptr);
  WriteOptions options;
  options.chunk_events = 50;
  ASSERT_TRUE(WriteTimeline(*rings, dir_ + "/t.rsc", options).ok());
  const std::string whole = ReadFile(dir_ + "/t.rsc");
  size_t most = 0;
  for (int i = 0; i < 100; ++i) {
    WriteFile(dir_ + "/cut.rsc", whole.substr(0, whole.size() * static_cast<size_t>(i) / 100));
    const absl::StatusOr<std::unique_ptr<Recording>> cut = OpenTimeline(dir_ + "/cut.rsc");
    if (!cut.ok()) {
      EXPECT_THAT(std::string(cut.status().message()), HasSubstr("cut.rsc"));
      continue;
    }
    ASSERT_EQ((*cut)->warnings().size(), 1u);
    EXPECT_THAT((*cut)->warnings()[0], HasSubstr("has no index"));
    const size_t events = ReadAll(**cut).size();
    EXPECT_GE(events, most) << "a longer file holds no less";
    most = events;
  }
  EXPECT_GT(most, 0u);
}

TEST_F(TimelineTest, DamagedBytesNeverCrash) {
  const std::unique_ptr<Recording> rings = Rings(60);
  ASSERT_NE(rings, nullptr);
  WriteOptions options;
  options.chunk_events = 16;
  ASSERT_TRUE(WriteTimeline(*rings, dir_ + "/t.rsc", options).ok());
  const std::string whole = ReadFile(dir_ + "/t.rsc");
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    std::string bytes = whole;
    for (int i = 0; i < 10; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    WriteFile(dir_ + "/bad.rsc", bytes);
    const absl::StatusOr<std::unique_ptr<Recording>> bad = OpenTimeline(dir_ + "/bad.rsc");
    if (bad.ok()) ReadAll(**bad);
  }
}

// Found by fuzz_timeline: a chunk of no events whose column has a width but no bytes was followed through null.
TEST_F(TimelineTest, AChunkOfNoEventsMayHaveAColumnWithoutBytes) {
  std::string file;
  flatbuffers::FlatBufferBuilder builder;
  const auto append = [&](timeline::Body type, flatbuffers::Offset<void> body) {
    timeline::FinishSizePrefixedMessageBuffer(builder, timeline::CreateMessage(builder, type, body));
    file.append(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
    file.resize((file.size() + 7) / 8 * 8);
    builder.Clear();
  };
  append(timeline::Body::Header, timeline::CreateHeader(builder, 1, 0).Union());
  append(timeline::Body::RankInfo, timeline::CreateRankInfo(builder, 0, 0, 1).Union());
  const std::vector<flatbuffers::Offset<timeline::Column>> columns = {
      timeline::CreateColumn(builder, timeline::ColumnId::BeginNs, 8, 0)};
  append(timeline::Body::Chunk,
         timeline::CreateChunkDirect(builder, 0, static_cast<uint16_t>(EventKind::kColl), 0, 0, 0, &columns).Union());
  WriteFile(dir_ + "/empty_chunk.rsc", file);
  const absl::StatusOr<std::unique_ptr<Recording>> recording = OpenTimeline(dir_ + "/empty_chunk.rsc");
  ASSERT_TRUE(recording.ok()) << recording.status();
  EXPECT_EQ((*recording)->ranks().size(), 1u);
  EXPECT_TRUE(ReadAll(**recording).empty());
}

TEST_F(TimelineTest, ARefusalSaysWhatTheFileIs) {
  WriteFile(dir_ + "/x.rsc", "short");
  EXPECT_THAT(std::string(OpenTimeline(dir_ + "/x.rsc").status().message()), HasSubstr("too short for a timeline"));
  WriteFile(dir_ + "/x.rsc", std::string(100, 'x'));
  EXPECT_THAT(std::string(OpenTimeline(dir_ + "/x.rsc").status().message()),
              HasSubstr("is not a timeline of rankscope"));
}

TEST_F(TimelineTest, AFailedWriteLeavesTheOldFileAndNoRubbish) {
  const std::unique_ptr<Recording> rings = Rings(3);
  ASSERT_NE(rings, nullptr);
  WriteFile(dir_ + "/t.rsc", "the old one");
  // A full disk, as /dev/full is one: the writer refuses what isn't a regular file, so a folder without room to write
  // stands in.
  const absl::StatusOr<WriteResult> to_device = WriteTimeline(*rings, "/dev/full");
  ASSERT_FALSE(to_device.ok());
  EXPECT_THAT(std::string(to_device.status().message()), HasSubstr("not a regular file"));
  const absl::StatusOr<WriteResult> nowhere = WriteTimeline(*rings, dir_ + "/missing/t.rsc");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_THAT(std::string(nowhere.status().message()), HasSubstr("cannot create"));
  EXPECT_EQ(ReadFile(dir_ + "/t.rsc"), "the old one");
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir_)) ++files;
  EXPECT_EQ(files, 2u) << "rings/ and t.rsc";
}

}  // namespace
}  // namespace rankscope::analysis
