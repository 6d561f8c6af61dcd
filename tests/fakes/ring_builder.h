// Ring files made from a description, for tests, benchmarks and fuzzing: what a recorder would have left, or a
// damaged version of it.
//
// Shares nothing with recorder/ but the contract in schema/. One thread.
#ifndef RANKSCOPE_TESTS_FAKES_RING_BUILDER_H_
#define RANKSCOPE_TESTS_FAKES_RING_BUILDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "schema/ring_abi.h"

namespace rankscope::testing {

class RingBuilder {
 public:
  // Lanes of `records_per_lane` records and `slots_per_lane` slots (powers of two). Ticks are nanoseconds of
  // CLOCK_MONOTONIC (1e9 a second) unless the header says otherwise; the epoch is at monotonic 0 + kEpochNs.
  static constexpr uint64_t kEpochNs = 1'700'000'000'000'000'000;
  RingBuilder(uint32_t lanes, uint32_t records_per_lane, uint32_t slots_per_lane = 16);

  schema::RingHeader& header() { return header_; }
  schema::ProcessIdentity& identity() { return identity_; }
  RingBuilder& SetRank(int32_t rank, int32_t world_size, const std::string& host = "host-0");

  // Appends to a lane as its thread would, overwriting the oldest record of a full lane. Fills in the commit word.
  RingBuilder& Append(uint32_t lane, schema::EventRecord record);
  // A record whose writer was killed half-way: the place is taken, the commit word is 0.
  RingBuilder& AppendTorn(uint32_t lane);

  uint16_t AddComm(schema::CommEntry entry);  // returns its slot
  uint32_t AddName(const std::string& name, schema::NameKind kind = schema::NameKind::kOther);
  // `state`, kind and generation go into the tag.
  RingBuilder& AddSlot(uint32_t lane, schema::EventKind kind, uint8_t state, schema::InFlightSlot slot);
  RingBuilder& AddTotal(uint32_t lane, schema::Function func, uint32_t size_class, schema::TotalCell cell);
  RingBuilder& AddLoss(schema::LossReason reason, uint64_t count);
  // Whose the lane is, from its first record on.
  RingBuilder& AddThread(uint32_t lane, uint32_t thread_id, const std::string& name, uint32_t pthread_low = 0);
  RingBuilder& SetCupti(const schema::CuptiInfo& info);
  RingBuilder& AddStream(uint64_t handle, uint32_t stream_id, uint32_t context_id = 0);
  RingBuilder& AddClockPair(uint64_t ticks, uint64_t monotonic_ns, uint64_t uncertainty_ns = 50);

  std::vector<uint8_t> Bytes() const;
  // Throws nothing; false if the file can't be written.
  bool Write(const std::string& path) const;

  // Where a section begins in Bytes(), for tests that damage it.
  uint64_t SectionOffset(schema::Section id) const;

 private:
  struct LaneState {
    schema::LaneHeader header{};
    std::vector<schema::EventRecord> records;
    std::vector<schema::InFlightSlot> slots;
    std::vector<schema::TotalCell> cells;
  };
  struct Layout {
    schema::SectionEntry sections[12];
    uint64_t file_bytes;
  };
  Layout Plan() const;

  schema::RingHeader header_{};
  schema::ProcessIdentity identity_{};
  std::vector<schema::ClockPair> pairs_;
  std::vector<schema::NameEntry> names_;
  std::string name_bytes_;
  std::vector<schema::CommEntry> comms_;
  std::vector<uint64_t> losses_;
  std::vector<schema::CuptiInfo> cupti_;  // none or one
  std::vector<schema::StreamEntry> streams_;
  std::vector<LaneState> lanes_;
};

// Records with the usual fields set; times in ticks.
schema::EventRecord CollRecord(uint64_t begin, uint64_t end, uint16_t comm, schema::Function func, uint32_t seq,
                               uint64_t count, schema::DataType dtype = schema::DataType::kFloat32,
                               uint64_t op_id = 0);

}  // namespace rankscope::testing

#endif  // RANKSCOPE_TESTS_FAKES_RING_BUILDER_H_
