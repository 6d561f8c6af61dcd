// NCCL's calls, where this library was preloaded: the real call (next_function.h), and before it a note of who calls.
//
// Only calls that every NCCL from 2.7 on has: a program may ask by name whether a newer one is there, and must not
// find ours. The signatures are NCCL's own, with handles as what they are to us: words. What is found nowhere (then
// the caller had no NCCL either) returns 3, NCCL's "internal error".
#include <stddef.h>

#include "preload/call_sites.h"
#include "preload/next_function.h"

namespace {

using rankscope::preload::kKnownCallers;
using rankscope::preload::KnownCaller;
using rankscope::preload::NextFunction;

constexpr int kInternalError = 3;

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): the parameters are lists in parentheses already
#define RANKSCOPE_NCCL(NAME, PARAMETERS, ARGUMENTS)                                       \
  extern "C" __attribute__((visibility("default"))) int NAME PARAMETERS {                 \
    static KnownCaller known[kKnownCallers] = {};                                         \
    void* caller = __builtin_return_address(0);                                           \
    auto* next = reinterpret_cast<int(*) PARAMETERS>(NextFunction(known, #NAME, caller)); \
    if (next == nullptr) return kInternalError;                                           \
    rankscope::preload::NoteCall(#NAME, caller);                                          \
    return next ARGUMENTS;                                                                \
  }

// NOLINTEND(bugprone-macro-parentheses)

RANKSCOPE_NCCL(ncclAllReduce,
               (const void* send, void* receive, size_t count, int type, int operation, void* comm, void* stream),
               (send, receive, count, type, operation, comm, stream))
RANKSCOPE_NCCL(ncclReduceScatter,
               (const void* send, void* receive, size_t count, int type, int operation, void* comm, void* stream),
               (send, receive, count, type, operation, comm, stream))
RANKSCOPE_NCCL(ncclReduce,
               (const void* send, void* receive, size_t count, int type, int operation, int root, void* comm,
                void* stream),
               (send, receive, count, type, operation, root, comm, stream))
RANKSCOPE_NCCL(ncclAllGather, (const void* send, void* receive, size_t count, int type, void* comm, void* stream),
               (send, receive, count, type, comm, stream))
RANKSCOPE_NCCL(ncclBroadcast,
               (const void* send, void* receive, size_t count, int type, int root, void* comm, void* stream),
               (send, receive, count, type, root, comm, stream))
RANKSCOPE_NCCL(ncclBcast, (void* buffer, size_t count, int type, int root, void* comm, void* stream),
               (buffer, count, type, root, comm, stream))
RANKSCOPE_NCCL(ncclSend, (const void* send, size_t count, int type, int peer, void* comm, void* stream),
               (send, count, type, peer, comm, stream))
RANKSCOPE_NCCL(ncclRecv, (void* receive, size_t count, int type, int peer, void* comm, void* stream),
               (receive, count, type, peer, comm, stream))
