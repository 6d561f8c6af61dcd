// NCCL's profiler interface as bytes: the descriptors, arguments and tables of API versions 1 to 7, declared by us.
//
// No NCCL release installs a header of this interface, so each version's layout stands here, taken from the table of
// its release and pinned by a static_assert a field. Fields that mean the same have the same name in every version.
// Nothing here runs; tables.cc alone uses it. Must never: change after a release of NCCL has shipped the version.
#ifndef RANKSCOPE_PLUGIN_NCCL_PROFILER_ABI_H_
#define RANKSCOPE_PLUGIN_NCCL_PROFILER_ABI_H_

#include <cstddef>
#include <cstdint>

namespace rankscope::plugin::abi {

inline constexpr int kNewestVersion = 7;

// Event types: one bit each, the same in all versions that have the type.
inline constexpr uint64_t kGroup = 0x1;
inline constexpr uint64_t kColl = 0x2;
inline constexpr uint64_t kP2p = 0x4;
inline constexpr uint64_t kProxyOp = 0x8;
inline constexpr uint64_t kProxyStep = 0x10;
inline constexpr uint64_t kProxyCtrl = 0x20;
inline constexpr uint64_t kKernelCh = 0x40;       // v3
inline constexpr uint64_t kNetPlugin = 0x80;      // v3
inline constexpr uint64_t kGroupApi = 0x100;      // v5
inline constexpr uint64_t kCollApi = 0x200;       // v5
inline constexpr uint64_t kP2pApi = 0x400;        // v5
inline constexpr uint64_t kKernelLaunch = 0x800;  // v5
inline constexpr uint64_t kCeColl = 0x1000;       // v6
inline constexpr uint64_t kCeSync = 0x2000;       // v6
inline constexpr uint64_t kCeBatch = 0x4000;      // v6
inline constexpr uint64_t kKernelPhase = 0x8000;  // v7

// Event states. The numbers never changed between versions.
enum EventState : int {
  kProxyOpFirstState = 0,
  kProxyOpLastState = 7,
  kProxyStepSendGpuWait = 8,
  kProxyStepSendWait = 9,
  kProxyStepRecvWait = 10,
  kProxyStepRecvFlushWait = 11,
  kProxyStepRecvGpuWait = 12,
  kProxyCtrlIdle = 13,
  kProxyCtrlAppendEnd = 18,
  kProxyOpInProgress = 19,
  kProxyStepSendPeerWait = 20,
  kNetPluginUpdate = 21,
  kKernelChStop = 22,
  kGroupStartApiStop = 23,
  kGroupEndApiStart = 24,
  kCeFirstState = 25,
  kCeLastState = 30,
  kKernelPhaseStop = 31,
};

// ---- what is laid out alike in every version that has it; each begins at the union's offset, 24
struct ProxyOpFields {
  int32_t pid;
  uint8_t channel_id;
  int32_t peer;
  int32_t n_steps;
  int32_t chunk_size;
  int32_t is_send;
};
struct ProxyStepFields {
  int32_t step;
};
struct KernelChFieldsV3 {
  uint8_t channel_id;
};
struct KernelChFields {  // v4 on
  uint8_t channel_id;
  uint64_t p_timer;
};
struct NetPluginFields {
  int64_t id;
  const void* data;
};
struct GroupApiFields {
  bool graph_captured;
  int32_t group_depth;
};
struct CollApiFields {
  const char* func;
  uint64_t count;
  const char* datatype;
  int32_t root;
  const void* stream;
  bool graph_captured;
};
struct CollApiFieldsV7 {
  const char* func;
  uint64_t count;
  const char* datatype;
  int32_t root;
  const void* stream;
  bool graph_captured;
  uint64_t user_tag;
};
struct P2pApiFields {
  const char* func;
  uint64_t count;
  const char* datatype;
  const void* stream;
  bool graph_captured;
};
struct P2pApiFieldsV7 {
  const char* func;
  uint64_t count;
  const char* datatype;
  const void* stream;
  bool graph_captured;
  uint64_t user_tag;
};
struct KernelLaunchFields {
  const void* stream;
};
struct CeCollFields {
  uint64_t seq_number;
  const char* func;
  const void* send_buff;
  const void* recv_buff;
  uint64_t count;
  int32_t root;
  const char* datatype;
  const char* sync_strategy;
  bool intra_batch_sync;
  uint32_t batch_size;
  uint32_t num_batches;
  uint32_t ce_seq_num;
  const void* stream;
};
struct CeCollFieldsV7 {
  uint64_t seq_number;
  const char* func;
  const void* send_buff;
  const void* recv_buff;
  uint64_t count;
  int32_t root;
  const char* datatype;
  const char* sync_strategy;
  bool intra_batch_sync;
  uint32_t batch_size;
  uint32_t num_batches;
  uint32_t ce_seq_num;
  const void* stream;
  uint64_t user_tag;
};
struct CeSyncFields {
  bool is_complete;
  int32_t n_ranks;
};
struct CeBatchFields {
  int32_t num_ops;
  uint64_t total_bytes;
  bool use_intra_sync;
};
struct KernelPhaseFields {
  uint8_t channel_id;
  uint8_t phase_id;
  const char* phase_name;
  uint64_t p_timer;
};

// ---- collectives and point-to-point, by version
struct CollFieldsV1 {
  const char* name;
  uint64_t comm_hash;
  uint64_t seq_number;
  uint8_t func;
  const void* send_buff;
  const void* recv_buff;
  uint64_t count;
  int32_t root;
  uint8_t datatype;
  uint32_t op;
  uint64_t traffic_bytes;
  uint8_t n_max_channels;
  uint8_t n_warps;
  uint8_t algo;
  uint8_t proto;
  int32_t is_collnet;
  int32_t is_nvls;
};
struct CollFieldsV2 {
  const char* name;
  uint64_t comm_hash;
  uint64_t seq_number;
  const char* func;
  const void* send_buff;
  const void* recv_buff;
  uint64_t count;
  int32_t root;
  const char* datatype;
  uint64_t traffic_bytes;
  uint8_t n_max_channels;
  uint8_t n_warps;
  const char* algo;
  const char* proto;
};
struct CollFieldsV3 {
  const char* name;
  uint64_t comm_hash;
  uint64_t seq_number;
  const char* func;
  const void* send_buff;
  const void* recv_buff;
  uint64_t count;
  int32_t root;
  const char* datatype;
  uint8_t n_max_channels;
  uint8_t n_warps;
  const char* algo;
  const char* proto;
};
struct CollFieldsV4 {
  uint64_t seq_number;
  const char* func;
  const void* send_buff;
  const void* recv_buff;
  uint64_t count;
  int32_t root;
  const char* datatype;
  uint8_t n_channels;
  uint8_t n_warps;
  const char* algo;
  const char* proto;
};
struct CollFieldsV5 {
  uint64_t seq_number;
  const char* func;
  const void* send_buff;
  const void* recv_buff;
  uint64_t count;
  int32_t root;
  const char* datatype;
  uint8_t n_channels;
  uint8_t n_warps;
  const char* algo;
  const char* proto;
  const void* parent_group;
};
struct CollFieldsV7 {
  uint64_t seq_number;
  const char* func;
  const void* send_buff;
  const void* recv_buff;
  uint64_t count;
  int32_t root;
  const char* datatype;
  uint8_t n_channels;
  uint8_t n_warps;
  const char* algo;
  const char* proto;
  const void* parent_group;
  const char* kernel_variant;
  bool is_sym_coll;
  uint64_t user_tag;
};
struct P2pFieldsV1 {
  const char* name;
  uint64_t comm_hash;
  uint8_t func;
  const void* buff;
  uint8_t datatype;
  uint64_t count;
  int32_t peer;
};
struct P2pFieldsV2 {
  const char* name;
  uint64_t comm_hash;
  const char* func;
  const void* buff;
  const char* datatype;
  uint64_t count;
  int32_t peer;
};
struct P2pFieldsV4 {
  const char* func;
  const void* buff;
  const char* datatype;
  uint64_t count;
  int32_t peer;
  uint8_t n_channels;
};
struct P2pFieldsV5 {
  const char* func;
  const void* buff;
  const char* datatype;
  uint64_t count;
  int32_t peer;
  uint8_t n_channels;
  const void* parent_group;
};
struct P2pFieldsV7 {
  const char* func;
  const void* buff;
  const char* datatype;
  uint64_t count;
  int32_t peer;
  uint8_t n_channels;
  const void* parent_group;
  uint64_t user_tag;
};

// ---- the descriptors. `type` is one byte up to v4 (the rest of its word is padding) and eight from v5 on.
struct DescriptorV1 {
  uint8_t type;
  const void* parent_obj;
  int32_t rank;
  union {
    CollFieldsV1 coll;
    P2pFieldsV1 p2p;
    ProxyOpFields proxy_op;
    ProxyStepFields proxy_step;
  };
};
struct DescriptorV2 {
  uint8_t type;
  const void* parent_obj;
  int32_t rank;
  union {
    CollFieldsV2 coll;
    P2pFieldsV2 p2p;
    ProxyOpFields proxy_op;
    ProxyStepFields proxy_step;
  };
};
struct DescriptorV3 {
  uint8_t type;
  const void* parent_obj;
  int32_t rank;
  union {
    CollFieldsV3 coll;
    P2pFieldsV2 p2p;
    ProxyOpFields proxy_op;
    ProxyStepFields proxy_step;
    KernelChFieldsV3 kernel_ch;
    NetPluginFields net_plugin;
  };
};
struct DescriptorV4 {
  uint8_t type;
  const void* parent_obj;
  int32_t rank;
  union {
    CollFieldsV4 coll;
    P2pFieldsV4 p2p;
    ProxyOpFields proxy_op;
    ProxyStepFields proxy_step;
    KernelChFields kernel_ch;
    NetPluginFields net_plugin;
  };
};
struct DescriptorV5 {
  uint64_t type;
  const void* parent_obj;
  int32_t rank;
  union {
    CollFieldsV5 coll;
    P2pFieldsV5 p2p;
    ProxyOpFields proxy_op;
    ProxyStepFields proxy_step;
    KernelChFields kernel_ch;
    NetPluginFields net_plugin;
    GroupApiFields group_api;
    CollApiFields coll_api;
    P2pApiFields p2p_api;
    KernelLaunchFields kernel_launch;
  };
};
struct DescriptorV6 {
  uint64_t type;
  const void* parent_obj;
  int32_t rank;
  union {
    CollFieldsV5 coll;
    P2pFieldsV5 p2p;
    ProxyOpFields proxy_op;
    ProxyStepFields proxy_step;
    KernelChFields kernel_ch;
    NetPluginFields net_plugin;
    GroupApiFields group_api;
    CollApiFields coll_api;
    P2pApiFields p2p_api;
    KernelLaunchFields kernel_launch;
    CeCollFields ce_coll;
    CeSyncFields ce_sync;
    CeBatchFields ce_batch;
  };
};
struct DescriptorV7 {
  uint64_t type;
  const void* parent_obj;
  int32_t rank;
  union {
    CollFieldsV7 coll;
    P2pFieldsV7 p2p;
    ProxyOpFields proxy_op;
    ProxyStepFields proxy_step;
    KernelChFields kernel_ch;
    NetPluginFields net_plugin;
    GroupApiFields group_api;
    CollApiFieldsV7 coll_api;
    P2pApiFieldsV7 p2p_api;
    KernelLaunchFields kernel_launch;
    CeCollFieldsV7 ce_coll;
    CeSyncFields ce_sync;
    CeBatchFields ce_batch;
    KernelPhaseFields kernel_phase;
  };
};

// ---- arguments of recordEventState; every member begins at 0
struct ProxyOpStateArgs {  // v1..v3
  uint64_t trans_size;
  int32_t steps;
};
struct ProxyStepStateArgs {  // v4 on
  uint64_t trans_size;
};
struct ProxyCtrlStateArgs {
  int32_t appended_proxy_ops;
};
struct NetPluginStateArgs {  // v4 on
  const void* data;
};
struct KernelChStateArgs {  // v4 on
  uint64_t p_timer;
};
union StateArgsV1 {
  ProxyOpStateArgs proxy_op;
  ProxyCtrlStateArgs proxy_ctrl;
};
union StateArgsV4 {
  ProxyStepStateArgs proxy_step;
  ProxyCtrlStateArgs proxy_ctrl;
  NetPluginStateArgs net_plugin;
  KernelChStateArgs kernel_ch;
};

// ---- the tables: a name and five functions. Results are ncclResult_t, an int; 0 is success.
using Logger = void (*)(int level, unsigned long subsystems, const char* file, int line, const char* format, ...);
using InitV1 = int (*)(void** context, int* activation_mask);
using InitV4 = int (*)(void** context, int* activation_mask, const char* comm_name, uint64_t comm_hash, int n_nodes,
                       int n_ranks, int rank, Logger logger);
using InitV5 = int (*)(void** context, uint64_t comm_id, int* activation_mask, const char* comm_name, int n_nodes,
                       int n_ranks, int rank, Logger logger);

template <typename Init, typename Descriptor, typename StateArgs>
struct Table {
  const char* name;
  Init init;
  int (*start_event)(void* context, void** handle, Descriptor* descriptor);
  int (*stop_event)(void* handle);
  int (*record_event_state)(void* handle, int state, StateArgs* args);
  int (*finalize)(void* context);
};

template <int V>
struct Abi;
template <>
struct Abi<1> {
  using Descriptor = DescriptorV1;
  using StateArgs = StateArgsV1;
  using Init = InitV1;
};
template <>
struct Abi<2> {
  using Descriptor = DescriptorV2;
  using StateArgs = StateArgsV1;
  using Init = InitV1;
};
template <>
struct Abi<3> {
  using Descriptor = DescriptorV3;
  using StateArgs = StateArgsV1;
  using Init = InitV1;
};
template <>
struct Abi<4> {
  using Descriptor = DescriptorV4;
  using StateArgs = StateArgsV4;
  using Init = InitV4;
};
template <>
struct Abi<5> {
  using Descriptor = DescriptorV5;
  using StateArgs = StateArgsV4;
  using Init = InitV5;
};
template <>
struct Abi<6> {
  using Descriptor = DescriptorV6;
  using StateArgs = StateArgsV4;
  using Init = InitV5;
};
template <>
struct Abi<7> {
  using Descriptor = DescriptorV7;
  using StateArgs = StateArgsV4;
  using Init = InitV5;
};

template <int V>
using TableOf = Table<typename Abi<V>::Init, typename Abi<V>::Descriptor, typename Abi<V>::StateArgs>;

}  // namespace rankscope::plugin::abi

#include "plugin/nccl_profiler_abi_checks.h"  // IWYU pragma: keep

#endif  // RANKSCOPE_PLUGIN_NCCL_PROFILER_ABI_H_
