// Records of the GPU source, of NCCL's launches and of ranges, with the usual fields set: for rings with planted
// truth (ring_builder.h). Times in ticks.
//
// Tests only; shares nothing with recorder/, cupti/ and shim/ but the contract in schema/.
#ifndef RANKSCOPE_TESTS_FAKES_GPU_RECORDS_H_
#define RANKSCOPE_TESTS_FAKES_GPU_RECORDS_H_

#include <cstdint>

#include "schema/event_abi.h"

namespace rankscope::testing {

schema::EventRecord PlainRecord(schema::EventKind kind, uint64_t begin, uint64_t end);
schema::EventRecord LaunchRecord(uint64_t begin, uint64_t end, uint64_t stream_handle);
schema::EventRecord KernelRecord(uint64_t begin, uint64_t end, uint32_t name, uint32_t correlation, uint32_t stream,
                                 bool nccl, uint16_t context = 1);
// type: CUPTI's (1 event, 3 stream, 4 context).
schema::EventRecord SyncRecord(uint64_t begin, uint64_t end, uint16_t type, uint32_t correlation, uint32_t stream,
                               uint16_t context = 1);
// copy_kind: CUPTI's (1 host to device); memory kinds likewise (2 pinned, 3 device).
schema::EventRecord CopyRecord(uint64_t begin, uint64_t end, uint64_t bytes, uint8_t copy_kind, uint8_t source,
                               uint8_t destination);
schema::EventRecord MemoryRecord(uint64_t at, bool taken, uint64_t address, uint64_t bytes);
schema::EventRecord RangeRecord(uint64_t begin, uint64_t end, uint32_t name, uint32_t domain = 0,
                                schema::Phase hook_phase = schema::Phase::kUnknown);
schema::EventRecord FileRecord(uint64_t begin, uint64_t end, uint32_t path_class, schema::FileOperation operation,
                               uint64_t bytes, uint32_t calls);
schema::EventRecord SampleRecord(uint64_t at, uint64_t cpu_ns, uint64_t resident_bytes);

}  // namespace rankscope::testing

#endif  // RANKSCOPE_TESTS_FAKES_GPU_RECORDS_H_
