// See ring_reader.h.
#include "analysis/recording/ring_reader.h"

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analysis/recording/clean_text.h"

namespace rankscope::analysis {

namespace {

using schema::Section;

constexpr uint64_t kLargestName = 4096;

template <size_t N>
std::string Field(const char (&field)[N]) {
  return CleanText(absl::string_view(field, N));
}

std::string ThisBoot() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(in, id);
  return id;
}

// Field 22 of /proc/<pid>/stat, 0 if there is no such process.
uint64_t ProcessStartTicks(uint32_t pid) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  if (!std::getline(in, line)) return 0;
  // The name in parentheses may hold anything, spaces too.
  const size_t end_of_name = line.rfind(')');
  if (end_of_name == std::string::npos) return 0;
  std::istringstream rest(line.substr(end_of_name + 1));
  std::string word;
  for (int field = 3; field <= 22; ++field) {
    if (!(rest >> word)) return 0;
  }
  uint64_t ticks = 0;
  std::istringstream(word) >> ticks;
  return ticks;
}

int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RingFile>> RingFile::Open(const std::string& path) {
  absl::StatusOr<std::unique_ptr<MappedFile>> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  absl::StatusOr<RingLayout> layout = RingLayout::Check((*file)->data(), (*file)->size(), path);
  if (!layout.ok()) return layout.status();
  std::unique_ptr<RingFile> ring(new RingFile(*std::move(file), *layout));
  ring->info_.ring_path = CleanText(path);
  ring->info_.ring_bytes = ring->file_->size();
  ring->info_.read_ns = NowNs();
  ring->ReadIdentity();
  ring->ReadClockPairs();
  ring->ReadNames();
  ring->ReadLosses();
  ring->ReadLanes();
  ring->ReadTotals();
  return ring;
}

void RingFile::SetClock(int64_t epoch_minus_monotonic_ns) {
  const auto identity = layout_.Entry<schema::ProcessIdentity>(Section::kIdentity, 0);
  ClockDescription description;
  description.tick_source = layout_.header().tick_source;
  description.ticks_per_second = layout_.header().ticks_per_second;
  description.start_ticks = layout_.header().start_ticks;
  description.start_realtime_ns = identity.start_realtime_ns;
  clock_ = TickClock::Fit(description, samples_, epoch_minus_monotonic_ns);
  info_.start_ns = clock_.ToEpochNs(description.start_ticks);
  info_.ticks_per_second = clock_.ticks_per_second();
  info_.tick_source = description.tick_source;
  info_.clock_residual_ns = clock_.residual_ns() + static_cast<double>(clock_.uncertainty_ns());
  for (TotalInfo& total : info_.totals) {
    // The cells hold ticks until here.
    total.duration_ns = clock_.LengthNs(static_cast<uint64_t>(total.duration_ns));
    total.duration_max_ns = clock_.LengthNs(static_cast<uint64_t>(total.duration_max_ns));
  }
  ReadComms();
  ReadSlots();
  ReadCupti();
  ReadStreams();
  for (const LaneWindow& lane : lanes_) {
    schema::EventRecord record;
    for (uint64_t i = lane.last; i > lane.first; --i) {
      if (!TakeRecord(lane, i - 1, &record)) continue;
      info_.last_event_ns = std::max(info_.last_event_ns, clock_.ToEpochNs(record.end_ticks));
      break;
    }
  }
}

void RingFile::ReadIdentity() {
  const auto id = layout_.Entry<schema::ProcessIdentity>(Section::kIdentity, 0);
  const schema::RingHeader& header = layout_.header();
  info_.rank = id.rank;
  info_.world_size = id.world_size;
  info_.local_rank = id.local_rank;
  info_.local_world_size = id.local_world_size;
  info_.rank_source = id.rank_source;
  info_.env_rank = id.env_rank;
  info_.env_world_size = id.env_world_size;
  info_.node_rank = id.node_rank;
  info_.restart_count = id.restart_count;
  info_.device = id.device;
  info_.pid = id.pid;
  info_.host = Field(id.host);
  info_.boot_id = Field(id.boot_id);
  info_.job = Field(id.job);
  info_.launcher = Field(id.launcher);
  info_.run_id = Field(id.run_id);
  info_.device_uuid = Field(id.device_uuid);
  info_.command = Field(id.command);
  info_.library_version = Field(id.library_version);
  info_.nccl_version = id.nccl_version;
  info_.nccl_api_version = id.nccl_api_version;
  info_.event_mask = header.event_mask;
  info_.record_kinds = uint64_t{header.record_kinds_hi} << 32 | header.record_kinds_lo;
  info_.doors = header.doors;
  info_.pair_cost_ns = header.pair_cost_ps / 1000.0;
  info_.closed = header.state == static_cast<uint32_t>(schema::RingState::kClosed);
  const uint64_t started = ProcessStartTicks(id.pid);
  info_.alive = started != 0 && started == id.process_start_ticks && ThisBoot() == info_.boot_id;
}

void RingFile::ReadClockPairs() {
  const uint64_t capacity = layout_.Count(Section::kClockPairs);
  for (uint64_t i = 0; i < capacity; ++i) {
    const auto before = LoadWordAcquire(layout_.EntryAt(Section::kClockPairs, i));
    const auto pair = layout_.Entry<schema::ClockPair>(Section::kClockPairs, i);
    if (before == 0 || pair.commit != before) continue;
#if !defined(__SANITIZE_THREAD__)
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
    if (LoadWord(layout_.EntryAt(Section::kClockPairs, i)) != before) continue;
    samples_.push_back({pair.ticks, pair.monotonic_ns, pair.realtime_ns, pair.uncertainty_ns});
  }
}

void RingFile::ReadNames() {
  const uint64_t used = std::min<uint64_t>(layout_.header().name_count, layout_.Count(Section::kNames));
  const uint64_t room = layout_.Count(Section::kNameBytes);
  info_.names.reserve(used);
  for (uint64_t i = 0; i < used; ++i) {
    const auto entry = layout_.Entry<schema::NameEntry>(Section::kNames, i);
    std::string name;
    if (entry.bytes <= kLargestName && entry.offset <= room && entry.bytes <= room - entry.offset &&
        entry.bytes != 0) {
      const auto* text = reinterpret_cast<const char*>(layout_.EntryAt(Section::kNameBytes, entry.offset));
      name = CleanText(absl::string_view(text, entry.bytes));
    }
    info_.names.push_back(std::move(name));
  }
}

std::string RingFile::NameOf(uint32_t id) const {
  return id >= 1 && id <= info_.names.size() ? info_.names[id - 1] : std::string();
}

void RingFile::ReadComms() {
  const uint64_t used = std::min<uint64_t>(layout_.FreshHeader().comm_count, layout_.Count(Section::kComms));
  for (uint64_t i = 0; i < used; ++i) {
    const auto entry = layout_.Entry<schema::CommEntry>(Section::kComms, i);
    if (entry.commit != i + 1) continue;
    CommInfo comm;
    comm.slot = static_cast<uint16_t>(i);
    comm.hash = entry.hash;
    comm.rank = entry.rank;
    comm.ranks = entry.ranks;
    comm.nodes = entry.nodes;
    comm.flags = entry.flags;
    comm.name = NameOf(entry.name);
    comm.api_version = entry.api_version;
    comm.init_ns = clock_.ToEpochNs(entry.init_ticks);
    comm.finalize_ns = clock_.ToEpochNs(entry.finalize_ticks);
    std::copy(std::begin(entry.launched_by_func), std::end(entry.launched_by_func), comm.launched_by_func.begin());
    std::copy(std::begin(entry.api_by_func), std::end(entry.api_by_func), comm.api_by_func.begin());
    std::copy(std::begin(entry.last_seq_by_func), std::end(entry.last_seq_by_func), comm.last_seq_by_func.begin());
    info_.comms.push_back(std::move(comm));
  }
}

void RingFile::ReadLosses() {
  const uint64_t count = std::min<uint64_t>(layout_.Count(Section::kLosses), schema::kLossReasonLimit);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t lost = LoadWord(layout_.EntryAt(Section::kLosses, i));
    if (lost != 0) info_.losses.push_back({static_cast<uint32_t>(i), lost});
  }
}

void RingFile::ReadLanes() {
  std::vector<KindCountInfo> kinds(schema::kEventKindLimit);
  const uint64_t records = layout_.Count(Section::kRecords);
  const uint64_t lane_count = std::min<uint64_t>(layout_.Count(Section::kLanes), 1024);
  for (uint64_t i = 0; i < lane_count; ++i) {
    const auto lane = layout_.Entry<schema::LaneHeader>(Section::kLanes, i);
    for (int kind = 0; kind < schema::kEventKindLimit; ++kind) {
      kinds[kind].committed += lane.committed_by_kind[kind];
      kinds[kind].dropped += lane.dropped_by_kind[kind];
    }
    const uint64_t tenants = std::min<uint64_t>(lane.tenant_count, schema::kLaneTenants);
    for (uint64_t t = 0; t < tenants; ++t) {
      info_.threads.push_back(
          {static_cast<uint16_t>(i), lane.tenants[t].thread_id, NameOf(lane.tenants[t].name), lane.pthread_low[t]});
    }
    const bool power_of_two = lane.record_count != 0 && (lane.record_count & (lane.record_count - 1)) == 0;
    if (!power_of_two || lane.first_record > records || lane.record_count > records - lane.first_record) continue;
    if (lane.head == 0) continue;
    LaneWindow window;
    window.lane = static_cast<uint16_t>(i);
    window.records = layout_.EntryAt(Section::kRecords, lane.first_record);
    window.entry_bytes = layout_.EntryBytes(Section::kRecords);
    window.count = lane.record_count;
    window.last = lane.head;
    window.first = lane.head > lane.record_count ? lane.head - lane.record_count : 0;
    for (uint64_t index = window.first; index < window.last; ++index) {
      const int kind = PeekKind(window, index);
      if (kind < 0) {
        info_.torn_records++;
      } else if (kind < schema::kEventKindLimit) {
        kinds[static_cast<size_t>(kind)].read++;
        window.has_gpu_records |= kind >= static_cast<int>(schema::EventKind::kGpuKernel) &&
                                  kind < static_cast<int>(schema::EventKind::kRange);
      }
    }
    lanes_.push_back(window);
  }
  for (int kind = 0; kind < schema::kEventKindLimit; ++kind) {
    KindCountInfo& count = kinds[kind];
    if (count.committed == 0 && count.dropped == 0 && count.read == 0) continue;
    count.kind = static_cast<uint16_t>(kind);
    count.overwritten = count.committed > count.read ? count.committed - count.read : 0;
    info_.kinds.push_back(count);
  }
}

void RingFile::ReadTotals() {
  std::map<uint32_t, TotalInfo> totals;  // by key
  for (uint64_t i = 0; i < layout_.Count(Section::kTotals); ++i) {
    const auto cell = layout_.Entry<schema::TotalCell>(Section::kTotals, i);
    if ((cell.key & schema::kTotalCellUsed) == 0) continue;
    TotalInfo& total = totals[cell.key];
    total.func = static_cast<uint8_t>(cell.key >> 8);
    total.size_class = static_cast<uint8_t>(cell.key);
    total.api_calls += cell.api_calls;
    total.launched += cell.launched;
    total.bytes += cell.bytes;
    total.completed += cell.completed;
    total.duration_ns = static_cast<int64_t>(static_cast<uint64_t>(total.duration_ns) + cell.duration_ticks);
    total.duration_max_ns = std::max(
        total.duration_max_ns, static_cast<int64_t>(std::min<uint64_t>(cell.duration_max_ticks, uint64_t{1} << 62)));
    for (int b = 0; b < schema::kDurationBuckets; ++b) total.histogram[b] += cell.duration_histogram[b];
  }
  for (auto& [key, total] : totals) info_.totals.push_back(total);
}

void RingFile::ReadSlots() {
  constexpr uint64_t kMostSlots = 1 << 22;
  const uint64_t count = std::min(layout_.Count(Section::kSlots), kMostSlots);
  for (uint64_t i = 0; i < count; ++i) {
    const uint8_t* at = layout_.EntryAt(Section::kSlots, i);
    const uint64_t tag = LoadWordAcquire(at);
    const auto kind = static_cast<uint16_t>((tag >> 8) & 0xff);
    if (tag == 0 || kind == 0 || kind >= schema::kEventKindLimit) continue;
    const auto slot = layout_.Entry<schema::InFlightSlot>(Section::kSlots, i);
#if !defined(__SANITIZE_THREAD__)
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
    // The state byte may change while we read; generation, lane and kind may not.
    if ((LoadWord(at) ^ tag) & ~uint64_t{0xff}) continue;
    InFlightInfo info;
    info.kind = kind;
    info.state = static_cast<uint8_t>(slot.tag);
    const bool open = (info.state & (schema::kSlotOpen | schema::kSlotApiOpen)) != 0;
    const bool operation = (info.state & schema::kSlotIsOperation) != 0;
    if (slot.children_started != 0 && slot.children_started == slot.children_stopped)
      info.state |= schema::kSlotComplete;
    // What is over and done is in the records; a slot that nobody needed again is no news.
    const bool unfinished = slot.children_started != slot.children_stopped;
    if (!open && !unfinished) continue;
    if (!operation && !open) continue;
    info.comm = slot.comm;
    info.func = slot.func;
    info.dtype = slot.dtype;
    info.algo = slot.algo;
    info.proto = slot.proto;
    info.root_or_peer = slot.root_or_peer;
    info.count = slot.count;
    info.seq = slot.seq;
    info.ordinal = slot.ordinal;
    info.api_ordinal = slot.api_ordinal;
    info.flags = slot.flags;
    info.aux = slot.aux;
    info.op_id = slot.op_id;
    info.issue_ns = clock_.ToEpochNs(slot.issue_ticks);
    info.begin_ns = clock_.ToEpochNs(slot.begin_ticks);
    info.end_ns = clock_.ToEpochNs(slot.end_ticks);
    info.last_progress_ns = clock_.ToEpochNs(slot.last_progress_ticks);
    info.children_started = slot.children_started;
    info.children_stopped = slot.children_stopped;
    info.thread_id = slot.thread_id;
    info_.in_flight.push_back(info);
  }
}

void RingFile::ReadCupti() {
  const auto cupti = layout_.Entry<schema::CuptiInfo>(Section::kCupti, 0);
  CuptiSourceInfo& info = info_.cupti;
  info.state = cupti.state;
  info.api_version = cupti.api_version;
  info.result = cupti.result;
  info.clock = cupti.clock;
  info.clock_error_ns = cupti.clock_error_ns;
  info.enabled_kinds = cupti.enabled_kinds;
  info.missing_calls = cupti.missing_calls;
  info.armed_ns = clock_.ToEpochNs(cupti.armed_ticks);
  info.arm_cost_ns = cupti.arm_cost_ns;
  info.records = cupti.records;
  info.buffers_lent = cupti.buffers_lent;
  info.buffers_returned = cupti.buffers_returned;
  info.flushes = cupti.flushes;
  info.blind_since_ns = clock_.ToEpochNs(cupti.blind_since_ticks);
  info.blind_ns = cupti.blind_ns;
  info.resumes = cupti.resumes;
  info.buffer_bytes = cupti.buffer_bytes;
  info.buffer_count = cupti.buffer_count;
  info.device_buffer_bytes = cupti.device_buffer_bytes;
  info.device_buffer_limit = cupti.device_buffer_limit;
  info.device_buffer_preallocated = cupti.device_buffer_preallocated;
  info.per_thread_buffers = cupti.per_thread_buffers;
  if (cupti.state != 0) info.strides.assign(std::begin(cupti.stride), std::end(cupti.stride));
  info.library = Field(cupti.library);
  info.holder = Field(cupti.holder);
  info.failing_call = Field(cupti.failing_call);
}

void RingFile::ReadStreams() {
  constexpr uint64_t kMostStreams = 1 << 16;
  const uint64_t count = std::min(layout_.Count(Section::kStreams), kMostStreams);
  for (uint64_t i = 0; i < count; ++i) {
    const auto entry = layout_.Entry<schema::StreamEntry>(Section::kStreams, i);
    if (entry.commit == i + 1) info_.streams.push_back({entry.handle, entry.stream_id, entry.context_id});
  }
}

}  // namespace rankscope::analysis
