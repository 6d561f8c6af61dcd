// A training-like job without a GPU: processes that each load the profiler plugin as NCCL does and go through a step
// loop in real time.
//
//   rankscope_demo_job --ranks 4 --steps 30 --slow-rank 2 --slow-ms 15
//
// Every rank has a training thread, which computes (sleeps) and issues the collectives of a ZeRO-2-like step, and a
// proxy thread, which plays the network: its operations stop when all ranks have really arrived (counters in shared
// memory) and the bytes have had time to cross. So who is late makes the others wait as it would in a real job. Each
// rank is its own "node", so that every operation has network events.
#include <getopt.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/nccl/demo_gpu.h"
#include "tests/fakes/nccl/profiler_host.h"

namespace {

using rankscope::testing::DemoGpu;

using rankscope::testing::CommIdentity;
using rankscope::testing::EventFields;
using rankscope::testing::ProfilerHost;

struct Options {
  int ranks = 4, steps = 30, api = 5;
  int slow_rank = -1, hang_rank = -1, hang_step = 5, mismatch_rank = -1, kill_rank = -1;
  double compute_ms = 10, slow_ms = 15, patience_s = 600, gigabytes_per_s = 8;
  std::string doubles;  // the folder of the stand-ins for libcuda and libcupti; empty = no GPU
};

struct Operation {
  const char* func;
  uint64_t count;
  const char* datatype;
  bool send_recv;  // a Send to the next rank and a Recv from the one before
};
// One step: gradients of two buckets, the norm, the parameters; then activations to the neighbour.
constexpr Operation kStep[] = {
    {"ReduceScatter", 2 << 20, "ncclBfloat16", false},
    {"ReduceScatter", 2 << 20, "ncclBfloat16", false},
    {"AllReduce", 1, "ncclFloat32", false},
    {"AllGather", 4 << 20, "ncclInt8", false},
    {"SendRecv", 64 << 10, "ncclBfloat16", true},
};
constexpr int kOperationsPerStep = sizeof(kStep) / sizeof(kStep[0]);
constexpr int kChannels = 2;

void SleepMs(double ms) {
  if (ms <= 0) return;
  timespec wait{static_cast<time_t>(ms / 1000), static_cast<long>((ms - 1000.0 * static_cast<int>(ms / 1000)) * 1e6)};
  while (nanosleep(&wait, &wait) != 0) {
  }
}

uint64_t Bytes(const Operation& op) {
  const std::string type = op.datatype;
  return op.count * (type == "ncclFloat32" ? 4 : type == "ncclBfloat16" ? 2 : 1);
}

// Work of the proxy thread: the network operations of one launch.
struct ProxyWork {
  std::vector<uint64_t> parents;  // one, or Send and Recv
  uint64_t kernel = 0;            // NCCL's on the GPU
  int index;                      // of the operation in the job
  double transfer_ms;
};

class Rank {
 public:
  Rank(const Options& options, int rank, std::atomic<int>* arrived)
      : options_(options), rank_(rank), arrived_(arrived), random_(static_cast<uint32_t>(rank)) {}

  int Run() {
    const char* library = std::getenv("NCCL_PROFILER_PLUGIN");
    gpu_.Open(options_.doubles, library == nullptr ? "" : library);
    const bool recorded = host_.OpenAsNccl(options_.api);
    if (!recorded && rank_ == 0)
      std::fprintf(stderr, "rankscope_demo_job: no profiler plugin, as NCCL would say: %s\n", host_.why().c_str());
    loaded_ = recorded;
    if (loaded_) {
      CommIdentity id;
      id.name = "world";
      id.hash = 0x5eed0001;
      id.nodes = id.ranks = options_.ranks;
      id.rank = rank_;
      host_.Init(&context_, id);
    }
    std::thread proxy([this] { Proxy(); });
    bool finished = true;
    for (int step = 0; step < options_.steps && finished; ++step) finished = Step(step);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
      wake_.notify_all();
    }
    proxy.join();
    if (loaded_ && finished) {
      host_.Finalize(context_);
      host_.Close();
    }
    return finished ? 0 : 1;
  }

 private:
  bool Step(int step) {
    const bool special = step == options_.hang_step;
    if (special && rank_ == options_.kill_rank) raise(SIGKILL);
    LoadBatch();
    Compute(rank_ == options_.slow_rank ? options_.slow_ms : 0);
    for (int i = 0; i < kOperationsPerStep; ++i) {
      if (i == 2) Optimize();
      if (special && rank_ == options_.hang_rank && i == 2) return WaitInVain();
      Operation op = kStep[i];
      if (special && rank_ == options_.mismatch_rank && i == 0) op = {"AllReduce", 2 << 20, "ncclBfloat16", false};
      const bool never = special && options_.mismatch_rank >= 0 && i == 0;
      Issue(op, step * kOperationsPerStep + i, never);
      if (never) return WaitFor(step * kOperationsPerStep + i);  // as with a loss.item() behind it
      if (i + 1 < kOperationsPerStep) SleepMs(0.3);
    }
    const uint64_t begin = gpu_.NowNs();
    const bool done = WaitFor(step * kOperationsPerStep + kOperationsPerStep - 1);
    gpu_.Waited(begin, gpu_.NowNs());
    return done;
  }

  // With a GPU a step has its phases, as the Python hook would mark them, and the kernels of each.
  void LoadBatch() {
    if (!gpu_.there()) return;
    gpu_.Push("data_loading");
    const uint64_t begin = gpu_.NowNs();
    SleepMs(0.5);
    gpu_.CopiedBatch(begin, gpu_.NowNs(), 8 << 20);
    gpu_.Pop();
  }
  void Compute(double extra_ms) {
    std::uniform_real_distribution<double> jitter(0.97, 1.03);
    const double compute_ms = options_.compute_ms * jitter(random_) + extra_ms;
    Phase("forward", compute_ms / 3, "_ZN4demo12forward_gemmILi128EEEvPKfPf", 12);
    Phase("backward", compute_ms * 2 / 3, "_ZN4demo13backward_gemmILi128EEEvPKfPf", 24);
  }
  void Optimize() {
    if (gpu_.there()) Phase("optimizer", 0.5, "_ZN4demo18multi_tensor_applyEPf", 2);
  }
  void Phase(const char* name, double ms, const char* kernel, int kernels) {
    gpu_.Push(name);
    const uint64_t begin = gpu_.NowNs();
    SleepMs(ms);
    gpu_.Computed(begin, gpu_.NowNs(), kernel, kernels);
    gpu_.Pop();
  }

  // The training thread's part, in the order of NCCL 2.28: group, call, launch, plan, operation (before 2.28: group,
  // operation).
  void Issue(const Operation& op, int index, bool never_arrives) {
    ProxyWork work{{}, 0, index, static_cast<double>(Bytes(op)) / (options_.gigabytes_per_s * 1e6)};
    const bool api = options_.api >= 5;
    EventFields group;
    uint64_t group_handle = 0;
    if (api) {
      group.type = rankscope::testing::kNcclGroupApi;
      group.group_depth = op.send_recv ? 2 : 1;
      group_handle = Start(group);
      if (group_handle != 0) host_.Record(group_handle, 23, nullptr);
    }
    std::vector<uint64_t> calls;
    for (const char* func : Parts(op)) calls.push_back(api ? Call(op, func) : 0);
    if (api) {
      EventFields launch;
      launch.type = rankscope::testing::kNcclKernelLaunch;
      launch.stream = 0x7000;
      launch.parent = group_handle;
      const uint64_t launch_handle = Start(launch);
      work.kernel = gpu_.StartNccl(KernelOf(op), launch.stream);
      Stop(launch_handle);
    } else {
      work.kernel = gpu_.StartNccl(KernelOf(op), 0x7000);
    }
    EventFields plan;
    plan.type = rankscope::testing::kNcclGroup;
    const uint64_t plan_handle = Start(plan);
    if (!never_arrives) arrived_[index].fetch_add(1, std::memory_order_release);
    size_t part = 0;
    for (const char* func : Parts(op)) work.parents.push_back(Launch(op, func, calls[part++], plan_handle));
    Stop(plan_handle);
    Stop(group_handle);
    const std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(work));
    wake_.notify_all();
  }

  // Names of NCCL 2.19 and later.
  static const char* KernelOf(const Operation& op) {
    if (op.send_recv) return "_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE";
    if (std::strcmp(op.func, "AllReduce") == 0)
      return "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE";
    if (std::strcmp(op.func, "AllGather") == 0)
      return "_Z31ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE";
    return "_Z44ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE";
  }

  static std::vector<const char*> Parts(const Operation& op) {
    if (op.send_recv) return {"Send", "Recv"};
    return {op.func};
  }

  uint64_t Call(const Operation& op, const char* func) {
    EventFields call;
    call.type = op.send_recv ? rankscope::testing::kNcclP2pApi : rankscope::testing::kNcclCollApi;
    call.func = func;
    call.count = op.count;
    call.datatype = op.datatype;
    call.stream = 0x7000;
    const uint64_t handle = Start(call);
    Stop(handle);
    return handle;
  }

  uint64_t Launch(const Operation& op, const char* func, uint64_t call, uint64_t plan) {
    EventFields launch;
    launch.type = op.send_recv ? rankscope::testing::kNcclP2p : rankscope::testing::kNcclColl;
    launch.parent = options_.api >= 5 ? call : plan;
    launch.rank = rank_;
    launch.func = func;
    launch.count = op.count;
    launch.datatype = op.datatype;
    launch.algo = "RING";
    launch.proto = "SIMPLE";
    launch.func_number = NumberOf(func);
    launch.datatype_number = std::strcmp(op.datatype, "ncclBfloat16") == 0  ? 9
                             : std::strcmp(op.datatype, "ncclFloat32") == 0 ? 7
                                                                            : 0;
    launch.algo_number = 1;
    launch.proto_number = 2;
    launch.comm_hash = 0x5eed0001;
    launch.name = "world";
    launch.seq = seq_[NumberOf(func)];
    launch.channels = kChannels;
    launch.warps = 16;
    launch.peer =
        std::strcmp(func, "Send") == 0 ? (rank_ + 1) % options_.ranks : (rank_ + options_.ranks - 1) % options_.ranks;
    if (!op.send_recv) seq_[NumberOf(func)]++;
    const uint64_t handle = Start(launch);
    Stop(handle);
    return handle;
  }

  // ncclFunc_t of NCCL 2.23.
  static uint8_t NumberOf(const char* func) {
    static constexpr const char* kNames[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                             "AllReduce", "SendRecv", "Send",      "Recv"};
    for (uint8_t i = 0; i < 8; ++i) {
      if (std::strcmp(kNames[i], func) == 0) return i;
    }
    return 0;
  }

  uint64_t Start(const EventFields& fields) {
    return loaded_ && host_.Wants(fields.type, fields.parent) ? host_.Start(context_, fields) : 0;
  }
  void Stop(uint64_t handle) {
    if (handle != 0) host_.Stop(handle);
  }

  // The proxy progress thread.
  void Proxy() {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const ProxyWork work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      std::vector<uint64_t> handles;
      for (const uint64_t parent : work.parents) {
        for (int channel = 0; channel < kChannels; ++channel) {
          EventFields op;
          op.type = rankscope::testing::kNcclProxyOp;
          op.parent = parent;
          op.rank = rank_;
          op.pid = getpid();
          op.channel = static_cast<uint8_t>(channel);
          op.peer = (rank_ + 1) % options_.ranks;
          op.steps = 4;
          op.chunk_bytes = 1 << 19;
          op.is_send = channel % 2;
          handles.push_back(Start(op));
        }
      }
      while (arrived_[work.index].load(std::memory_order_acquire) < options_.ranks) {
        if (stopping()) return;
        SleepMs(0.05);
      }
      SleepMs(work.transfer_ms);
      for (const uint64_t handle : handles) Stop(handle);
      gpu_.EndNccl(work.kernel);
      const std::lock_guard<std::mutex> done(mutex_);
      finished_ = work.index;
      wake_.notify_all();
    }
  }

  bool stopping() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stop_;
  }

  // What a stream synchronisation does: false if the operation doesn't end in time.
  bool WaitFor(int index) {
    std::unique_lock<std::mutex> lock(mutex_);
    return wake_.wait_for(lock, std::chrono::duration<double>(options_.patience_s),
                          [&] { return finished_ >= index; });
  }
  bool WaitInVain() {
    SleepMs(options_.patience_s * 1000);
    return false;
  }

  const Options& options_;
  const int rank_;
  std::atomic<int>* const arrived_;
  std::mt19937 random_;
  ProfilerHost host_;
  DemoGpu gpu_;
  bool loaded_ = false;
  void* context_ = nullptr;
  uint64_t seq_[8] = {};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<ProxyWork> queue_;  // under mutex_
  int finished_ = -1;            // under mutex_
  bool stop_ = false;            // under mutex_
};

void PrintHelp() {
  std::puts(
      "rankscope_demo_job: a training-like job without a GPU, driven through the profiler plugin of "
      "NCCL_PROFILER_PLUGIN\n"
      "  --ranks N (4)  --steps N (30)  --api V (5: the plugin's table, 1 to 7)  --compute-ms X (10)\n"
      "  --slow-rank R  --slow-ms X (15)      rank R computes X ms longer in every step\n"
      "  --hang-rank R  --hang-step K (5)     rank R never joins the third operation of step K\n"
      "  --mismatch-rank R                    rank R calls AllReduce where the others call ReduceScatter in step K\n"
      "  --kill-rank R                        rank R is killed (SIGKILL) at step K\n"
      "  --doubles DIR                        stand-ins for libcuda and libcupti are there: a GPU that isn't one\n"
      "  --patience-s X (600)                 how long a rank waits before it gives the job up (exit status 1)");
}

bool Parse(int argc, char** argv, Options* options) {
  const option kLong[] = {
      {"ranks", 1, nullptr, 'n'},      {"steps", 1, nullptr, 's'},      {"api", 1, nullptr, 'a'},
      {"compute-ms", 1, nullptr, 'c'}, {"slow-rank", 1, nullptr, 'r'},  {"slow-ms", 1, nullptr, 'm'},
      {"hang-rank", 1, nullptr, 'h'},  {"hang-step", 1, nullptr, 'k'},  {"mismatch-rank", 1, nullptr, 'x'},
      {"kill-rank", 1, nullptr, 'K'},  {"patience-s", 1, nullptr, 'p'}, {"doubles", 1, nullptr, 'd'},
      {"help", 0, nullptr, '?'},       {nullptr, 0, nullptr, 0}};
  for (int c = 0; (c = getopt_long(argc, argv, "", kLong, nullptr)) != -1;) {
    const double value = optarg != nullptr ? std::atof(optarg) : 0;
    const int whole = static_cast<int>(value);
    switch (c) {
      case 'n':
        options->ranks = whole;
        break;
      case 's':
        options->steps = whole;
        break;
      case 'a':
        options->api = whole;
        break;
      case 'c':
        options->compute_ms = value;
        break;
      case 'r':
        options->slow_rank = whole;
        break;
      case 'm':
        options->slow_ms = value;
        break;
      case 'h':
        options->hang_rank = whole;
        break;
      case 'k':
        options->hang_step = whole;
        break;
      case 'x':
        options->mismatch_rank = whole;
        break;
      case 'K':
        options->kill_rank = whole;
        break;
      case 'd':
        options->doubles = optarg;
        break;
      case 'p':
        options->patience_s = value;
        break;
      default:
        return false;
    }
  }
  return options->ranks > 0 && options->ranks <= 256 && options->steps > 0 && options->api >= 1 && options->api <= 7;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, &options)) {
    PrintHelp();
    return 2;
  }
  const size_t operations = static_cast<size_t>(options.steps) * kOperationsPerStep;
  void* shared =
      mmap(nullptr, operations * sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  auto* arrived = static_cast<std::atomic<int>*>(shared);  // zero pages are counters at 0
  std::printf("rankscope_demo_job: %d ranks, %d steps\n", options.ranks, options.steps);
  std::fflush(stdout);
  std::vector<pid_t> children;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      // What torchrun would set.
      setenv("RANK", std::to_string(rank).c_str(), 1);
      setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
      setenv("WORLD_SIZE", std::to_string(options.ranks).c_str(), 1);
      setenv("LOCAL_WORLD_SIZE", std::to_string(options.ranks).c_str(), 1);
      // Never destroyed: as in a training process, threads and records live until the process ends.
      std::exit((new Rank(options, rank, arrived))->Run());
    }
    children.push_back(child);
  }
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) ++failed;
  }
  std::printf("rankscope_demo_job: %s\n", failed == 0 ? "done" : (std::to_string(failed) + " ranks failed").c_str());
  return failed == 0 ? 0 : 1;
}
