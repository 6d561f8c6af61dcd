// No system call, no allocation, no lock in the steady state: seen by a seccomp filter that kills for any of them,
// and by counting malloc.
//
// Locks: an uncontended mutex makes no system call and can't be seen so; a contended one would (futex), and several
// threads record here at once.
#include <dlfcn.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <cstddef>
#include <thread>

#include "tests/contract/contract_fixture.h"
#include "tests/fakes/fake_nvtx.h"

namespace {
std::atomic<uint64_t> g_allocations{0};
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* malloc(size_t n) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(n);
}
void* calloc(size_t n, size_t m) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(n, m);
}
void* realloc(void* p, size_t n) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(p, n);
}
}
#define RANKSCOPE_COUNTS_MALLOC 1
#endif

namespace rankscope::testing {
namespace {

class HotPathTest : public ContractTest {
 protected:
  // One step of everything that NCCL calls for a collective.
  static void OneOperation(ProfilerHost* host, void* context, uint64_t seq) {
    EventFields group;
    group.type = kNcclGroupApi;
    const uint64_t group_handle = host->Start(context, group);
    EventFields call = Coll(seq);
    call.type = kNcclCollApi;
    const uint64_t api = host->Start(context, call);
    host->Stop(api);
    const uint64_t coll = host->Start(context, Coll(seq, api));
    host->Stop(coll);
    EventFields p2p = Coll(seq);
    p2p.type = kNcclP2p;
    p2p.func = "Send";
    p2p.peer = 1;
    host->Stop(host->Start(context, p2p));
    const uint64_t op = host->Start(context, ProxyOp(coll, pid_));
    host->Record(op, 19, nullptr);
    host->Stop(op);
    host->Stop(group_handle);
    host->Stop(coll);          // a stop too many
    host->Stop(0x1234567890);  // and a wild one
  }
  static inline int pid_ = getpid();
};

// In the calling thread: everything but exit and the signal's way out raises SIGSYS, which kills the process.
bool ForbidSystemCalls() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof(filter) / sizeof(filter[0]), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(HotPathTest, NoSystemCallFromSeveralThreadsAtOnce) {
#if !defined(RANKSCOPE_COUNTS_MALLOC)
  GTEST_SKIP() << "the sanitizers make system calls of their own";
#endif
  const pid_t child = fork();
  if (child == 0) {
    pid_ = getpid();
    ProfilerHost host;
    void* contexts[4] = {OpenAndInit(&host, 5), Init(&host, 1, 2), Init(&host, 1, 3), Init(&host, 1, 4)};
    std::atomic<int> warm{0}, done{0};
    for (int t = 0; t < 4; ++t) {
      std::thread([&, t] {
        for (uint64_t i = 0; i < 3000; ++i)
          OneOperation(&host, contexts[t], i);  // claims the lane, moves to a large one
        warm.fetch_add(1);
        while (warm.load() < 4) {
        }
        if (!ForbidSystemCalls()) _exit(77);
        for (uint64_t i = 3000; i < 28000; ++i) OneOperation(&host, contexts[t], i);
        if (done.fetch_add(1) == 3) _exit(0);
        for (;;) {  // leaving the thread would be a system call
        }
      }).detach();
    }
    for (;;) pause();
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
    GTEST_SKIP() << "this kernel or container allows no seccomp filter";
  EXPECT_FALSE(WIFSIGNALED(status)) << "killed by signal " << WTERMSIG(status) << " (31 = a system call was made)";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(HotPathTest, NoAllocation) {
#if !defined(RANKSCOPE_COUNTS_MALLOC)
  GTEST_SKIP() << "malloc is the sanitizer's";
#endif
  ProfilerHost host;
  void* context = OpenAndInit(&host, 5);
  for (uint64_t i = 0; i < 3000; ++i) OneOperation(&host, context, i);
  const uint64_t before = g_allocations.load();
  for (uint64_t i = 3000; i < 30000; ++i) OneOperation(&host, context, i);
  EXPECT_EQ(g_allocations.load(), before);
}

TEST_F(HotPathTest, RangesMakeNoSystemCallAndNoAllocation) {
#if !defined(RANKSCOPE_COUNTS_MALLOC)
  GTEST_SKIP() << "see the tests above";
#endif
  const pid_t child = fork();
  if (child == 0) {
    void* library = dlopen(RANKSCOPE_LIBRARY_UNDER_TEST, RTLD_NOW);
    if (library == nullptr) _exit(78);
    const FakeNvtx nvtx(reinterpret_cast<FakeNvtx::Initialize>(dlsym(library, "InitializeInjectionNvtx2")));
    const auto hook =
        reinterpret_cast<int (*)(int, const char*, unsigned long long)>(dlsym(library, "rankscope_hook_v1"));
    void* domain = nvtx.Domain("domain");
    const auto one_step = [&](int i) {
      char name[] = "layer 0 of a model";  // a new name now and then, and the same address for all of them
      name[6] = static_cast<char>('0' + i % 10);
      nvtx.Push(name);
      nvtx.PushIn(domain, "inner", 1);
      hook(1, "optimizer", 0);
      const auto id = nvtx.Core<uint64_t>(nvtx::kCoreRangeStartA, static_cast<const char*>("started"));
      nvtx.Core<void>(nvtx::kCoreMarkW, static_cast<const wchar_t*>(L"wide"));
      nvtx.Core<void>(nvtx::kCoreRangeEnd, id);
      hook(2, nullptr, 0);
      nvtx.PopIn(domain);
      nvtx.Pop();
      nvtx.Pop();                                // a pop too many
      nvtx.Core<void>(nvtx::kCoreRangeEnd, id);  // an end too many
      nvtx.Domain("domain");                     // known by now
    };
    for (int i = 0; i < 3000; ++i) one_step(i);  // claims the lane, moves to a large one
    const uint64_t before = g_allocations.load();
    if (!ForbidSystemCalls()) _exit(77);
    for (int i = 0; i < 25000; ++i) one_step(i);
    _exit(g_allocations.load() == before ? 0 : 79);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
    GTEST_SKIP() << "this kernel or container allows no seccomp filter";
  EXPECT_FALSE(WIFSIGNALED(status)) << "killed by signal " << WTERMSIG(status) << " (31 = a system call was made)";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "79 = an allocation";
}

TEST_F(HotPathTest, TheFilterAndTheCounterWouldSeeOne) {
#if !defined(RANKSCOPE_COUNTS_MALLOC)
  GTEST_SKIP() << "see the tests above";
#endif
  const uint64_t before = g_allocations.load();
  void* volatile block = malloc(100);
  free(block);
  EXPECT_EQ(g_allocations.load(), before + 1);
  const pid_t child = fork();
  if (child == 0) {
    if (!ForbidSystemCalls()) _exit(77);
    syscall(SYS_getppid);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no seccomp here";
  EXPECT_TRUE(WIFSIGNALED(status));
}

}  // namespace
}  // namespace rankscope::testing
