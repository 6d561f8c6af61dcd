// A recording in memory, for tests of the answers: planted arrivals in, events and counters as the recorder would
// leave them.
//
// Tests only. Shares no code with what it tests: keys, seqs and ordinals are counted here anew.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_FAKE_RECORDING_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_FAKE_RECORDING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analysis/model.h"

namespace rankscope::answers {

class FakeRecording : public analysis::Recording {
 public:
  // Processes of one host, as of a job that ran NCCL 2.28.9 (table v5) and is over.
  explicit FakeRecording(uint32_t ranks);

  const std::vector<analysis::RankInfo>& ranks() const override { return ranks_; }
  const std::vector<analysis::HostClockInfo>& clocks() const override { return clocks_; }
  const std::vector<std::string>& warnings() const override { return warnings_; }
  std::unique_ptr<analysis::EventStream> Events(analysis::KindMask kinds) const override;
  std::vector<std::unique_ptr<analysis::EventSource>> Sources(analysis::KindMask kinds) const override;

  // For tests that shape what the builders below do not.
  std::vector<analysis::RankInfo>& mutable_ranks() { return ranks_; }
  std::vector<analysis::HostClockInfo>& mutable_clocks() { return clocks_; }
  std::vector<std::string>& mutable_warnings() { return warnings_; }
  std::vector<analysis::Event>& mutable_events() { return events_; }

  // A communicator of these processes, in the order of its ranks. Returns its hash's place for the calls below.
  struct Comm {
    uint64_t hash = 0;
    std::vector<uint32_t> processes;
    std::vector<uint16_t> slots;  // beside processes
  };
  Comm AddComm(uint64_t hash, const std::vector<uint32_t>& processes);

  struct Call {
    schema::Function func = schema::Function::kAllReduce;
    uint64_t count = 1024;
    schema::DataType dtype = schema::DataType::kFloat32;
    int32_t root = -1;
    bool api = true;          // an API event before the launch
    bool launch = true;       // false: the API event alone
    bool completes = true;    // an OpComplete event
    int64_t transfer_ns = 0;  // completion = last arrival + this
    bool replay = false;      // a graph's replay: no API event, the flag
    bool repeat_seq = false;  // shows the sequence number of the one before
    bool first = false;       // the first operation's flag
    uint16_t extra_flags = 0;
  };
  // One collective: arrivals[i] is communicator rank i's; INT64_MIN = that rank does not come to it.
  void Collective(const Comm& comm, const Call& call, const std::vector<int64_t>& arrivals_ns);
  // One transfer; an arrival of INT64_MIN leaves that side out.
  void PointToPoint(const Comm& comm, uint32_t sender, uint32_t receiver, uint64_t count, int64_t send_ns,
                    int64_t receive_ns, int64_t transfer_ns);
  // Leaves a rank's latest launch of `func` in its in-flight table: under way, or with all network work done, or
  // (children 0) not observable.
  void LeaveInFlight(const Comm& comm, uint32_t comm_rank, const Call& call, int64_t arrival_ns,
                     uint32_t children_started, uint32_t children_stopped, bool call_open = false);

  // Forgets the oldest events of a process, as a ring that was lapped does.
  void Overwrite(uint32_t process, size_t events);

  analysis::CommInfo& InfoOf(const Comm& comm, uint32_t comm_rank);

 private:
  uint64_t NextOp(uint32_t process) { return ++next_op_[process] << 8; }
  analysis::Event& Push(uint32_t process, schema::EventKind kind, int64_t begin_ns, int64_t end_ns,
                        uint16_t comm_slot, uint64_t op_id, uint16_t flags);
  void Count(uint32_t process, schema::Function func, uint64_t bytes, bool api, bool launch, bool completed,
             int64_t duration_ns);
  void CountKind(uint32_t process, schema::EventKind kind);
  std::vector<analysis::Event> Chosen(analysis::KindMask kinds) const;  // in the order of their end

  std::vector<analysis::RankInfo> ranks_;
  std::vector<analysis::HostClockInfo> clocks_;
  std::vector<std::string> warnings_;
  std::vector<analysis::Event> events_;
  std::vector<uint64_t> next_op_;
  // (process, slot, sender, receiver, sends) -> how many
  std::map<std::tuple<uint32_t, uint16_t, uint32_t, uint32_t, bool>, uint32_t> transfers_;
};

inline constexpr int64_t kAbsent = INT64_MIN;
inline constexpr int64_t kStartNs = 1'764'590'000'000'000'000;  // 1 Dec 2025

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_FAKE_RECORDING_H_
