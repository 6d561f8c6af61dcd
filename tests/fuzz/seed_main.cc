// Writes a target's seed to the file named, for libFuzzer's corpus.
#include <cstdio>

#include "tests/fuzz/fuzz_target.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FILE\n", argv[0]);
    return 2;
  }
  const std::vector<uint8_t> seed = FuzzSeed();
  return WriteFuzzFile(argv[1], seed.data(), seed.size()) ? 0 : 1;
}
