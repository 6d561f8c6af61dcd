// One event of a torch.profiler trace (Chrome's trace format as Kineto writes it), out of its JSON.
//
// Called by the torch-profiler importer for each piece, on one thread. Reads the fields that rankscope uses and steps
// over the rest. Text that is no JSON (control characters and broken escapes in names, `inf` and `nan` as numbers) is
// mended in a copy and read again. Field names and units: Kineto's output_json.cpp. Must never: take a number through
// a double where it is a time.
#ifndef RANKSCOPE_ANALYSIS_IMPORTERS_TORCH_EVENT_H_
#define RANKSCOPE_ANALYSIS_IMPORTERS_TORCH_EVENT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace rankscope::analysis {

// The operator that tells of a collective's call.
inline constexpr char kCollectiveCall[] = "record_param_comms";

enum class TorchCategory : uint8_t {
  kOther,
  kCpuOp,
  kUserAnnotation,
  kKernel,
  kMemcpy,
  kMemset,
  kRuntime,  // CUDA's runtime calls
  kDriver,
  kSync,
};
// By its name, whatever its case: 2021's files say "Kernel", "Runtime", "Operator".
TorchCategory CategoryOf(absl::string_view cat);

// A number that may be missing.
struct Number {
  int64_t value = 0;
  bool known = false;
  int64_t Or(int64_t otherwise) const { return known ? value : otherwise; }
};

// Texts are valid until the next event is read.
// Of phases other than X and M nothing else is read, and of operators that tell of no collective no args.
struct TorchEvent {
  char phase = 0;  // X, M, i, ...
  TorchCategory category = TorchCategory::kOther;
  absl::string_view name;
  Number process, thread;  // missing where they are words ("Spans")
  Number begin_ns;         // `ts`, without the file's base
  Number length_ns;        // `dur`
  // args
  Number device, context, stream, correlation, external, bytes, callback, graph, graph_node;
  uint64_t grid_blocks = 0, block_threads = 0;
  absl::string_view text;  // args.name of a metadata event
  absl::string_view collective, dtype, group_name, group_description, group_ranks;
  Number group_size, in_elements, out_elements, sequence, rank, source_rank, destination_rank;
};

class TorchEventReader {
 public:
  TorchEventReader();
  ~TorchEventReader();
  TorchEventReader(const TorchEventReader&) = delete;
  TorchEventReader& operator=(const TorchEventReader&) = delete;

  // `json`: an object with 64 readable bytes behind it. False: it can't be read, mended or not.
  bool Read(absl::string_view json, TorchEvent* event);
  // Events that could be read only after they were mended.
  uint64_t mended() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

// Microseconds in decimal, as a number's text or in quotes, as nanoseconds: "12.5" is 12,500. What has more than
// three decimals is rounded down.
Number NanosecondsOfMicroseconds(absl::string_view text);

}  // namespace rankscope::analysis

#endif  // RANKSCOPE_ANALYSIS_IMPORTERS_TORCH_EVENT_H_
