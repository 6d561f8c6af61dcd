// The records as the three releases write them: C structs with the fields in their order, so that the compiler lays
// them out, apart from the decoder's table of offsets. Fields that no test looks at are there for their room.
#ifndef RANKSCOPE_TESTS_FAKES_CUPTI_FAKE_RECORDS_H_
#define RANKSCOPE_TESTS_FAKES_CUPTI_FAKE_RECORDS_H_

#include <cstdint>

#ifndef FAKE_RELEASE
#error "FAKE_RELEASE is 1108, 1204 or 1300"
#endif

struct FakeKernel {
  uint32_t kind;
  uint8_t cache_config, shared_config;
  uint16_t registers;
  uint32_t partitioned_requested, partitioned_executed;
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid_x, grid_y, grid_z, block_x, block_y, block_z;
  int32_t static_shared, dynamic_shared;
  uint32_t local_per_thread, local_total;
  uint32_t correlation;
  int64_t grid_id;
  const char* name;
  void* reserved0;
  uint64_t queued, submitted;
  uint8_t launch_type, is_shared_requested, shared_carveout, padding;
  uint32_t shared_executed;
  uint64_t graph_node;
  uint32_t shared_limit, graph;
  void* access_policy;
  uint32_t channel, channel_type;
  uint32_t cluster_x, cluster_y, cluster_z, cluster_scheduling;
  uint64_t local_total_v2;
#if FAKE_RELEASE >= 1204
  uint32_t most_cluster_size, most_clusters;
#endif
#if FAKE_RELEASE >= 1300
  uint8_t device_launched, padding2[7];
#endif
};
static_assert(sizeof(FakeKernel) == (FAKE_RELEASE == 1108 ? 200 : FAKE_RELEASE == 1204 ? 208 : 216));

struct FakeMemcpy {
  uint32_t kind;
  uint8_t copy_kind, source_kind, destination_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation, runtime_correlation, padding;
  void* reserved0;
  uint64_t graph_node;
  uint32_t graph, channel, channel_type, padding2;
#if FAKE_RELEASE >= 1300
  uint64_t copy_count;
#endif
};
static_assert(sizeof(FakeMemcpy) == (FAKE_RELEASE >= 1300 ? 96 : 88));

struct FakePeerCopy {
  uint32_t kind;
  uint8_t copy_kind, source_kind, destination_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, source_device, source_context, destination_device, destination_context,
      correlation;
  void* reserved0;
  uint64_t graph_node;
  uint32_t graph, channel, channel_type, padding;
};
static_assert(sizeof(FakePeerCopy) == 96);

struct FakeMemset {
  uint32_t kind, value;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
  uint16_t flags, memory_kind;
  uint32_t padding;
  void* reserved0;
  uint64_t graph_node;
  uint32_t graph, channel, channel_type, padding2;
};
static_assert(sizeof(FakeMemset) == 88);

struct FakeSynchronization {
  uint32_t kind, type;
  uint64_t start, end;
  uint32_t correlation, context, stream, event;
#if FAKE_RELEASE >= 1300
  uint64_t event_sync;
  uint32_t return_value, padding;
#endif
};
static_assert(sizeof(FakeSynchronization) == (FAKE_RELEASE >= 1300 ? 56 : 40));

struct FakeOverhead {
  uint32_t kind, overhead_kind, object_kind, object[3];
  uint64_t start, end;
#if FAKE_RELEASE >= 1204
  uint32_t correlation, padding;
  void* data;
#endif
};
static_assert(sizeof(FakeOverhead) == (FAKE_RELEASE >= 1204 ? 56 : 40));

struct FakeMemory {
  uint32_t kind, operation, memory_kind, correlation;
  uint64_t address, bytes, timestamp, program_counter;
  uint32_t process, device, context, stream;
  const char* name;
  uint32_t is_async, padding;
  uint32_t pool_type, padding2;
  uint64_t pool_address, release_threshold, pool_size, utilized;
#if FAKE_RELEASE >= 1300
  const char* source;
#endif
};
static_assert(sizeof(FakeMemory) == (FAKE_RELEASE >= 1300 ? 128 : 120));

struct FakePool {
  uint32_t kind, operation, type, correlation, process, device;
  uint64_t least_bytes, address, size, release_threshold, timestamp, utilized;
#if FAKE_RELEASE >= 1300
  uint8_t managed, padding[7];
#endif
};
static_assert(sizeof(FakePool) == (FAKE_RELEASE >= 1300 ? 80 : 72));

struct FakeGraphTrace {
  uint32_t kind, correlation;
  uint64_t start, end;
  uint32_t device, graph, context, stream;
  void* reserved;
#if FAKE_RELEASE >= 1204
  uint32_t end_device, end_context;
#endif
};
static_assert(sizeof(FakeGraphTrace) == (FAKE_RELEASE >= 1204 ? 56 : 48));

struct FakeApi {
  uint32_t kind, callback;
  uint64_t start, end;
  uint32_t process, thread, correlation, return_value;
};
static_assert(sizeof(FakeApi) == 40);

// Bytes from a record to the next, by kind; 0 = this release doesn't know the kind (cupti.md 2.2, run on the three
// libraries).
inline uint32_t FakeStride(uint32_t kind) {
  constexpr int kColumn = FAKE_RELEASE == 1108 ? 0 : FAKE_RELEASE == 1204 ? 1 : 2;
  constexpr struct {
    uint32_t kind;
    uint16_t stride[3];
  } kStrides[] = {{1, {88, 88, 96}},  {2, {88, 88, 88}},    {3, {200, 208, 216}}, {4, {40, 40, 40}},
                  {5, {40, 40, 40}},  {8, {176, 184, 184}}, {9, {16, 24, 32}},    {10, {200, 208, 216}},
                  {11, {32, 32, 32}}, {12, {56, 56, 56}},   {13, {32, 32, 40}},   {17, {40, 56, 56}},
                  {22, {96, 96, 96}}, {36, {24, 24, 56}},   {37, {24, 24, 24}},   {38, {40, 40, 56}},
                  {39, {24, 24, 24}}, {45, {80, 80, 80}},   {48, {40, 40, 40}},   {49, {120, 120, 128}},
                  {50, {72, 72, 80}}, {51, {48, 56, 56}},   {52, {64, 72, 72}},   {53, {0, 0, 56}},
                  {54, {0, 0, 64}},   {55, {0, 0, 32}}};
  for (const auto& entry : kStrides) {
    if (entry.kind == kind) return entry.stride[kColumn];
  }
  return 0;
}

#endif  // RANKSCOPE_TESTS_FAKES_CUPTI_FAKE_RECORDS_H_
