// What the fuzz targets share: a file for the input, in memory where the machine has /dev/shm.
#ifndef RANKSCOPE_TESTS_FUZZ_FUZZ_TARGET_H_
#define RANKSCOPE_TESTS_FUZZ_FUZZ_TARGET_H_

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

// A good input to begin with.
std::vector<uint8_t> FuzzSeed();
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

inline std::string FuzzFile(const char* suffix) {
  const char* directory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  return std::string(directory) + "/rankscope-fuzz." + std::to_string(getpid()) + suffix;
}

inline bool WriteFuzzFile(const std::string& path, const uint8_t* data, size_t size) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  const bool written = size == 0 || std::fwrite(data, 1, size, file) == size;
  return std::fclose(file) == 0 && written;
}

#endif  // RANKSCOPE_TESTS_FUZZ_FUZZ_TARGET_H_
