// What is behind the interposed calls, linked into the test: classes of paths, sums of reads and writes. Each test in
// a process of its own.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "preload/file_io.h"
#include "recorder/session.h"

namespace rankscope::preload {
namespace {

using recorder::g_session;
using schema::EventKind;
using schema::EventRecord;
using schema::FileOperation;

TEST(PathClassTest, NamesOfFrameworksTell) {
  for (const char* path : {"/run/global_step100/zero_pp_rank_0_mp_rank_00_optim_states.pt", "m.safetensors",
                           "/c/__0_0.distcp", "/x/checkpoint-500/trainer_state.json", "/ckpts/step1/latest",
                           "pytorch_model-00001-of-2.bin", "epoch=3.ckpt"})
    EXPECT_EQ(ClassOfPath(path), PathClass::kCheckpoint) << path;
  for (const char* path :
       {"/data/c4-0001.parquet", "shard-000.tar", "/d/tokens.bin", "/d/tokens.idx", "a.jsonl", "x.npy"})
    EXPECT_EQ(ClassOfPath(path), PathClass::kData) << path;
  for (const char* path :
       {"/etc/passwd", "train.py", "/proc/self/maps", "/usr/lib/x.bin", "log.txt", "", "/", "pt", "/dev/nvidia0"})
    EXPECT_EQ(ClassOfPath(path), PathClass::kUntracked) << path;
  EXPECT_EQ(ClassOfPath(nullptr), PathClass::kUntracked);
  EXPECT_EQ(ClassOfPath("/dev/shm/stage/model.pt"), PathClass::kCheckpoint);
}

class FileIoTest : public ::testing::Test {
 protected:
  FileIoTest() {
    char path[] = "/tmp/rankscope-preload-test-XXXXXX";
    dir_ = mkdtemp(path);
    setenv("RANKSCOPE_DIR", dir_.c_str(), 1);
    setenv("RANKSCOPE_RING_BYTES", "4M", 1);
  }
  ~FileIoTest() override { std::filesystem::remove_all(dir_); }
  static std::vector<EventRecord> Records(EventKind kind) {
    std::vector<EventRecord> found;
    for (uint32_t l = 0; l < g_session.lane_count; ++l) {
      const schema::LaneHeader& lane = g_session.lane_headers[l];
      const uint64_t head = recorder::LoadAcquire(lane.head);
      for (uint64_t i = head > lane.record_count ? head - lane.record_count : 0; i < head; ++i) {
        const EventRecord& record = g_session.records[lane.first_record + i % lane.record_count];
        if (record.kind == static_cast<uint16_t>(kind)) found.push_back(record);
      }
    }
    return found;
  }
  static void Io(int fd, FileOperation operation, int64_t bytes) { EndIo(fd, operation, BeginIo(fd), bytes); }
  std::string dir_;
};

TEST_F(FileIoTest, CallsOfOneKindAreOneRecord) {
  ASSERT_TRUE(recorder::Start());
  NoteOpen(5, "/x/model.pt");
  errno = 42;
  for (int i = 0; i < 100; ++i) Io(5, FileOperation::kWrite, 1000);
  Io(5, FileOperation::kWrite, -1);  // it failed: a call of no bytes
  Io(5, FileOperation::kSync, 0);
  NoteClose(5);
  Io(5, FileOperation::kWrite, 77);  // closed: whatever it is now, it isn't that
  EXPECT_EQ(errno, 42);
  uint64_t bytes = 0, calls = 0, syncs = 0;
  for (const EventRecord& record : Records(EventKind::kFileIo)) {
    const auto& io = record.payload.file_io;
    bytes += io.bytes;
    if (record.aux == static_cast<uint16_t>(FileOperation::kWrite)) calls += io.calls;
    if (record.aux == static_cast<uint16_t>(FileOperation::kSync)) syncs += io.calls;
    const schema::NameEntry& name = g_session.names[io.path_class - 1];
    EXPECT_EQ(std::string(g_session.name_bytes + name.offset, name.bytes), "checkpoint");
    EXPECT_GE(record.end_ticks, record.begin_ticks);
  }
  EXPECT_EQ(bytes, 100'000u);
  EXPECT_EQ(calls, 101u);
  EXPECT_EQ(syncs, 1u);
  EXPECT_EQ(g_session.header->doors, schema::kDoorPreload);
  EXPECT_EQ(Records(EventKind::kHostSample).size(), 1u);
  EXPECT_GT(Records(EventKind::kHostSample)[0].payload.host.resident_bytes, 1u << 20);
}

TEST_F(FileIoTest, WithoutARecorderNothingIsStarted) {
  NoteOpen(6, "/x/model.pt");
  Io(6, FileOperation::kRead, 10);
  NoteClose(6);
  EXPECT_FALSE(recorder::Active());
  EXPECT_TRUE(std::filesystem::is_empty(dir_));
}

TEST_F(FileIoTest, ThreadsSumForThemselves) {
  ASSERT_TRUE(recorder::Start());
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t] {
      const int fd = 10 + t;
      NoteOpen(fd, t % 2 == 0 ? "/d/a.parquet" : "/c/b.pt");
      for (int i = 0; i < 500; ++i) Io(fd, i < 250 ? FileOperation::kRead : FileOperation::kWrite, 3);
      NoteClose(fd);
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t bytes = 0;
  for (const EventRecord& record : Records(EventKind::kFileIo)) bytes += record.payload.file_io.bytes;
  EXPECT_EQ(bytes, 8u * 500 * 3);
}

TEST_F(FileIoTest, NumbersBeyondTheTableAreNotFollowed) {
  NoteOpen(-1, "a.pt");
  NoteOpen(1 << 20, "a.pt");
  EXPECT_EQ(ClassOf(-1), PathClass::kUntracked);
  EXPECT_EQ(ClassOf(1 << 20), PathClass::kUntracked);
  NoteClose(-1);
  NoteClose(1 << 20);
}

}  // namespace
}  // namespace rankscope::preload
