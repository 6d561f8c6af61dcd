// NCCL's event descriptors as bytes, laid out by the offsets that each release's headers give: written down a second
// time on purpose, and sharing nothing with plugin/, so that an error in one of the two shows.
#ifndef RANKSCOPE_TESTS_FAKES_NCCL_DESCRIPTOR_BYTES_H_
#define RANKSCOPE_TESTS_FAKES_NCCL_DESCRIPTOR_BYTES_H_

#include <cstdint>

namespace rankscope::testing {

enum NcclType : uint64_t {
  kNcclGroup = 0x1,
  kNcclColl = 0x2,
  kNcclP2p = 0x4,
  kNcclProxyOp = 0x8,
  kNcclProxyStep = 0x10,
  kNcclProxyCtrl = 0x20,
  kNcclKernelCh = 0x40,
  kNcclNetPlugin = 0x80,
  kNcclGroupApi = 0x100,
  kNcclCollApi = 0x200,
  kNcclP2pApi = 0x400,
  kNcclKernelLaunch = 0x800,
  kNcclCeColl = 0x1000,
  kNcclCeSync = 0x2000,
  kNcclCeBatch = 0x4000,
  kNcclKernelPhase = 0x8000,
};

// Everything that some version's descriptor can say. Numbers of v1 stand beside the strings of the later versions.
struct EventFields {
  uint64_t type = 0;
  uint64_t parent = 0;
  int32_t rank = 0;
  const char *func = nullptr, *datatype = nullptr, *algo = nullptr, *proto = nullptr, *name = nullptr;
  uint8_t func_number = 0, datatype_number = 0, algo_number = 0, proto_number = 0;
  uint64_t comm_hash = 0, seq = 0, count = 0, stream = 0, buffer = 0, parent_group = 0, gpu_time = 0, total_bytes = 0;
  int32_t root = 0, peer = 0, pid = 0, steps = 0, chunk_bytes = 0, is_send = 0, step = 0, group_depth = 0, ranks = 0,
          ops = 0;
  uint8_t channel = 0, channels = 0, warps = 0, phase = 0;
  bool captured = false, symmetric = false, complete = false;
  int64_t net_id = 0;
  const void* net_data = nullptr;
};

inline constexpr int kDescriptorRoom = 136;  // the largest version's size
int DescriptorSize(int version);

// Fills `bytes` (kDescriptorRoom of them, already poisoned by the caller: only the fields of the version are
// written).
void FillDescriptor(int version, const EventFields& fields, uint8_t* bytes);

}  // namespace rankscope::testing

#endif  // RANKSCOPE_TESTS_FAKES_NCCL_DESCRIPTOR_BYTES_H_
