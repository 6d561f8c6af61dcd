// Plays a recording of NCCL's calls into a profiler plugin against a built library, as NCCL made them.
//
//   rankscope_replay --library librankscope.so [--pace recorded] [--all] RECORDING.jsonl...
//
// One process a file, one thread a recorded thread, the order of a process's calls kept. Descriptors are laid out by
// tests/fakes/nccl, their memory and strings are overwritten after each call. Events that NCCL would not start under
// the library's mask are left out (--all delivers them). A recording that ends without `unload` is of a killed
// process: the player kills itself there too. The rings go where RANKSCOPE_DIR says.
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/fakes/nccl/profiler_host.h"

namespace {

using nlohmann::json;
using rankscope::testing::CommIdentity;
using rankscope::testing::EventFields;
using rankscope::testing::ProfilerHost;

int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}
void SleepUntil(int64_t ns) {
  const timespec until{ns / 1'000'000'000, ns % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

uint64_t TypeOf(const std::string& name) {
  static const std::map<std::string, uint64_t> kTypes = {
      {"Group", 0x1},      {"Coll", 0x2},       {"P2p", 0x4},        {"ProxyOp", 0x8},
      {"ProxyStep", 0x10}, {"ProxyCtrl", 0x20}, {"KernelCh", 0x40},  {"NetPlugin", 0x80},
      {"GroupApi", 0x100}, {"CollApi", 0x200},  {"P2pApi", 0x400},   {"KernelLaunch", 0x800},
      {"CeColl", 0x1000},  {"CeSync", 0x2000},  {"CeBatch", 0x4000}, {"KernelPhase", 0x8000}};
  const auto found = kTypes.find(name);
  return found == kTypes.end() ? 0 : found->second;
}

struct Options {
  std::string library;
  bool paced = false, all = false;
  std::vector<std::string> files;
};

class Player {
 public:
  Player(const Options& options, const std::string& file, int64_t begin_ns, int64_t first_ns)
      : options_(options), begin_ns_(begin_ns), first_ns_(first_ns) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
      if (line.empty()) continue;
      lines_.push_back(json::parse(line));
      if (lines_.back()["cb"] == "load") recorded_pid_ = lines_.back().value("pid", 0);
      if (lines_.back()["cb"] == "init" && version_ == 0) version_ = lines_.back()["ver"];
    }
  }

  int Run() {
    if (lines_.empty() || version_ == 0) return 0;  // a process that never made a communicator
    std::map<int64_t, std::vector<size_t>> by_thread;
    for (size_t i = 0; i < lines_.size(); ++i) by_thread[lines_[i].value("tid", int64_t{0})].push_back(i);
    std::vector<std::thread> threads;
    for (const auto& [tid, mine] : by_thread) {
      threads.emplace_back([this, &mine = mine] {
        for (const size_t i : mine) TakeTurn(i);
        // A thread that is done stays until all are: NCCL's threads outlive their last call.
        std::unique_lock<std::mutex> lock(mutex_);
        turn_changed_.wait(lock, [this] { return turn_ == lines_.size(); });
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (!unloaded_) raise(SIGKILL);
    return failures_ == 0 ? 0 : 1;
  }

 private:
  void TakeTurn(size_t i) {
    std::unique_lock<std::mutex> lock(mutex_);
    turn_changed_.wait(lock, [&] { return turn_ == i; });
    lock.unlock();
    if (options_.paced) SleepUntil(begin_ns_ + lines_[i].value("t", first_ns_) - first_ns_);
    Play(lines_[i]);
    lock.lock();
    ++turn_;
    turn_changed_.notify_all();
  }

  void Play(const json& line) {
    const std::string what = line["cb"];
    if (what == "load") {
      if (!host_.Open(options_.library, version_)) {
        std::fprintf(stderr, "rankscope_replay: %s\n", host_.why().c_str());
        std::_Exit(3);
      }
    } else if (what == "unload") {
      host_.Close();
      unloaded_ = true;
    } else if (what == "init") {
      Init(line);
    } else if (what == "start") {
      Start(line);
    } else if (what == "stop" || what == "record") {
      const auto handle = handles_.find(Text(line, "h"));
      // Not given to the library at all, or NULL: NCCL makes no call.
      if (handle == handles_.end() || handle->second == 0) return;
      if (what == "stop") {
        host_.Stop(handle->second);
      } else {
        Record(line, handle->second);
      }
    } else if (what == "finalize") {
      Expect(host_.Finalize(ContextOf(line)) == 0, "finalize failed");
    }
  }

  void Init(const json& line) {
    CommIdentity id;
    const std::string name = line.contains("commName") && line["commName"].is_string()
                                 ? line["commName"].get<std::string>()
                                 : std::string();
    id.name = name.empty() ? nullptr : name.c_str();
    if (line.contains("commId")) id.hash = std::strtoull(line["commId"].get<std::string>().c_str(), nullptr, 16);
    id.nodes = line.value("nNodes", 0);
    id.ranks = line.value("nranks", 0);
    id.rank = line.value("rank", 0);
    void* context = nullptr;
    Expect(host_.Init(&context, id) == 0 && context != nullptr, "init failed or gave no context");
    if (line["ctx"].is_string()) contexts_[line["ctx"]] = context;
  }

  void Start(const json& line) {
    EventFields f;
    f.type = TypeOf(line["type"]);
    f.parent = HandleOf(line, "parent");
    if (!options_.all && !host_.Wants(f.type, f.parent)) return;
    f.rank = line.value("rank", 0);
    const std::string func = Text(line, "func"), dtype = Text(line, "datatype"), algo = Text(line, "algo"),
                      proto = Text(line, "proto"), name = Text(line, "name");
    const auto pointer = [](const std::string& s) { return s.empty() ? nullptr : s.c_str(); };
    f.func = pointer(func);
    f.datatype = pointer(dtype);
    f.algo = pointer(algo);
    f.proto = pointer(proto);
    f.name = pointer(name);
    f.func_number = line.value("funcNum", uint8_t{0});
    f.datatype_number = line.value("datatypeNum", uint8_t{0});
    f.algo_number = line.value("algoNum", uint8_t{0});
    f.proto_number = line.value("protoNum", uint8_t{0});
    if (line.contains("commHash") && line["commHash"].is_string())
      f.comm_hash = std::strtoull(line["commHash"].get<std::string>().c_str(), nullptr, 16);
    f.seq = line.value("seq", uint64_t{0});
    f.count = line.value("count", uint64_t{0});
    f.root = line.value("root", 0);
    f.peer = line.value("peer", 0);
    f.channels = line.value("nChannels", line.value("nMaxChannels", uint8_t{0}));
    f.warps = line.value("nWarps", uint8_t{0});
    f.parent_group = HandleOf(line, "parentGroup");
    if (line.contains("stream") && line["stream"].is_string())
      f.stream = std::strtoull(line["stream"].get<std::string>().c_str(), nullptr, 16);
    f.captured = line.value("graphCaptured", 0) != 0;
    f.group_depth = line.value("groupDepth", 0);
    const int pid = line.value("pid", 0);
    f.pid = pid == recorded_pid_ ? getpid() : pid;
    f.channel = line.value("channelId", uint8_t{0});
    f.steps = line.value("nSteps", 0);
    f.chunk_bytes = line.value("chunkSize", 0);
    f.is_send = line.value("isSend", 0);
    f.step = line.value("step", 0);
    f.gpu_time = line.value("pTimer", uint64_t{0});
    f.net_id = line.value("netId", int64_t{0});
    const uint64_t handle = host_.Start(ContextOf(line), f, line.contains("_entry") ? 0x1234 : 0xdddddddddddddddd);
    Expect(handle != 0xdddddddddddddddd, "*eHandle was not written");
    if (line["h"].is_string()) handles_[line["h"]] = handle;
  }

  void Record(const json& line, uint64_t handle) {
    struct {
      uint64_t first;
      int32_t steps;
    } args{0xdddddddddddddddd, 0};
    const int state = line["stateNum"];
    if (line.contains("args") && line["args"].is_null()) return host_.Record(handle, state, nullptr);
    if (line.contains("transSize")) args.first = line["transSize"];
    if (line.contains("pTimer")) args.first = line["pTimer"];
    if (line.contains("appended")) args.first = line["appended"];
    args.steps = line.value("steps", 0);
    host_.Record(handle, state, &args);
  }

  static std::string Text(const json& line, const char* key) {
    return line.contains(key) && line[key].is_string() ? line[key].get<std::string>() : std::string();
  }
  // A handle of ours by its recorded name; a foreign pointer as the number that it was; NULL where the event was not
  // given to the library.
  uint64_t HandleOf(const json& line, const char* key) const {
    const std::string name = Text(line, key);
    if (name.rfind("foreign:", 0) == 0) return std::strtoull(name.c_str() + 8, nullptr, 16);
    const auto found = handles_.find(name);
    return found == handles_.end() ? 0 : found->second;
  }
  void* ContextOf(const json& line) const {
    const std::string name = Text(line, "ctx");
    if (name.rfind("foreign:", 0) == 0) return reinterpret_cast<void*>(std::strtoull(name.c_str() + 8, nullptr, 16));
    const auto found = contexts_.find(name);
    return found == contexts_.end() ? nullptr : found->second;
  }
  void Expect(bool good, const char* what) {
    if (good) return;
    std::fprintf(stderr, "rankscope_replay: %s\n", what);
    ++failures_;
  }

  const Options& options_;
  const int64_t begin_ns_, first_ns_;
  std::vector<json> lines_;
  int version_ = 0, recorded_pid_ = 0, failures_ = 0;
  bool unloaded_ = false;
  ProfilerHost host_;
  std::unordered_map<std::string, uint64_t> handles_;
  std::unordered_map<std::string, void*> contexts_;
  std::mutex mutex_;
  std::condition_variable turn_changed_;
  size_t turn_ = 0;
};

int64_t FirstTime(const std::vector<std::string>& files) {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const std::string& file : files) {
    std::ifstream in(file);
    std::string line;
    if (std::getline(in, line)) first = std::min(first, json::parse(line).value("t", first));
  }
  return first;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--library" && i + 1 < argc) {
      options.library = argv[++i];
    } else if (arg == "--pace" && i + 1 < argc) {
      options.paced = std::string(argv[++i]) == "recorded";
    } else if (arg == "--all") {
      options.all = true;
    } else {
      options.files.push_back(arg);
    }
  }
  if (options.library.empty() || options.files.empty()) {
    std::fprintf(stderr, "usage: rankscope_replay --library SO [--pace recorded] [--all] RECORDING.jsonl...\n");
    return 2;
  }
  const int64_t first_ns = FirstTime(options.files);
  const int64_t begin_ns = NowNs() + 1'000'000'000;
  std::vector<pid_t> children;
  for (const std::string& file : options.files) {
    const pid_t child = fork();
    if (child == 0) {
      // As torchrun would; it also tells which file a ring is of where the API names no rank.
      const std::string rank = std::to_string(children.size()), world = std::to_string(options.files.size());
      setenv("RANK", rank.c_str(), 1);
      setenv("LOCAL_RANK", rank.c_str(), 1);
      setenv("WORLD_SIZE", world.c_str(), 1);
      std::_Exit(Player(options, file, begin_ns, first_ns).Run());
    }
    children.push_back(child);
  }
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) ++failed;
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) {
      std::fprintf(stderr, "rankscope_replay: a player died of signal %d\n", WTERMSIG(status));
      ++failed;
    }
  }
  return failed == 0 ? 0 : 1;
}
