// What the contract tests share: a ring directory of their own, the built library behind NCCL's interface, and the
// ring read back. Each test runs in a process of its own (ctest), since the library keeps one ring a process.
#ifndef RANKSCOPE_TESTS_CONTRACT_CONTRACT_FIXTURE_H_
#define RANKSCOPE_TESTS_CONTRACT_CONTRACT_FIXTURE_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "analysis/recording/open.h"
#include "tests/fakes/nccl/profiler_host.h"

namespace rankscope::testing {

class ContractTest : public ::testing::Test {
 protected:
  ContractTest() {
    char path[] = "/tmp/rankscope-contract-XXXXXX";
    dir_ = mkdtemp(path);
    setenv("RANKSCOPE_DIR", (dir_ + "/rings").c_str(), 1);
    setenv("RANKSCOPE_JOB", "job", 1);
    setenv("RANKSCOPE_RING_BYTES", "8M", 1);
    unsetenv("RANKSCOPE_NCCL_EVENTS");
    unsetenv("RANKSCOPE_DISABLE");
  }
  ~ContractTest() override { std::filesystem::remove_all(dir_); }

  // One communicator of four ranks.
  void* OpenAndInit(ProfilerHost* host, int version, int rank = 1, uint64_t hash = 0xabc) {
    EXPECT_TRUE(host->Open(RANKSCOPE_LIBRARY_UNDER_TEST, version)) << host->why();
    return Init(host, rank, hash);
  }
  static void* Init(ProfilerHost* host, int rank = 1, uint64_t hash = 0xabc) {
    CommIdentity id;
    id.name = "world";
    id.hash = hash;
    id.nodes = 2;
    id.ranks = 4;
    id.rank = rank;
    void* context = nullptr;
    EXPECT_EQ(host->Init(&context, id), 0);
    EXPECT_NE(context, nullptr);
    return context;
  }
  static EventFields Coll(uint64_t seq, uint64_t parent = 0, const char* func = "AllReduce") {
    EventFields f;
    f.type = kNcclColl;
    f.parent = parent;
    f.rank = 1;
    f.func = func;
    f.datatype = "ncclFloat32";
    f.algo = "RING";
    f.proto = "SIMPLE";
    f.func_number = 4;
    f.datatype_number = 7;
    f.algo_number = 1;
    f.proto_number = 2;
    f.seq = seq;
    f.count = 1000 + seq;
    f.channels = 4;
    f.warps = 16;
    f.comm_hash = 0xabc;
    f.name = "world";
    return f;
  }
  static EventFields ProxyOp(uint64_t parent, int pid = getpid()) {
    EventFields f;
    f.type = kNcclProxyOp;
    f.parent = parent;
    f.pid = pid;
    f.channel = 1;
    f.peer = 3;
    f.steps = 7;
    f.chunk_bytes = 4096;
    f.is_send = 1;
    return f;
  }

  std::unique_ptr<analysis::Recording> Read() {
    auto recording = analysis::OpenRecording({dir_ + "/rings"});
    EXPECT_TRUE(recording.ok()) << recording.status();
    return recording.ok() ? *std::move(recording) : nullptr;
  }
  static std::vector<analysis::Event> Events(const analysis::Recording& recording, schema::EventKind kind) {
    std::vector<analysis::Event> all, part(256);
    const auto stream = recording.Events(analysis::MaskOf(kind));
    while (const size_t n = stream->Read(absl::MakeSpan(part)))
      all.insert(all.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(n));
    return all;
  }
  static uint64_t Lost(const analysis::Recording& recording, schema::LossReason reason) {
    for (const analysis::LossInfo& loss : recording.ranks()[0].losses) {
      if (loss.reason == static_cast<uint32_t>(reason)) return loss.count;
    }
    return 0;
  }

  std::string dir_;
};

}  // namespace rankscope::testing

#endif  // RANKSCOPE_TESTS_CONTRACT_CONTRACT_FIXTURE_H_
