// Operations as all their ranks see them: events of the ranks, put together by communicator, function and sequence
// number.
//
// A stream of events in the order of their commit goes in, matched operations come out through a sink, in bounded
// memory: an operation is closed when it is complete and a while has passed, or when too many are open. One thread.
//
// Keys (docs/design.md): (communicator, function, NCCL's sequence number, repeat) for collectives; (communicator,
// sender, receiver, ordinal) for point-to-point; (communicator, function, ordinal of the API call) for calls that
// never got a launch; (communicator, function, ordinal) for copy-engine collectives.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_OPERATIONS_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_OPERATIONS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/answers/bandwidth.h"
#include "analysis/answers/communicators.h"
#include "analysis/model.h"

namespace rankscope::answers {

enum class OperationClass : uint8_t { kCollective = 0, kPointToPoint = 1, kCopyEngine = 2, kApiOnly = 3 };

struct OperationKey {
  uint32_t comm = 0;
  OperationClass operation_class = OperationClass::kCollective;
  uint8_t func = 0;
  uint32_t number = 0;  // NCCL's seq, or our ordinal
  uint32_t repeat = 0;  // of that seq on a rank; graph replays
  int32_t sender = -1;  // point-to-point: communicator ranks
  int32_t receiver = -1;
  bool operator==(const OperationKey& o) const {
    return comm == o.comm && operation_class == o.operation_class && func == o.func && number == o.number &&
           repeat == o.repeat && sender == o.sender && receiver == o.receiver;
  }
  template <typename H>
  friend H AbslHashValue(H h, const OperationKey& k) {
    const uint64_t a = uint64_t{k.comm} << 32 | uint64_t{k.func} << 8 | static_cast<uint64_t>(k.operation_class);
    const uint64_t b = uint64_t{k.number} << 32 | k.repeat;
    const uint64_t c = uint64_t{static_cast<uint32_t>(k.sender)} << 32 | static_cast<uint32_t>(k.receiver);
    return H::combine(std::move(h), a, b, c);
  }
};

// One rank's part of an operation.
struct Participant {
  uint32_t member = 0;   // position in Communicator::members
  uint32_t ordinal = 0;  // the rank's own count of launches (or API calls)
  int64_t issue_ns = 0;  // begin of the API call; the launch where none was seen
  // Begin of the launch; of the API call for kApiOnly; of the kernel, where all participants' kernels are known.
  int64_t arrival_ns = 0;
  int64_t kernel_begin_ns = 0;  // on the GPU; 0 = not known
  int64_t stop_ns = 0;          // end of the host's enqueue: NOT the end of the operation
  int64_t completion_ns = 0;    // 0 = not observed
  uint64_t count = 0;           // elements of dtype
  int32_t root = -1;
  uint8_t func = 0;  // kSend or kRecv for point-to-point
  uint8_t dtype = 0, algo = 0, proto = 0;
  schema::CompletionSource source = schema::CompletionSource::kNone;
  bool unfinished = false;     // known not to have ended: under way when the ring was read, or evicted before its end
  bool uncertain_key = false;  // first operation of its kind that the rank's window shows: it may be a repeat
  uint16_t flags = 0;          // schema::EventFlags
  uint64_t bytes() const { return count * schema::DataTypeBytes(static_cast<schema::DataType>(dtype)); }
};

// What participants disagree on.
enum Mismatch : uint8_t {
  kMismatchBytes = 1 << 0,
  kMismatchType = 1 << 1,
  kMismatchRoot = 1 << 2,
};

struct MatchedOperation {
  OperationKey key;
  std::vector<Participant> participants;  // in the order in which they were seen
  std::vector<uint32_t> missing;          // members that were not seen in it
  uint32_t expected = 0;                  // participants that the operation has when complete
  uint8_t mismatches = 0;                 // Mismatch
  bool first_of_comm = false;             // carries connection set-up: left out of sums
  bool replayed = false;                  // launched by a CUDA graph
  bool uncertain = false;                 // the match itself is in doubt: left out of sums
  // Of the first participant:
  uint64_t bytes = 0;
  uint8_t dtype = 0, algo = 0, proto = 0;
  int32_t root = -1;

  // Computed when the operation is closed; meaningful if `complete`.
  bool complete = false;  // all members that the recording has were seen
  int64_t first_arrival_ns = 0, last_arrival_ns = 0;
  uint32_t last = 0;  // position in participants of the one that arrived last
  int64_t second_last_arrival_ns = 0;
  bool gpu_times = false;    // arrivals and end are of the kernels on the GPUs
  int64_t skew_ns = 0;       // last minus first arrival
  uint32_t completions = 0;  // participants whose end was observed
  int64_t end_ns = 0;        // latest completion seen; 0 where none was, or a part is unfinished
  int64_t transfer_ns = 0;   // last arrival to end; 0 unknown; negative = clocks or match are wrong
  Bandwidth bandwidth;
  int64_t WaitOf(const Participant& p) const { return last_arrival_ns - p.arrival_ns; }
};

class OperationSink {
 public:
  virtual ~OperationSink() = default;
  // The operation is only lent for the call.
  virtual void OnOperation(const MatchedOperation& operation) = 0;
};

struct MatcherOptions {
  // Open participants at most (one operation of 8 ranks has 8): 64 bytes each and as much again for the tables.
  size_t open_participants = 1u << 20;
  // A complete operation is kept open this long for a completion that replaces an earlier one (more network
  // operations of it may start after the first ones ended).
  int64_t linger_ns = 100'000'000;
  // The same where all arrived and some completion was not seen.
  int64_t linger_unfinished_ns = 10'000'000'000;
  // API calls of a rank that wait for their launch.
  size_t open_calls = 4096;
};

struct MatcherStats {
  uint64_t events = 0;
  uint64_t unknown_communicator = 0;  // operations that name no communicator, or one that the rank does not list
  uint64_t unmatchable = 0;           // point-to-point without peer, ordinal or own rank
  uint64_t captured_calls = 0;        // API calls captured into a graph: not operations
  uint64_t api_only_p2p = 0;          // Send/Recv calls without a launch: counted, cannot be matched (no peer)
  uint64_t closed_early = 0;          // incomplete operations closed because too many were open
  uint64_t late_parts = 0;            // parts that came after their operation had been closed
  uint64_t late_completions = 0;
  uint64_t repeated_parts = 0;  // a second part of the same rank in one operation: ignored
  size_t open_participants_peak = 0;
};

// Kinds that the matcher wants from Recording::Events.
analysis::KindMask MatcherKinds();

class OperationMatcher {
 public:
  // All must outlive the matcher.
  OperationMatcher(const std::vector<analysis::RankInfo>& ranks, const Communicators& communicators,
                   const MatcherOptions& options, OperationSink* sink);
  ~OperationMatcher();
  OperationMatcher(const OperationMatcher&) = delete;
  OperationMatcher& operator=(const OperationMatcher&) = delete;

  void Add(const analysis::Event& event);
  // Closes what is open. Nothing may be added afterwards.
  void Finish();
  const MatcherStats& stats() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_OPERATIONS_H_
