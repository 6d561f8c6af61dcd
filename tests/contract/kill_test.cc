// kill -9 at any moment: what was committed is read back, and nothing torn is taken for whole.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/contract/contract_fixture.h"

namespace rankscope::testing {
namespace {

constexpr int kThreads = 3;

class KillTest : public ContractTest {
 protected:
  // What a failure needs to be understood from a log alone.
  static std::string Describe(const analysis::Recording& recording) {
    std::string out;
    for (const analysis::RankInfo& rank : recording.ranks()) {
      absl::StrAppend(&out, rank.ring_path, ": pid ", rank.pid, ", torn ", rank.torn_records, "\n");
      for (const analysis::ThreadInfo& thread : rank.threads)
        absl::StrAppend(&out, "  lane ", thread.lane, " was thread ", thread.thread_id, "'s\n");
      for (const analysis::KindCountInfo& kind : rank.kinds) {
        absl::StrAppend(&out, "  kind ", kind.kind, ": committed ", kind.committed, ", read ", kind.read,
                        ", dropped ", kind.dropped, ", overwritten ", kind.overwritten, "\n");
      }
      for (const analysis::LossInfo& loss : rank.losses)
        absl::StrAppend(&out, "  loss ", loss.reason, ": ", loss.count, "\n");
      for (const analysis::CommInfo& comm : rank.comms)
        absl::StrAppend(&out, "  communicator ", comm.slot, ": hash ", comm.hash, "\n");
    }
    return out;
  }
};

TEST_F(KillTest, TwoHundredTimesWhileSeveralThreadsRecord) {
  // How far each thread is: operations whose stop has returned.
  auto* progress = static_cast<std::atomic<uint64_t>*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::mt19937 random(20261201);
  uint64_t operations = 0, rounds_with_work = 0;
  for (int round = 0; round < 200; ++round) {
    std::filesystem::remove_all(dir_ + "/rings");
    for (int t = 0; t < kThreads; ++t) progress[t].store(0);
    const pid_t child = fork();
    if (child == 0) {
      ProfilerHost host;
      for (int t = 0; t < kThreads; ++t) {
        // Count, root and sequence are functions of each other, so a record that mixes two operations shows.
        void* context = t == 0 ? OpenAndInit(&host, 4, 1, 0x100) : Init(&host, 1, 0x100 + static_cast<uint64_t>(t));
        std::thread([&host, context, t, progress] {
          for (uint64_t i = 0;; ++i) {
            EventFields f = Coll(i);
            f.count = i * 7 + static_cast<uint64_t>(t);
            f.root = static_cast<int32_t>(i * 3);
            host.Stop(host.Start(context, f));
            progress[t].store(i + 1, std::memory_order_release);
          }
        }).detach();
      }
      for (;;) pause();
    }
    // A quarter is killed at any moment from its start on, the others while all threads are at work.
    if (round % 4 != 0) {
      for (int waited = 0; waited < 20'000; ++waited) {
        bool all = true;
        for (int t = 0; t < kThreads; ++t) all = all && progress[t].load() > 0;
        if (all) break;
        usleep(500);
      }
    }
    usleep(random() % 6000);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    if (!std::filesystem::exists(dir_ + "/rings/job")) continue;  // killed before the ring was made
    const auto recording = analysis::OpenRecording({dir_ + "/rings"});
    if (!recording.ok()) {
      // Killed while the ring was set up: a sentence, and no thread had recorded anything.
      for (int t = 0; t < kThreads; ++t) ASSERT_EQ(progress[t].load(), 0u) << recording.status();
      continue;
    }
    std::map<uint16_t, std::vector<uint32_t>> seqs;
    for (const analysis::Event& event : Events(**recording, schema::EventKind::kColl)) {
      const schema::CollPayload& coll = event.payload.coll;
      ASSERT_EQ(coll.count, uint64_t{coll.seq} * 7 + event.comm);
      ASSERT_EQ(coll.root, static_cast<int32_t>(coll.seq * 3));
      seqs[event.comm].push_back(coll.seq);
    }
    for (int t = 0; t < kThreads; ++t) {
      const uint64_t committed = progress[t].load();
      operations += committed;
      rounds_with_work += committed != 0 ? 1 : 0;
      const std::vector<uint32_t>& mine = seqs[static_cast<uint16_t>(t)];
      // Everything up to the last committed one, without a hole; at most one more that was committed but not yet
      // told.
      if (committed == 0) continue;
      ASSERT_FALSE(mine.empty()) << "round " << round << " thread " << t << " told " << committed << "\n"
                                 << Describe(**recording) << "its child ended with status " << status;
      ASSERT_GE(uint64_t{mine.back()} + 1, committed) << "round " << round << " thread " << t;
      ASSERT_LE(uint64_t{mine.back()} + 1, committed + 1);
      // The small lane's records stay when the thread moves on to a large one, so holes can only be where a lane was
      // overwritten.
      for (size_t i = 1; i < mine.size(); ++i) {
        if (mine[i] == mine[i - 1] + 1) continue;
        ASSERT_GT(mine[i], mine[i - 1]);
        uint64_t overwritten = 0;
        for (const analysis::KindCountInfo& kind : (*recording)->ranks()[0].kinds) overwritten += kind.overwritten;
        ASSERT_GT(overwritten, 0u);
      }
    }
    ASSERT_LE((*recording)->ranks()[0].torn_records, uint64_t{kThreads})
        << "at most the one that each thread was writing";
  }
  EXPECT_GE(rounds_with_work, 150u * kThreads) << "these rounds caught all threads at work";
  EXPECT_GT(operations, 10'000u);
}

}  // namespace
}  // namespace rankscope::testing
