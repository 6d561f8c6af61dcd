// See file_io.h.
#include "preload/file_io.h"

#include <errno.h>
#include <string.h>

#include <initializer_list>

#include "recorder/host_sample.h"
#include "recorder/session.h"

namespace rankscope::preload {
namespace {

using recorder::LoadRelaxed;
using recorder::StoreRelaxed;
using schema::EventKind;
using schema::FileOperation;

constexpr int kFdLimit = 1 << 16;
constexpr uint64_t kWindowsASecond = 100;  // a window is ten milliseconds

uint8_t g_class_of_fd[kFdLimit];
uint32_t g_noted_generation = 0;
uint64_t g_class_names[kPathClasses];  // generation << 32 | id in the ring; 0 = not yet

// What the thread has summed up and not yet recorded.
struct Sums {
  uint64_t begin_ticks, end_ticks, bytes;
  uint32_t calls;
  PathClass path_class;
  uint8_t operation;  // 0 = nothing
};
thread_local constinit Sums t_sums = {};

bool EndsWith(const char* text, size_t length, const char* end) {
  const size_t bytes = strlen(end);
  return length >= bytes && memcmp(text + length - bytes, end, bytes) == 0;
}

uint32_t NameOf(PathClass path_class) {
  const uint64_t generation = recorder::g_session.generation;
  uint64_t& known = g_class_names[static_cast<int>(path_class)];
  const uint64_t word = LoadRelaxed(known);
  if (word >> 32 == generation && word != 0) return static_cast<uint32_t>(word);
  const uint32_t id = recorder::InternName(path_class == PathClass::kCheckpoint ? "checkpoint" : "data",
                                           schema::NameKind::kPathClass);
  StoreRelaxed(known, generation << 32 | id);
  return id;
}

void Write() {
  Sums& sums = t_sums;
  if (sums.operation == 0) return;
  const Sums done = sums;
  sums.operation = 0;
  recorder::Lane* lane = recorder::CurrentLane();
  if (lane == nullptr) return;
  static_assert(offsetof(schema::FileIoPayload, path_class) == 8 && offsetof(schema::FileIoPayload, calls) == 12 &&
                offsetof(schema::FileIoPayload, operation) == 16);
  recorder::Commit(lane, {done.begin_ticks,
                          done.end_ticks,
                          recorder::PackKind(EventKind::kFileIo, 0, schema::kCommUnknown, done.operation),
                          0,
                          {done.bytes, NameOf(done.path_class) | uint64_t{done.calls} << 32, done.operation}});
  recorder::MaybeTakeClockPair(done.end_ticks);
}

void NoteSource() {
  const uint32_t generation = recorder::g_session.generation;
  if (LoadRelaxed(g_noted_generation) == generation) return;
  StoreRelaxed(g_noted_generation, generation);
  recorder::RememberDoor(schema::kDoorPreload);
  recorder::NoteRecordKinds(uint64_t{1} << static_cast<int>(EventKind::kFileIo) |
                            uint64_t{1} << static_cast<int>(EventKind::kHostSample));
}

}  // namespace

PathClass ClassOfPath(const char* path) {
  if (path == nullptr) return PathClass::kUntracked;
  const size_t length = strnlen(path, 4096);
  const char* name = path;
  const char* folder = path;
  for (const char* at = path; at < path + length; ++at) {
    if (*at != '/') continue;
    folder = name;
    name = at + 1;
  }
  const size_t name_length = static_cast<size_t>(path + length - name);
  // Programs' own files: imported modules, caches, devices.
  for (const char* prefix : {"/proc/", "/sys/", "/dev/", "/usr/", "/etc/"}) {
    if (strncmp(path, prefix, strlen(prefix)) == 0 && strncmp(path, "/dev/shm/", 9) != 0)
      return PathClass::kUntracked;
  }
  for (const char* end : {".pt", ".pth", ".ckpt", ".safetensors", ".distcp", ".nemo"}) {
    if (EndsWith(name, name_length, end)) return PathClass::kCheckpoint;
  }
  const bool in_checkpoint =
      memmem(folder, static_cast<size_t>(path + length - folder), "global_step", 11) != nullptr ||
      memmem(folder, static_cast<size_t>(path + length - folder), "checkpoint", 10) != nullptr ||
      memmem(folder, static_cast<size_t>(path + length - folder), "ckpt", 4) != nullptr;
  if (in_checkpoint || strcmp(name, "latest") == 0) return PathClass::kCheckpoint;
  if (strncmp(name, "pytorch_model", 13) == 0 && EndsWith(name, name_length, ".bin")) return PathClass::kCheckpoint;
  for (const char* end : {".parquet", ".arrow", ".tar", ".bin", ".idx", ".jsonl", ".npy", ".npz", ".h5", ".hdf5",
                          ".tfrecord", ".lmdb", ".mdb", ".mds", ".zst", ".csv"}) {
    if (EndsWith(name, name_length, end)) return PathClass::kData;
  }
  return PathClass::kUntracked;
}

void NoteOpen(int fd, const char* path) {
  if (fd < 0 || fd >= kFdLimit) return;
  StoreRelaxed(g_class_of_fd[fd], static_cast<uint8_t>(ClassOfPath(path)));
}

void NoteClose(int fd) {
  if (fd < 0 || fd >= kFdLimit || LoadRelaxed(g_class_of_fd[fd]) == 0) return;
  StoreRelaxed(g_class_of_fd[fd], uint8_t{0});
  const int saved_errno = errno;
  if (recorder::Active()) Write();
  errno = saved_errno;
}

PathClass ClassOf(int fd) {
  return fd < 0 || fd >= kFdLimit ? PathClass::kUntracked : static_cast<PathClass>(LoadRelaxed(g_class_of_fd[fd]));
}

uint64_t BeginIo(int fd) {
  if (__builtin_expect(ClassOf(fd) == PathClass::kUntracked, 1) || !recorder::Active()) return 0;
  return recorder::ReadTicks();
}

void EndIo(int fd, FileOperation operation, uint64_t begin_ticks, int64_t bytes) {
  if (begin_ticks == 0) return;
  const int saved_errno = errno;
  const uint64_t now = recorder::ReadTicks();
  const PathClass path_class = ClassOf(fd);
  Sums& sums = t_sums;
  NoteSource();
  const uint64_t window = recorder::g_session.header->ticks_per_second / kWindowsASecond;
  if (sums.operation != 0 && (sums.operation != static_cast<uint8_t>(operation) || sums.path_class != path_class ||
                              now - sums.begin_ticks > window))
    Write();
  if (sums.operation == 0) sums = {begin_ticks, now, 0, 0, path_class, static_cast<uint8_t>(operation)};
  sums.end_ticks = now;
  sums.calls++;
  if (bytes > 0) sums.bytes += static_cast<uint64_t>(bytes);
  if (operation == FileOperation::kSync) Write();
  recorder::MaybeSampleHost(now);
  errno = saved_errno;
}

}  // namespace rankscope::preload
