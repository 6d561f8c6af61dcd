// A library that calls NCCL, as torch's does: linked with a shared NCCL, or with a copy of its own. For
// preload_test.py.
#include <stddef.h>

extern "C" int ncclAllReduce(const void*, void*, size_t, int, int, void*, void*);

extern "C" __attribute__((visibility("default"))) int call_nccl() {
  const auto word = [](size_t value) { return reinterpret_cast<void*>(value); };
  const int result = ncclAllReduce(word(1), word(2), 77, 7, 4, word(5), word(6));
  return result + 0;  // no tail call: the caller is this library
}
