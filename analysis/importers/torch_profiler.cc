// See torch_profiler.h.
#include "analysis/importers/torch_profiler.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analysis/importers/json_pieces.h"
#include "analysis/importers/rank_builder.h"
#include "analysis/importers/text_file.h"
#include "analysis/importers/torch_event.h"
#include "analysis/recording/clean_text.h"

namespace rankscope::analysis {
namespace {

using nlohmann::json;
using schema::DataType;
using schema::EventKind;
using schema::Function;
using schema::LossReason;

// The lane of all that the GPU did: no thread of the process.
constexpr int64_t kGpuThread = -1;
// A lost record makes an event of years; HolisticTraceAnalysis draws the line at seven days, too.
constexpr int64_t kLongestNs = int64_t{7} * 24 * 3600 * 1'000'000'000;

struct FunctionWord {
  const char* word;
  Function function;
};
// What torch calls its collectives (record_param_comms, ProcessGroupNCCL.cpp), without '_' and in small letters. The
// first that begins so counts. A barrier is an AllReduce of one element.
constexpr FunctionWord kFunctions[] = {
    {"allreduce", Function::kAllReduce}, {"reducescatter", Function::kReduceScatter},
    {"allgather", Function::kAllGather}, {"alltoall", Function::kAlltoAll},
    {"broadcast", Function::kBroadcast}, {"barrier", Function::kAllReduce},
    {"reduce", Function::kReduce},       {"gather", Function::kGather},
    {"scatter", Function::kScatter},     {"send", Function::kSend},
    {"recv", Function::kRecv},
};
Function FunctionOf(absl::string_view collective) {
  std::string word;
  for (const char c : collective) {
    if (c != '_') word += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  for (const FunctionWord& entry : kFunctions) {
    if (absl::StartsWith(word, entry.word)) return entry.function;
  }
  return Function::kUnknown;
}

struct TypeWord {
  const char* word;
  DataType type;
  int64_t bytes;
};
// c10::ScalarType's names.
constexpr TypeWord kTypes[] = {
    {"Float", DataType::kFloat32, 4},
    {"BFloat16", DataType::kBfloat16, 2},
    {"Half", DataType::kFloat16, 2},
    {"Double", DataType::kFloat64, 8},
    {"Long", DataType::kInt64, 8},
    {"Int", DataType::kInt32, 4},
    {"Byte", DataType::kUint8, 1},
    {"Char", DataType::kInt8, 1},
    {"Bool", DataType::kUint8, 1},
    {"Float8_e4m3fn", DataType::kFloat8e4m3, 1},
    {"Float8_e5m2", DataType::kFloat8e5m2, 1},
    {"Short", DataType::kUnknown, 2},
};
// Elements as NCCL counts them, and of what.
std::pair<uint64_t, DataType> CountOf(int64_t elements, absl::string_view dtype) {
  if (elements < 0) elements = 0;
  for (const TypeWord& type : kTypes) {
    if (dtype != type.word) continue;
    // A type that NCCL has not goes as bytes.
    const int64_t factor = type.bytes / schema::DataTypeBytes(type.type);
    return {static_cast<uint64_t>(elements) * static_cast<uint64_t>(factor), type.type};
  }
  return {static_cast<uint64_t>(elements), DataType::kUnknown};
}

std::vector<int32_t> RanksOf(absl::string_view list) {
  std::vector<int32_t> ranks;
  for (const absl::string_view word : absl::StrSplit(list, absl::ByAnyChar("[], "), absl::SkipEmpty())) {
    int32_t rank;
    if (absl::SimpleAtoi(word, &rank)) ranks.push_back(rank);
  }
  return ranks;
}

// "Memcpy HtoD (Pageable -> Device)": CUPTI's numbers (CUpti_ActivityMemcpyKind, CUpti_ActivityMemoryKind).
uint8_t CopyKind(absl::string_view name) {
  static constexpr std::array<const char*, 11> kKinds = {"?",    "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                                         "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
  for (size_t kind = 1; kind < kKinds.size(); ++kind) {
    if (absl::StrContains(name, kKinds[kind])) return static_cast<uint8_t>(kind);
  }
  return 0;
}
uint8_t MemoryKind(absl::string_view name) {
  static constexpr std::array<const char*, 6> kKinds = {"?", "Pageable", "Pinned", "Device", "Array", "Managed"};
  for (size_t kind = 1; kind < kKinds.size(); ++kind) {
    if (absl::StrContains(name, kKinds[kind])) return static_cast<uint8_t>(kind);
  }
  return 0;
}

// The host's waits among CUDA's calls: CUPTI's synchronisation types.
uint16_t WaitType(absl::string_view call) {
  if (absl::StartsWith(call, "cudaEventSynchronize") || absl::StartsWith(call, "cuEventSynchronize")) return 1;
  if (absl::StartsWith(call, "cudaStreamSynchronize") || absl::StartsWith(call, "cuStreamSynchronize")) return 3;
  if (absl::StartsWith(call, "cudaDeviceSynchronize") || absl::StartsWith(call, "cuCtxSynchronize")) return 4;
  return 0;
}

bool HasNccl(absl::string_view kernel) {
  for (size_t at = 0; at + 4 <= kernel.size(); ++at) {
    if (absl::EqualsIgnoreCase(kernel.substr(at, 4), "nccl")) return true;
  }
  return false;
}

// "…rank3…", "…rank_3…", "…rank-3…", in the file's own name.
int32_t RankOfFileName(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  for (size_t at = name.find("rank"); at != std::string::npos; at = name.find("rank", at + 1)) {
    size_t begin = at + 4;
    if (begin < name.size() && (name[begin] == '_' || name[begin] == '-')) ++begin;
    size_t end = begin;
    while (end < name.size() && name[end] >= '0' && name[end] <= '9') ++end;
    int32_t rank;
    if (end > begin && absl::SimpleAtoi(name.substr(begin, end - begin), &rank)) return rank;
  }
  return -1;
}

class Importer {
 public:
  explicit Importer(std::string path) : path_(std::move(path)) {}

  absl::StatusOr<ImportedRank> Run(const std::function<void(double)>& progress) {
    auto file = TextFile::Open(path_);
    if (!file.ok()) return file.status();
    JsonPieces pieces([&](char* to, size_t bytes) {
      const size_t got = (*file)->Read(to, bytes);
      if (progress && (*file)->size_bytes() > 0)
        progress(static_cast<double>((*file)->read_bytes()) / static_cast<double>((*file)->size_bytes()));
      return got;
    });
    for (JsonPiece piece = pieces.Next(); piece.kind != JsonPiece::Kind::kEnd; piece = pieces.Next()) {
      if (piece.kind == JsonPiece::Kind::kMember) {
        TakeMember(piece);
      } else if (reader_.Read(piece.text, &event_)) {
        TakeEvent(event_);
      } else {
        build_.Lose(LossReason::kImportDamaged);
      }
    }
    if (!pieces.is_json() || (read_ == 0 && members_ == 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, " is not a trace of torch.profiler (no JSON, plain or gzip)"));
    }
    if (read_ == 0) return absl::InvalidArgumentError(absl::StrCat(path_, " has no trace events"));
    build_.Lose(LossReason::kImportDamaged, pieces.damaged());
    if (pieces.cut() || !(*file)->damage().empty()) {
      build_.Warn(absl::StrCat(path_, " is cut off",
                               (*file)->damage().empty() ? "" : absl::StrCat(" (", (*file)->damage(), ")"),
                               "; what it has up to there is imported"));
    }
    return Finish();
  }

 private:
  // A collective's call, as record_param_comms tells it.
  struct Call {
    int64_t thread = 0, begin_ns = 0, end_ns = 0;
    Function function = Function::kUnknown;
    uint64_t count = 0;
    DataType type = DataType::kUnknown;
    std::string group, group_ranks;
    int32_t group_size = 0, peer = -1;
    Number sequence;
    int64_t kernel_begin_ns = 0, kernel_end_ns = 0;
    bool has_kernel = false;
  };
  struct NcclKernel {
    int64_t begin_ns, end_ns;
    uint32_t correlation;
    Number external;
  };

  void TakeMember(const JsonPiece& piece) {
    ++members_;
    if (piece.key == "baseTimeNanoseconds") {
      int64_t base_ns;
      if (absl::SimpleAtoi(piece.text, &base_ns)) base_ns_ = base_ns;
      return;
    }
    if (piece.key == "host_name" || piece.key == "hostname") {
      const json value = json::parse(piece.text.begin(), piece.text.end(), nullptr, false);
      if (value.is_string()) build_.info().host = CleanText(value.get<std::string>());
      return;
    }
    if (piece.key == "distributedInfo") TakeDistributedInfo(piece);
  }

  void TakeDistributedInfo(const JsonPiece& piece) {
    const json info = json::parse(piece.text.begin(), piece.text.end(), nullptr, false);
    if (!info.is_object()) {
      build_.Lose(LossReason::kImportDamaged);
      return;
    }
    RankInfo& rank = build_.info();
    if (const auto found = info.find("rank"); found != info.end() && found->is_number_integer()) {
      rank.rank = found->get<int32_t>();
      rank.rank_source = static_cast<uint32_t>(schema::RankSource::kTrace);
    }
    if (const auto found = info.find("world_size"); found != info.end() && found->is_number_integer())
      rank.world_size = found->get<int32_t>();
    if (const auto found = info.find("nccl_version"); found != info.end() && found->is_string()) {
      const std::vector<std::string> parts = absl::StrSplit(found->get<std::string>(), '.');
      int major = 0, minor = 0, patch = 0;
      if (parts.size() >= 3 && absl::SimpleAtoi(parts[0], &major) && absl::SimpleAtoi(parts[1], &minor) &&
          absl::SimpleAtoi(parts[2], &patch))
        rank.nccl_version = major * 10000 + minor * 100 + patch;
    }
    const auto groups = info.find("pg_config");
    if (groups == info.end() || !groups->is_array()) return;
    for (const json& group : *groups) {
      if (!group.is_object()) continue;
      const auto name = group.find("pg_name");
      const auto ranks = group.find("ranks");
      if (name == group.end() || !name->is_string() || ranks == group.end() || !ranks->is_array()) continue;
      std::vector<int32_t> members;
      for (const json& member : *ranks) {
        if (member.is_number_integer()) members.push_back(member.get<int32_t>());
      }
      groups_[name->get<std::string>()] = std::move(members);
    }
  }

  void TakeEvent(const TorchEvent& event) {
    ++read_;
    if (event.phase == 'M') {
      if (event.name == "thread_name" && event.thread.known && event.process.Or(0) != 0 && event.process.known)
        thread_names_[event.thread.value] = std::string(event.text);
      return;
    }
    if (event.phase != 'X' || event.category == TorchCategory::kOther) return;
    if (!event.begin_ns.known || !event.length_ns.known || event.length_ns.value < 0 ||
        event.length_ns.value > kLongestNs) {
      build_.Lose(LossReason::kImportBadTime);
      return;
    }
    const int64_t begin_ns = event.begin_ns.value, end_ns = begin_ns + event.length_ns.value;
    switch (event.category) {
      case TorchCategory::kKernel:
        return TakeKernel(event, begin_ns, end_ns);
      case TorchCategory::kMemcpy:
      case TorchCategory::kMemset:
        return TakeCopy(event, begin_ns, end_ns);
      case TorchCategory::kRuntime:
      case TorchCategory::kDriver:
        return TakeCall(event, begin_ns, end_ns);
      case TorchCategory::kUserAnnotation: {
        Event& range = build_.Add(EventKind::kRange, LaneOf(event), begin_ns, end_ns);
        range.payload.range = {};
        range.payload.range.name = build_.Name(event.name);
        return;
      }
      case TorchCategory::kCpuOp:
        return TakeOperator(event, begin_ns, end_ns);
      case TorchCategory::kSync:
      case TorchCategory::kOther:
        return;
    }
  }

  uint16_t LaneOf(const TorchEvent& event) {
    if (build_.info().pid == 0 && event.process.known) build_.info().pid = static_cast<uint32_t>(event.process.value);
    return build_.Lane(event.thread.Or(0));
  }

  static uint16_t Device(const TorchEvent& event) {
    const int64_t device = event.device.known ? event.device.value : event.process.Or(0);
    return device >= 0 && device < 0xffff ? static_cast<uint16_t>(device) : uint16_t{0xffff};
  }
  static uint32_t Stream(const TorchEvent& event) {
    return static_cast<uint32_t>(event.stream.known ? event.stream.value : event.thread.Or(0));
  }

  void TakeKernel(const TorchEvent& event, int64_t begin_ns, int64_t end_ns) {
    Event& kernel = build_.Add(EventKind::kGpuKernel, build_.Lane(kGpuThread), begin_ns, end_ns);
    const bool nccl = HasNccl(event.name);
    kernel.aux = static_cast<uint16_t>(nccl ? schema::GpuKernelClass::kNccl : schema::GpuKernelClass::kOther);
    kernel.op_id = static_cast<uint64_t>(event.graph_node.Or(0));
    if (event.graph.Or(0) != 0 || kernel.op_id != 0) kernel.flags |= schema::kFlagGraphReplay;
    schema::GpuKernelPayload& payload = kernel.payload.kernel;
    payload.name = build_.Name(event.name);
    payload.correlation = static_cast<uint32_t>(event.correlation.Or(0));
    payload.stream = Stream(event);
    payload.device = Device(event);
    payload.context = static_cast<uint16_t>(event.context.Or(0));
    payload.grid_blocks = static_cast<uint32_t>(std::min<uint64_t>(event.grid_blocks, UINT32_MAX));
    payload.block_threads = static_cast<uint32_t>(std::min<uint64_t>(event.block_threads, UINT32_MAX));
    if (build_.info().device < 0 && payload.device != 0xffff) build_.info().device = payload.device;
    if (nccl) kernels_.push_back({begin_ns, end_ns, payload.correlation, event.external});
  }

  void TakeCopy(const TorchEvent& event, int64_t begin_ns, int64_t end_ns) {
    const bool is_set = event.category == TorchCategory::kMemset;
    Event& copy =
        build_.Add(is_set ? EventKind::kGpuMemset : EventKind::kGpuMemcpy, build_.Lane(kGpuThread), begin_ns, end_ns);
    schema::GpuCopyPayload& payload = copy.payload.copy;
    payload = {};
    payload.bytes = static_cast<uint64_t>(std::max<int64_t>(event.bytes.Or(0), 0));
    payload.correlation = static_cast<uint32_t>(event.correlation.Or(0));
    payload.stream = Stream(event);
    payload.device = payload.peer_device = Device(event);
    const size_t arrow = event.name.find("->");
    if (is_set) {
      payload.destination_kind = MemoryKind(event.name);
    } else {
      payload.copy_kind = CopyKind(event.name);
      payload.source_kind = MemoryKind(event.name.substr(0, arrow));
      if (arrow != absl::string_view::npos) payload.destination_kind = MemoryKind(event.name.substr(arrow));
    }
  }

  void TakeCall(const TorchEvent& event, int64_t begin_ns, int64_t end_ns) {
    const auto correlation = static_cast<uint32_t>(event.correlation.Or(0));
    const bool driver = event.category == TorchCategory::kDriver;
    Event& call = build_.Add(EventKind::kCudaApi, LaneOf(event), begin_ns, end_ns);
    call.aux = static_cast<uint16_t>(event.callback.Or(0));
    call.payload.kernel = {
        build_.Name(event.name), correlation, static_cast<uint32_t>(event.thread.Or(0)), 0xffff, 0, 0,
        driver ? 4u : 5u};
    if (event.external.known) external_of_[correlation] = event.external.value;
    if (const uint16_t type = WaitType(event.name); type != 0) {
      Event& wait = build_.Add(EventKind::kGpuSync, LaneOf(event), begin_ns, end_ns);
      wait.aux = type;
      wait.payload.kernel = {0, correlation, 0, 0xffff, 0, 0, 0};
    }
  }

  void TakeOperator(const TorchEvent& event, int64_t begin_ns, int64_t end_ns) {
    if (absl::StartsWith(event.name, "autograd::engine::evaluate_function") && event.thread.known)
      autograd_threads_[event.thread.value] = true;
    if (event.name != kCollectiveCall || event.collective.empty()) return;
    const Function function = FunctionOf(event.collective);
    if (function == Function::kUnknown) return;  // "wait", "init": no operation
    Call call;
    call.thread = event.thread.Or(0);
    call.begin_ns = begin_ns;
    call.end_ns = end_ns;
    call.function = function;
    // AllGather and ReduceScatter: one rank's part. AlltoAll: what goes to one peer (design.md, Bandwidth).
    int64_t elements = function == Function::kReduceScatter || function == Function::kRecv ? event.out_elements.Or(0)
                                                                                           : event.in_elements.Or(0);
    if (function == Function::kAlltoAll && event.group_size.Or(0) > 0) elements /= event.group_size.value;
    std::tie(call.count, call.type) = CountOf(elements, event.dtype);
    call.group = std::string(event.group_name);
    call.group_ranks = std::string(event.group_ranks);
    call.group_size = static_cast<int32_t>(event.group_size.Or(0));
    if (function == Function::kSend) call.peer = static_cast<int32_t>(event.destination_rank.Or(-1));
    if (function == Function::kRecv) call.peer = static_cast<int32_t>(event.source_rank.Or(-1));
    call.sequence = event.sequence;
    if (event.rank.known && argument_rank_ < 0) argument_rank_ = static_cast<int32_t>(event.rank.value);
    if (event.external.known) call_of_external_[event.external.value] = calls_.size();
    LaneOf(event);
    calls_.push_back(std::move(call));
  }

  // The call that launched one of NCCL's kernels: by its external id, which newer profilers give the kernel itself.
  Call* CallOf(const NcclKernel& kernel) {
    auto found = kernel.external.known ? call_of_external_.find(kernel.external.value) : call_of_external_.end();
    if (found == call_of_external_.end()) {
      const auto external = external_of_.find(kernel.correlation);
      if (external != external_of_.end()) found = call_of_external_.find(external->second);
    }
    return found == call_of_external_.end() ? nullptr : &calls_[found->second];
  }

  uint16_t CommunicatorOf(const Call& call) {
    const auto known = groups_.find(call.group);
    const std::vector<int32_t> ranks = known != groups_.end() ? known->second : RanksOf(call.group_ranks);
    return build_.Communicator(call.group, ranks,
                               call.group_size > 0 ? call.group_size : static_cast<int32_t>(ranks.size()));
  }

  void MakeOperations() {
    for (const NcclKernel& kernel : kernels_) {
      Call* call = CallOf(kernel);
      if (call == nullptr) continue;
      call->kernel_begin_ns = call->has_kernel ? std::min(call->kernel_begin_ns, kernel.begin_ns) : kernel.begin_ns;
      call->kernel_end_ns = call->has_kernel ? std::max(call->kernel_end_ns, kernel.end_ns) : kernel.end_ns;
      call->has_kernel = true;
    }
    std::stable_sort(calls_.begin(), calls_.end(),
                     [](const Call& a, const Call& b) { return a.begin_ns < b.begin_ns; });
    std::map<std::pair<uint16_t, uint8_t>, uint32_t> ordinals;
    std::map<std::tuple<uint16_t, uint8_t, int32_t>, uint32_t> peer_ordinals;
    uint64_t op_id = 0;
    for (const Call& call : calls_) {
      const uint16_t comm = CommunicatorOf(call);
      const uint16_t lane = build_.Lane(call.thread);
      const auto func = static_cast<uint8_t>(call.function);
      const auto dtype = static_cast<uint8_t>(call.type);
      ++op_id;
      if (call.function == Function::kSend || call.function == Function::kRecv) {
        Event& p2p = build_.Add(EventKind::kP2p, lane, call.begin_ns, call.end_ns);
        p2p.comm = comm;
        p2p.op_id = op_id;
        p2p.payload.p2p = {call.count, 0, peer_ordinals[{comm, func, call.peer}]++, func, dtype, {}, call.peer};
      } else {
        const uint32_t ordinal = ordinals[{comm, func}]++;
        const auto sequence = call.sequence.known ? static_cast<uint32_t>(call.sequence.value) : ordinal;
        if (!call.sequence.known && comm != schema::kCommUnknown) build_.MarkCounted(comm);
        Event& coll = build_.Add(EventKind::kColl, lane, call.begin_ns, call.end_ns);
        coll.comm = comm;
        coll.op_id = op_id;
        coll.payload.coll = {call.count, sequence, ordinal, func, dtype, 0, 0, -1};
      }
      build_.CountOperation(comm, call.function, call.count * schema::DataTypeBytes(call.type),
                            call.has_kernel ? call.kernel_end_ns - call.kernel_begin_ns : 0);
      if (!call.has_kernel) continue;
      Event& complete =
          build_.Add(EventKind::kOpComplete, build_.Lane(kGpuThread), call.kernel_begin_ns, call.kernel_end_ns);
      complete.comm = comm;
      complete.op_id = op_id;
      complete.payload.completion = {static_cast<uint64_t>(call.begin_ns + base_ns_),
                                     0,
                                     static_cast<uint8_t>(schema::CompletionSource::kGpuKernel),
                                     func,
                                     {},
                                     call.count * schema::DataTypeBytes(call.type)};
    }
  }

  absl::StatusOr<ImportedRank> Finish() {
    RankInfo& info = build_.info();
    info.doors = schema::kDoorTrace;
    info.ring_path = path_;
    info.ticks_per_second = 1e9;
    if (info.rank < 0) {
      info.rank = RankOfFileName(path_);
      if (info.rank < 0) info.rank = argument_rank_;
      if (info.rank >= 0) info.rank_source = static_cast<uint32_t>(schema::RankSource::kTrace);
    }
    // Whether two traces without a host's name are of one host is not known: clocks are not taken for one.
    if (info.host.empty()) info.host = absl::StrCat("host of rank ", info.rank, " (not named)");
    MakeOperations();
    for (const auto& [thread, name] : thread_names_) build_.NameThread(thread, name);
    int backward = 0;
    for (const auto& [thread, is] : autograd_threads_)
      build_.NameThread(thread, absl::StrCat("pt_autograd_", backward++));
    build_.NameThread(kGpuThread, "GPU");
    if (reader_.mended() > 0) {
      build_.Warn(
          absl::StrCat(path_, ": ", reader_.mended(), " events were no valid JSON and were read after mending"));
    }
    return build_.Finish(base_ns_);
  }

  const std::string path_;
  RankBuilder build_;
  TorchEventReader reader_;
  TorchEvent event_;
  uint64_t read_ = 0, members_ = 0;
  int64_t base_ns_ = 0;
  int32_t argument_rank_ = -1;
  std::map<std::string, std::vector<int32_t>> groups_;
  std::map<int64_t, std::string> thread_names_;
  std::map<int64_t, bool> autograd_threads_;
  std::vector<Call> calls_;
  std::vector<NcclKernel> kernels_;
  absl::flat_hash_map<int64_t, size_t> call_of_external_;
  absl::flat_hash_map<uint32_t, int64_t> external_of_;
};

}  // namespace

absl::StatusOr<ImportedRank> ImportTorchTrace(const std::string& path, const std::function<void(double)>& progress) {
  return Importer(path).Run(progress);
}

}  // namespace rankscope::analysis
