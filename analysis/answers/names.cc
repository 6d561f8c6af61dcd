// See names.h.
#include "analysis/answers/names.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "schema/event_abi.h"
#include "schema/ring_abi.h"

namespace rankscope::answers {

namespace {

template <size_t kSize>
absl::string_view Pick(const absl::string_view (&words)[kSize], uint64_t index, absl::string_view otherwise) {
  return index < kSize ? words[index] : otherwise;
}

struct LossWords {
  absl::string_view key;
  absl::string_view text;
};

constexpr LossWords kLosses[] = {
    {"no_lane", "events not recorded: more threads at once than the ring has lanes"},
    {"no_slot", "events not followed: no place in the in-flight table"},
    {"evicted", "unfinished operations that lost their place in the in-flight table (recorded as evicted)"},
    {"unknown_type", "events of a type that this build does not know"},
    {"unknown_state", "states that this build does not know"},
    {"stale_handle", "stops or states of events that were already gone"},
    {"foreign_handle", "calls with a handle of another process or garbage"},
    {"null_context", "events without a communicator"},
    {"bad_context", "events dropped: their communicator is not one of ours"},
    {"name_table_full", "names not kept: the name table is full"},
    {"comm_table_full", "communicators not followed: the communicator table is full"},
    {"totals_full", "operations counted without kind and size: the table of totals is full"},
    {"bad_gpu_stamp", "GPU time stamps refused (zero or reversed)"},
    {"peer_out_of_range", "point-to-point operations without an ordinal (cannot be matched)"},
    {"forked", "calls from a forked child, not recorded"},
    {"repeated_stop", "repeated stops of one event (the first one counts)"},
    {"missing_stop", "events whose stop never came"},
    {"foreign_proxy", "network operations run here for another process (PXN): not a loss"},
    {"internal", "faults inside the recorder"},
    {"cupti_dropped", "GPU records that CUPTI dropped"},
    {"cupti_no_timestamp", "GPU records without times"},
    {"cupti_bad_timestamp", "GPU records whose times can't be right"},
    {"cupti_foreign_clock", "GPU records stamped by another client's clock"},
    {"cupti_incomplete", "GPU records of work that had not ended when the process did"},
    {"cupti_unparsed_bytes", "bytes of CUPTI's buffers that could not be read"},
    {"cupti_unknown_kind", "GPU records of a kind that can't be stepped over"},
    {"cupti_unknown_buffer", "buffers that CUPTI brought and that are not rankscope's (another client's)"},
    {"cupti_no_buffer", "times that CUPTI asked for a buffer and all were out"},
    {"range_unbalanced", "ranges that were closed or popped out of turn"},
    {"range_too_deep", "ranges nested deeper than is kept"},
    {"range_table_full", "ranges, domains or strings beyond what is kept"},
    {"call_site_table_full", "call sites beyond what is kept"},
    {"import_damaged", "places of an imported file that could not be read"},
    {"import_bad_time", "events of an imported file whose times are missing or can't be right"},
    {"import_unmatched",
     "operations not matched: the imported traces list different ones, and have no sequence numbers"},
};

}  // namespace

absl::string_view FunctionName(uint8_t func) {
  static constexpr absl::string_view kWords[] = {
      "unknown", "AllGather", "AllReduce", "AlltoAll", "Broadcast", "Gather", "Reduce",     "ReduceScatter",
      "Scatter", "Send",      "Recv",      "SendRecv", "PutSignal", "Signal", "WaitSignal", "AllGatherV"};
  static_assert(std::size(kWords) == schema::kFunctionLimit);
  return Pick(kWords, func, "unknown");
}

absl::string_view DataTypeName(uint8_t dtype) {
  static constexpr absl::string_view kWords[] = {
      "uint8 or unknown", "int8",    "uint8",   "int32",    "uint32",  "int64",  "uint64",
      "float16",          "float32", "float64", "bfloat16", "fp8e4m3", "fp8e5m2"};
  static_assert(std::size(kWords) == schema::kDataTypeLimit);
  return Pick(kWords, dtype, "unknown");
}

absl::string_view AlgorithmName(uint8_t algo) {
  static constexpr absl::string_view kWords[] = {"",     "TREE",      "RING", "COLLNET_DIRECT", "COLLNET_CHAIN",
                                                 "NVLS", "NVLS_TREE", "PAT",  "SYMMETRIC"};
  static_assert(std::size(kWords) == schema::kAlgorithmLimit);
  return Pick(kWords, algo, "");
}

absl::string_view ProtocolName(uint8_t proto) {
  static constexpr absl::string_view kWords[] = {"", "LL", "LL128", "SIMPLE"};
  static_assert(std::size(kWords) == schema::kProtocolLimit);
  return Pick(kWords, proto, "");
}

absl::string_view CompletionSourceName(uint8_t source) {
  static constexpr absl::string_view kWords[] = {"none", "proxy", "kernel_channel", "gpu_kernel"};
  return Pick(kWords, source, "unknown");
}

absl::string_view EventKindName(uint16_t kind) {
  static constexpr absl::string_view kWords[] = {
      "None",   "GroupApi", "CollApi",     "P2pApi",     "KernelLaunch", "Group",     "Coll",
      "P2p",    "ProxyOp",  "ProxyStep",   "ProxyCtrl",  "KernelCh",     "NetPlugin", "CeColl",
      "CeSync", "CeBatch",  "KernelPhase", "OpComplete", "OpEvicted",    "CommInit",  "CommFinalize"};
  static_assert(std::size(kWords) == static_cast<size_t>(schema::EventKind::kCommFinalize) + 1);
  static constexpr absl::string_view kGpu[] = {"GpuKernel", "GpuMemcpy", "GpuMemset",   "GpuSync",  "GpuMemory",
                                               "GpuGraph",  "CudaApi",   "GpuOverhead", "GpuBlind", "GpuMemoryPool"};
  static constexpr absl::string_view kHost[] = {"Range", "Mark", "FileIo", "CallSite", "HostSample"};
  constexpr auto kFirstGpu = static_cast<uint16_t>(schema::EventKind::kGpuKernel);
  constexpr auto kFirstHost = static_cast<uint16_t>(schema::EventKind::kRange);
  if (kind >= kFirstHost) return Pick(kHost, kind - kFirstHost, "other");
  if (kind >= kFirstGpu) return Pick(kGpu, kind - kFirstGpu, "other");
  return Pick(kWords, kind, "other");
}

absl::string_view RankSourceName(uint32_t source) {
  static constexpr absl::string_view kWords[] = {"none", "slurm", "pmi", "openmpi", "torch", "communicator", "trace"};
  return Pick(kWords, source, "unknown");
}

absl::string_view LossReasonKey(uint32_t reason) {
  return reason < std::size(kLosses) ? kLosses[reason].key : absl::string_view("other");
}

absl::string_view LossReasonText(uint32_t reason) {
  return reason < std::size(kLosses) ? kLosses[reason].text
                                     : absl::string_view("losses for a reason that this build does not know");
}

std::string NcclVersionText(int32_t nccl_version) {
  if (nccl_version <= 0) return "unknown";
  // ncclGetVersion: major * 10000 + minor * 100 + patch from 2.9 on (nccl.h, NCCL_VERSION), * 1000 before.
  if (nccl_version < 10000) {
    return absl::StrCat(nccl_version / 1000, ".", nccl_version / 100 % 10, ".", nccl_version % 100);
  }
  return absl::StrCat(nccl_version / 10000, ".", nccl_version / 100 % 100, ".", nccl_version % 100);
}

bool IsPointToPoint(uint8_t func) {
  return func == static_cast<uint8_t>(schema::Function::kSend) ||
         func == static_cast<uint8_t>(schema::Function::kRecv);
}

}  // namespace rankscope::answers
