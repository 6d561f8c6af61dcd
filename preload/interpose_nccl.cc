// NCCL's calls, where NCCL is a shared library and this one was preloaded: the real call, and before it a note of who
// calls. Where NCCL is linked into the program (most of PyTorch's builds before 2.2) nobody comes here.
//
// The signatures are NCCL's own (2.4 to 2.30), with handles as what they are to us: words. Found by dlsym(RTLD_NEXT);
// where that fails the call returns 3, NCCL's "internal error".
#include <dlfcn.h>
#include <stddef.h>

#include "preload/call_sites.h"
#include "recorder/atomic_word.h"

namespace {

constexpr int kInternalError = 3;

template <typename F>
F* NextNccl(F** known, const char* name) {
  F* function = rankscope::recorder::LoadRelaxed(*known);
  if (function == nullptr) {
    function = reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
    rankscope::recorder::StoreRelaxed(*known, function);
  }
  return function;
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): the parameters are lists in parentheses already
#define RANKSCOPE_NCCL(NAME, PARAMETERS, ARGUMENTS)                       \
  extern "C" __attribute__((visibility("default"))) int NAME PARAMETERS { \
    static int(*known) PARAMETERS = nullptr;                              \
    auto* next = NextNccl(&known, #NAME);                                 \
    if (next == nullptr) return kInternalError;                           \
    rankscope::preload::NoteCall(#NAME, __builtin_return_address(0));     \
    return next ARGUMENTS;                                                \
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
RANKSCOPE_NCCL(ncclAlltoAll, (const void* send, void* receive, size_t count, int type, void* comm, void* stream),
               (send, receive, count, type, comm, stream))
RANKSCOPE_NCCL(ncclGather,
               (const void* send, void* receive, size_t count, int type, int root, void* comm, void* stream),
               (send, receive, count, type, root, comm, stream))
RANKSCOPE_NCCL(ncclScatter,
               (const void* send, void* receive, size_t count, int type, int root, void* comm, void* stream),
               (send, receive, count, type, root, comm, stream))
