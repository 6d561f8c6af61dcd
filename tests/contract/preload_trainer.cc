// What a training process does as far as files go: makes a communicator through the plugin, writes a checkpoint,
// reads it back and some data.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/fakes/nccl/profiler_host.h"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string folder = argv[2];
  std::vector<char> megabyte(1 << 20, 'x');
  // Before there is a recorder: not counted.
  int fd = open((folder + "/data.parquet").c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  for (int i = 0; i < 5; ++i)
    if (write(fd, megabyte.data(), megabyte.size()) < 0) return 3;
  close(fd);
  rankscope::testing::ProfilerHost host;
  if (!host.Open(argv[1], 5)) return 4;
  rankscope::testing::CommIdentity id;
  id.ranks = 1;
  void* context = nullptr;
  if (host.Init(&context, id) != 0) return 5;
  fd = open((folder + "/model.pt").c_str(), O_CREAT | O_RDWR | O_TRUNC, 0600);
  for (int i = 0; i < 64; ++i)
    if (write(fd, megabyte.data(), megabyte.size()) < 0) return 6;
  fsync(fd);
  for (int i = 0; i < 8; ++i)
    if (pread(fd, megabyte.data(), megabyte.size(), i << 20) < 0) return 7;
  close(fd);
  // As libstdc++'s file streams do: a FILE for the opening, write for the bytes.
  std::FILE* file = std::fopen((folder + "/other.ckpt").c_str(), "wb");
  for (int i = 0; i < 3; ++i)
    if (write(fileno(file), megabyte.data(), megabyte.size()) < 0) return 8;
  std::fclose(file);
  fd = open((folder + "/data.parquet").c_str(), O_RDONLY);
  while (read(fd, megabyte.data(), megabyte.size()) > 0) {
  }
  close(fd);
  fd = open((folder + "/log.txt").c_str(), O_CREAT | O_WRONLY, 0600);
  if (write(fd, "no class", 8) < 0) return 9;
  close(fd);
  host.Finalize(context);
  return 0;
}
