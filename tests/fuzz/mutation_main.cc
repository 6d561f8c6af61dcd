// Runs a fuzz target where there is no libFuzzer: mutations of its seed, the same ones each time.
//   fuzz_ring [ROUNDS]          mutations; with libFuzzer's own main this file is left out
//   fuzz_ring FILE...           those inputs, as libFuzzer's main does
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "tests/fuzz/fuzz_target.h"

namespace {

int RunFiles(int count, char** files) {
  for (int i = 0; i < count; ++i) {
    std::ifstream in(files[i], std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    if (!in || bytes.empty()) {
      std::fprintf(stderr, "%s can't be read\n", files[i]);
      return 1;
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::atoi(argv[1]) == 0) return RunFiles(argc - 1, argv + 1);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 3000;
  const std::vector<uint8_t> seed = FuzzSeed();
  for (int round = 0; round < rounds; ++round) {
    std::mt19937 random(static_cast<uint32_t>(round));
    std::vector<uint8_t> bytes = seed;
    if (round % 4 == 0) bytes.resize(random() % (bytes.size() + 1));
    const uint32_t changes = random() % 16;
    for (uint32_t i = 0; i < changes && !bytes.empty(); ++i) {
      // Small tables and headers lie in front; a third of the damage goes there.
      const size_t range = random() % 3 == 0 && bytes.size() > 1024 ? 1024 : bytes.size();
      const size_t at = random() % range;
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<uint8_t>(random());
          break;
        case 1:
          bytes[at] ^= static_cast<uint8_t>(1u << (random() % 8));
          break;
        case 2:
          for (size_t k = at; k < at + 8 && k < bytes.size(); ++k) bytes[k] = 0xff;
          break;
        default:
          for (size_t k = at; k < at + 8 && k < bytes.size(); ++k) bytes[k] = 0;
          break;
      }
    }
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::remove(FuzzFile(".ring").c_str());
  std::remove(FuzzFile(".rsc").c_str());
  std::printf("%d mutations, no crash\n", rounds);
  return 0;
}
