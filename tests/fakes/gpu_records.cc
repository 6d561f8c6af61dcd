// See gpu_records.h.
#include "tests/fakes/gpu_records.h"

namespace rankscope::testing {

using schema::EventKind;
using schema::EventRecord;

EventRecord PlainRecord(EventKind kind, uint64_t begin, uint64_t end) {
  EventRecord record{};
  record.begin_ticks = begin;
  record.end_ticks = end;
  record.kind = static_cast<uint16_t>(kind);
  record.comm = schema::kCommUnknown;
  return record;
}

EventRecord LaunchRecord(uint64_t begin, uint64_t end, uint64_t stream_handle) {
  EventRecord record = PlainRecord(EventKind::kKernelLaunch, begin, end);
  record.payload.launch.stream = stream_handle;
  return record;
}

EventRecord KernelRecord(uint64_t begin, uint64_t end, uint32_t name, uint32_t correlation, uint32_t stream,
                         bool nccl, uint16_t context) {
  EventRecord record = PlainRecord(EventKind::kGpuKernel, begin, end);
  record.aux = static_cast<uint16_t>(nccl ? schema::GpuKernelClass::kNccl : schema::GpuKernelClass::kOther);
  record.payload.kernel = {name, correlation, stream, 0, context, 8, 256};
  return record;
}

EventRecord SyncRecord(uint64_t begin, uint64_t end, uint16_t type, uint32_t correlation, uint32_t stream,
                       uint16_t context) {
  EventRecord record = PlainRecord(EventKind::kGpuSync, begin, end);
  record.aux = type;
  record.payload.kernel = {0, correlation, stream, 0xffff, context, 0, 0};
  return record;
}

EventRecord CopyRecord(uint64_t begin, uint64_t end, uint64_t bytes, uint8_t copy_kind, uint8_t source,
                       uint8_t destination) {
  EventRecord record = PlainRecord(EventKind::kGpuMemcpy, begin, end);
  record.aux = 1;
  record.payload.copy = {bytes, 0, 7, 0, 0, copy_kind, source, destination, 0};
  return record;
}

EventRecord MemoryRecord(uint64_t at, bool taken, uint64_t address, uint64_t bytes) {
  EventRecord record = PlainRecord(EventKind::kGpuMemory, at, at);
  record.aux = taken ? 1 : 2;
  record.op_id = address;
  constexpr uint8_t kDevice = 3;
  record.payload.copy = {bytes, 0, 0, 0, 0, 0, 0, kDevice, 0};
  return record;
}

EventRecord RangeRecord(uint64_t begin, uint64_t end, uint32_t name, uint32_t domain, schema::Phase hook_phase) {
  EventRecord record = PlainRecord(EventKind::kRange, begin, end);
  record.payload.range.name = name;
  record.payload.range.domain = domain;
  if (hook_phase != schema::Phase::kUnknown) {
    record.aux = static_cast<uint16_t>(schema::RangeForm::kHook);
    record.payload.range.phase = static_cast<uint8_t>(hook_phase);
    record.payload.range.phase_source = static_cast<uint8_t>(schema::PhaseSource::kHook);
  }
  return record;
}

EventRecord FileRecord(uint64_t begin, uint64_t end, uint32_t path_class, schema::FileOperation operation,
                       uint64_t bytes, uint32_t calls) {
  EventRecord record = PlainRecord(EventKind::kFileIo, begin, end);
  record.aux = static_cast<uint16_t>(operation);
  record.payload.file_io = {bytes, path_class, calls, static_cast<uint8_t>(operation), {}};
  return record;
}

EventRecord SampleRecord(uint64_t at, uint64_t cpu_ns, uint64_t resident_bytes) {
  EventRecord record = PlainRecord(EventKind::kHostSample, at, at);
  record.payload.host = {cpu_ns, resident_bytes, 0};
  return record;
}

}  // namespace rankscope::testing
