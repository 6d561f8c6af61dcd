// See ring_builder.h.
#include "tests/fakes/ring_builder.h"

#include <cstdio>
#include <cstring>

namespace rankscope::testing {

using schema::Section;

namespace {

constexpr uint32_t kCellsPerLane = 8;
constexpr uint64_t kRoomForNames = 64, kRoomForNameBytes = 4096, kRoomForComms = 16, kRoomForPairs = 128;

}  // namespace

RingBuilder::RingBuilder(uint32_t lanes, uint32_t records_per_lane, uint32_t slots_per_lane)
    : losses_(schema::kLossReasonLimit), lanes_(lanes) {
  header_.magic = schema::kRingMagic;
  header_.byte_order = schema::kByteOrderMark;
  header_.major = schema::kRingMajor;
  header_.minor = schema::kRingMinor;
  header_.header_bytes = sizeof(schema::RingHeader);
  header_.record_bytes = sizeof(schema::EventRecord);
  header_.lane_count = lanes;
  header_.state = static_cast<uint32_t>(schema::RingState::kRecording);
  header_.tick_source = static_cast<uint32_t>(schema::TickSource::kTsc);
  header_.ticks_per_second = 1'000'000'000;
  header_.cells_per_lane = kCellsPerLane;
  for (uint32_t i = 0; i < lanes; ++i) {
    LaneState& lane = lanes_[i];
    lane.header.record_count = records_per_lane;
    lane.header.first_record = uint64_t{i} * records_per_lane;
    lane.header.slot_count = slots_per_lane;
    lane.header.first_slot = uint64_t{i} * slots_per_lane;
    lane.records.resize(records_per_lane);
    lane.slots.resize(slots_per_lane);
    lane.cells.resize(kCellsPerLane);
  }
  SetRank(-1, 0);
  AddClockPair(1'000'000, 1'000'000);
  AddClockPair(1'000'000'000'000, 1'000'000'000'000);
}

RingBuilder& RingBuilder::SetRank(int32_t rank, int32_t world_size, const std::string& host) {
  identity_.rank = rank;
  identity_.world_size = world_size;
  identity_.local_rank = identity_.env_rank = identity_.node_rank = identity_.restart_count = identity_.device = -1;
  identity_.pid = 1000 + static_cast<uint32_t>(rank);
  std::snprintf(identity_.host, sizeof(identity_.host), "%s", host.c_str());
  std::snprintf(identity_.boot_id, sizeof(identity_.boot_id), "boot-%s", host.c_str());
  std::snprintf(identity_.job, sizeof(identity_.job), "test");
  return *this;
}

RingBuilder& RingBuilder::Append(uint32_t lane_index, schema::EventRecord record) {
  LaneState& lane = lanes_[lane_index];
  record.commit = lane.header.head + 1;
  lane.records[lane.header.head % lane.header.record_count] = record;
  lane.header.head++;
  lane.header.committed_by_kind[record.kind % schema::kEventKindLimit]++;
  return *this;
}

RingBuilder& RingBuilder::AppendTorn(uint32_t lane_index) {
  LaneState& lane = lanes_[lane_index];
  lane.records[lane.header.head % lane.header.record_count].commit = 0;
  lane.header.head++;
  return *this;
}

uint16_t RingBuilder::AddComm(schema::CommEntry entry) {
  entry.commit = comms_.size() + 1;
  comms_.push_back(entry);
  header_.comm_count = static_cast<uint32_t>(comms_.size());
  return static_cast<uint16_t>(comms_.size() - 1);
}

uint32_t RingBuilder::AddName(const std::string& name, schema::NameKind kind) {
  names_.push_back({static_cast<uint32_t>(name_bytes_.size()), static_cast<uint32_t>(name.size()),
                    static_cast<uint32_t>(kind), 0});
  name_bytes_ += name;
  header_.name_count = static_cast<uint32_t>(names_.size());
  header_.name_bytes_used = name_bytes_.size();
  return header_.name_count;
}

RingBuilder& RingBuilder::AddSlot(uint32_t lane_index, schema::EventKind kind, uint8_t state,
                                  schema::InFlightSlot slot) {
  for (schema::InFlightSlot& place : lanes_[lane_index].slots) {
    if (place.tag != 0) continue;
    slot.kind = static_cast<uint16_t>(kind);
    slot.tag = uint64_t{1} << 32 | uint64_t{lane_index} << 16 | static_cast<uint64_t>(kind) << 8 | state;
    place = slot;
    break;
  }
  return *this;
}

RingBuilder& RingBuilder::AddTotal(uint32_t lane_index, schema::Function func, uint32_t size_class,
                                   schema::TotalCell cell) {
  cell.key = schema::kTotalCellUsed | static_cast<uint32_t>(func) << 8 | size_class;
  for (schema::TotalCell& place : lanes_[lane_index].cells) {
    if (place.key != 0) continue;
    place = cell;
    break;
  }
  return *this;
}

RingBuilder& RingBuilder::AddLoss(schema::LossReason reason, uint64_t count) {
  losses_[static_cast<size_t>(reason)] += count;
  return *this;
}

RingBuilder& RingBuilder::AddThread(uint32_t lane_index, uint32_t thread_id, const std::string& name,
                                    uint32_t pthread_low) {
  schema::LaneHeader& lane = lanes_[lane_index].header;
  lane.pthread_low[lane.tenant_count % schema::kLaneTenants] = pthread_low;
  lane.tenants[lane.tenant_count % schema::kLaneTenants] = {lane.head, thread_id,
                                                            AddName(name, schema::NameKind::kThread)};
  ++lane.tenant_count;
  lane.owner_thread_id = thread_id;
  return *this;
}

RingBuilder& RingBuilder::SetCupti(const schema::CuptiInfo& info) {
  cupti_ = {info};
  return *this;
}

RingBuilder& RingBuilder::AddStream(uint64_t handle, uint32_t stream_id, uint32_t context_id) {
  streams_.push_back({streams_.size() + 1, handle, stream_id, context_id});
  return *this;
}

RingBuilder& RingBuilder::AddClockPair(uint64_t ticks, uint64_t monotonic_ns, uint64_t uncertainty_ns) {
  pairs_.push_back({pairs_.size() + 1, ticks, monotonic_ns, monotonic_ns + kEpochNs, uncertainty_ns, 0});
  header_.clock_pair_count = pairs_.size();
  return *this;
}

RingBuilder::Layout RingBuilder::Plan() const {
  const uint64_t lanes = lanes_.size();
  const uint64_t records = lanes_.empty() ? 0 : lanes * lanes_[0].records.size();
  const uint64_t slots = lanes_.empty() ? 0 : lanes * lanes_[0].slots.size();
  Layout plan{{
                  {static_cast<uint32_t>(Section::kIdentity), sizeof(schema::ProcessIdentity), 0, 1},
                  {static_cast<uint32_t>(Section::kClockPairs), sizeof(schema::ClockPair), 0, kRoomForPairs},
                  {static_cast<uint32_t>(Section::kNames), sizeof(schema::NameEntry), 0, kRoomForNames},
                  {static_cast<uint32_t>(Section::kNameBytes), 1, 0, kRoomForNameBytes},
                  {static_cast<uint32_t>(Section::kComms), sizeof(schema::CommEntry), 0, kRoomForComms},
                  {static_cast<uint32_t>(Section::kLosses), 8, 0, schema::kLossReasonLimit},
                  {static_cast<uint32_t>(Section::kLanes), sizeof(schema::LaneHeader), 0, lanes},
                  {static_cast<uint32_t>(Section::kSlots), sizeof(schema::InFlightSlot), 0, slots},
                  {static_cast<uint32_t>(Section::kTotals), sizeof(schema::TotalCell), 0, lanes * kCellsPerLane},
                  {static_cast<uint32_t>(Section::kRecords), sizeof(schema::EventRecord), 0, records},
                  {static_cast<uint32_t>(Section::kCupti), sizeof(schema::CuptiInfo), 0, cupti_.size()},
                  {static_cast<uint32_t>(Section::kStreams), sizeof(schema::StreamEntry), 0, streams_.size()},
              },
              schema::kHeaderRegionBytes};
  for (schema::SectionEntry& section : plan.sections) {
    section.offset = plan.file_bytes;
    plan.file_bytes += (section.count * section.entry_bytes + 63) / 64 * 64;
  }
  return plan;
}

uint64_t RingBuilder::SectionOffset(Section id) const {
  return Plan().sections[static_cast<uint32_t>(id) - 1].offset;
}

std::vector<uint8_t> RingBuilder::Bytes() const {
  const Layout plan = Plan();
  std::vector<uint8_t> bytes(plan.file_bytes);
  schema::RingHeader header = header_;
  header.file_bytes = plan.file_bytes;
  // Without a GPU source it is a ring of version 1.0.
  header.section_count = cupti_.empty() && streams_.empty() ? 10 : 12;
  std::memcpy(header.sections, plan.sections, sizeof(plan.sections));
  std::memcpy(bytes.data(), &header, sizeof(header));
  const auto put = [&](Section id, uint64_t index, const void* data, size_t size) {
    const schema::SectionEntry& section = plan.sections[static_cast<uint32_t>(id) - 1];
    if (size != 0) std::memcpy(bytes.data() + section.offset + index * section.entry_bytes, data, size);
  };
  put(Section::kIdentity, 0, &identity_, sizeof(identity_));
  put(Section::kClockPairs, 0, pairs_.data(), pairs_.size() * sizeof(schema::ClockPair));
  put(Section::kNames, 0, names_.data(), names_.size() * sizeof(schema::NameEntry));
  put(Section::kNameBytes, 0, name_bytes_.data(), name_bytes_.size());
  put(Section::kComms, 0, comms_.data(), comms_.size() * sizeof(schema::CommEntry));
  put(Section::kLosses, 0, losses_.data(), losses_.size() * 8);
  put(Section::kCupti, 0, cupti_.data(), cupti_.size() * sizeof(schema::CuptiInfo));
  put(Section::kStreams, 0, streams_.data(), streams_.size() * sizeof(schema::StreamEntry));
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const LaneState& lane = lanes_[i];
    put(Section::kLanes, i, &lane.header, sizeof(lane.header));
    put(Section::kSlots, lane.header.first_slot, lane.slots.data(), lane.slots.size() * sizeof(schema::InFlightSlot));
    put(Section::kTotals, i * kCellsPerLane, lane.cells.data(), lane.cells.size() * sizeof(schema::TotalCell));
    put(Section::kRecords, lane.header.first_record, lane.records.data(),
        lane.records.size() * sizeof(schema::EventRecord));
  }
  return bytes;
}

bool RingBuilder::Write(const std::string& path) const {
  const std::vector<uint8_t> bytes = Bytes();
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  return std::fclose(file) == 0 && written;
}

schema::EventRecord CollRecord(uint64_t begin, uint64_t end, uint16_t comm, schema::Function func, uint32_t seq,
                               uint64_t count, schema::DataType dtype, uint64_t op_id) {
  schema::EventRecord record{};
  record.begin_ticks = begin;
  record.end_ticks = end;
  record.kind = static_cast<uint16_t>(schema::EventKind::kColl);
  record.comm = comm;
  record.op_id = op_id;
  record.payload.coll.count = count;
  record.payload.coll.seq = seq;
  record.payload.coll.ordinal = seq;
  record.payload.coll.func = static_cast<uint8_t>(func);
  record.payload.coll.dtype = static_cast<uint8_t>(dtype);
  return record;
}

}  // namespace rankscope::testing
