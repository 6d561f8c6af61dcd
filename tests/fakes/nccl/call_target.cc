// What a caller of NCCL finds behind the name: checks that the arguments came as they were given, and says which copy
// it is. Built into a shared library, as NCCL's own is, and into a caller (static NCCL). For preload_test.py.
#include <stddef.h>

#ifndef FAKE_NCCL_COPY
#error "FAKE_NCCL_COPY is the number of this copy"
#endif

extern "C" __attribute__((visibility("default"), noinline)) int ncclAllReduce(const void* send, void* receive,
                                                                              size_t count, int type, int operation,
                                                                              void* comm, void* stream) {
  const bool same = reinterpret_cast<size_t>(send) == 1 && reinterpret_cast<size_t>(receive) == 2 && count == 77 &&
                    type == 7 && operation == 4 && reinterpret_cast<size_t>(comm) == 5 &&
                    reinterpret_cast<size_t>(stream) == 6;
  return same ? 1000 + FAKE_NCCL_COPY : 1;
}
