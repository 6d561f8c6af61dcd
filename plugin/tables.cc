// The seven tables that NCCL looks for, ncclProfiler_v1 to _v7, and the decoding of their descriptors.
//
// One template serves all versions: a field that a version lacks is left at its default. Called on NCCL's launching,
// proxy, CUDA callback and network threads, several at once; init and finalize on any thread. Must never: return an
// error (each release of NCCL handles one wrongly in its own way), leave *handle unwritten, keep a pointer of NCCL's
// beyond the call, or follow a context or parent: they may be another process's.
#include "plugin/communicators.h"
#include "plugin/init.h"
#include "plugin/mapping.h"
#include "plugin/name_memo.h"
#include "plugin/nccl_names.h"
#include "plugin/nccl_profiler_abi.h"
#include "plugin/operation_start.h"
#include "recorder/config.h"
#include "recorder/streams.h"

namespace rankscope::plugin {

namespace {

constexpr int kSuccess = 0;

template <typename Pointer>
uint64_t Number(Pointer pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

// ---------------------------------------------------------------------------------------------------------------
// Decoding, once a version.

// All but the names.
template <int V>
inline __attribute__((always_inline)) OperationStart DecodeCollNumbers(const typename abi::Abi<V>::Descriptor& d) {
  OperationStart out;
  const auto& coll = d.coll;
  out.count = coll.count;
  out.seq = coll.seq_number;
  out.root_or_peer = coll.root;
  uint8_t channels = 0;
  if constexpr (V <= 3) {
    channels = coll.n_max_channels;
  } else {
    channels = coll.n_channels;
  }
  out.aux = static_cast<uint16_t>(channels | coll.n_warps << 8);
  if constexpr (V >= 5) out.parent = Number(d.parent_obj);
  return out;
}

template <int V>
OperationStart DecodeColl(Lane* lane, const typename abi::Abi<V>::Descriptor& d) {
  OperationStart out = DecodeCollNumbers<V>(d);
  const auto& coll = d.coll;
  if constexpr (V == 1) {
    out.names = PackNames(FunctionFromNumber(coll.func), DataTypeFromNumber(coll.datatype),
                          AlgorithmFromNumber(coll.algo), ProtocolFromNumber(coll.proto));
  } else {
    out.names = DecodeNames(&MemoFor(lane, coll.func, coll.proto), coll.func, coll.datatype, coll.algo, coll.proto);
  }
  if constexpr (V >= 7) {
    if (coll.is_sym_coll) {
      // The algorithm's name is then the kernel variant's.
      out.flags = schema::kFlagSymmetric;
      out.names = (out.names & 0xff00ffffu) | static_cast<uint32_t>(schema::Algorithm::kSymmetric) << 16;
    }
  }
  return out;
}

template <int V>
OperationStart DecodeP2p(const typename abi::Abi<V>::Descriptor& d) {
  OperationStart out;
  out.count = d.p2p.count;
  out.root_or_peer = d.p2p.peer;
  if constexpr (V == 1) {
    out.names = PackNames(FunctionFromNumber(d.p2p.func), DataTypeFromNumber(d.p2p.datatype));
  } else {
    out.names = PackNames(FunctionFromName(d.p2p.func), DataTypeFromName(d.p2p.datatype));
  }
  // The adapter of NCCL 2.28+ never fills the channels of the v4 descriptor.
  if constexpr (V == 4) out.aux = P2pChannelsAreGarbage() ? 0 : d.p2p.n_channels;
  if constexpr (V >= 5) {
    out.aux = d.p2p.n_channels;
    out.parent = Number(d.parent_obj);
  }
  return out;
}

template <int V>
OperationStart DecodeCeColl(const typename abi::Abi<V>::Descriptor& d) {
  OperationStart out;
  out.parent = Number(d.parent_obj);
  out.count = d.ce_coll.count;
  out.seq = d.ce_coll.ce_seq_num;
  const char* strategy = d.ce_coll.sync_strategy;  // "MC" multicast, "UC" unicast
  uint8_t strategy_number = 0;
  if (strategy != nullptr && (strategy[0] == 'M' || strategy[0] == 'U') && strategy[1] == 'C') {
    strategy_number = strategy[0] == 'M' ? 1 : 2;
  }
  out.names = PackNames(FunctionFromName(d.ce_coll.func), DataTypeFromName(d.ce_coll.datatype), strategy_number);
  out.root_or_peer = d.ce_coll.root;
  return out;
}

// All but the names.
template <typename Fields>
inline __attribute__((always_inline)) ApiStart DecodeApiNumbers(const Fields& fields) {
  ApiStart out;
  out.count = fields.count;
  out.captured = fields.graph_captured;
  out.stream = Number(fields.stream);
  return out;
}

// A call names a function and a type only; the memo has room for four names, so each stands there twice.
constexpr uint32_t kApiNames = 0xffff;
template <typename Fields>
ApiStart DecodeApi(Lane* lane, const Fields& fields) {
  ApiStart out = DecodeApiNumbers(fields);
  out.names = DecodeNames(&MemoFor(lane, fields.func, fields.datatype), fields.func, fields.datatype, fields.func,
                          fields.datatype) &
              kApiNames;
  return out;
}

ProxyOpStart DecodeProxyOp(const abi::ProxyOpFields& fields, const void* parent) {
  ProxyOpStart out;
  out.parent = Number(parent);
  out.pid = fields.pid;
  out.peer = fields.peer;
  out.steps = fields.n_steps;
  out.chunk_bytes = fields.chunk_size;
  out.channel = fields.channel_id;
  out.is_send = fields.is_send != 0;
  return out;
}

// What NCCL's own network plugins say with their events, by type and version of the plugin; `data` lives during the
// call only.
void DecodeNetPlugin(const abi::NetPluginFields& fields, EventStart* out) {
  constexpr int64_t kInfinibandV1 = (1 << 16) | 1, kSocketV1 = (2 << 16) | 1;
  out->detail[0] = static_cast<uint64_t>(fields.id);
  const auto* data = static_cast<const char*>(fields.data);
  if (data == nullptr) return;
  uint32_t queue = 0, device = 0xffffffffu;
  if (fields.id == kInfinibandV1) {
    __builtin_memcpy(&device, data + 8, 4);
    __builtin_memcpy(&queue, data + 28, 4);
    __builtin_memcpy(&out->detail[1], data + 32, 8);
  } else if (fields.id == kSocketV1) {
    __builtin_memcpy(&queue, data + 8, 4);
    __builtin_memcpy(&out->detail[1], data + 16, 8);
  } else {
    return;
  }
  out->third = uint64_t{queue} | uint64_t{device} << 32;
}

// ---------------------------------------------------------------------------------------------------------------
// Starts.

// The communicator of an event of the launching thread. False: not ours, the event is dropped.
bool FindCommunicator(void* context, Communicator** comm) {
  *comm = FromContext(context);
  if (__builtin_expect(*comm != nullptr, 1)) return true;
  if (context == IgnoredContext()) return false;
  recorder::CountLoss(context == nullptr ? schema::LossReason::kNullContext : schema::LossReason::kBadContext);
  return context == nullptr;
}

template <int V>
void LearnIdentityIfPending(Communicator* comm, const typename abi::Abi<V>::Descriptor& d, bool p2p) {
  if constexpr (V <= 3) {
    if (comm == nullptr || __builtin_expect(!comm->identity_pending, 1)) return;
    if (p2p) {
      LearnIdentity(comm, d.p2p.comm_hash, d.p2p.name, d.rank);
    } else {
      LearnIdentity(comm, d.coll.comm_hash, d.coll.name, d.rank);
    }
  }
}

// Events of the launching thread other than collectives and point-to-point.
template <int V>
Handle StartHostEvent(Lane* lane, void* context, const typename abi::Abi<V>::Descriptor& d) {
  EventStart start;
  const uint64_t type = d.type;
  if (type == abi::kGroup) {
    // Up to 2.27 NCCL leaves out the children of a group whose handle is NULL.
    if (V > 4 || !Wanted(recorder::kEventsGroup)) return V > 4 ? 0 : IgnoredHandle();
    start.kind = EventKind::kGroup;
    return StartEvent(lane, start);
  }
  if constexpr (V >= 5) {
    if (type == abi::kGroupApi) {
      if (!Wanted(recorder::kEventsApi)) return 0;
      start.kind = EventKind::kGroupApi;
      start.detail[0] = static_cast<uint32_t>(d.group_api.group_depth);
      if (d.group_api.graph_captured) start.flags = schema::kFlagGraphCaptured;
      return StartEvent(lane, start);
    }
    if (type == abi::kKernelLaunch) {
      if (!Wanted(recorder::kEventsLaunch)) return 0;
      Communicator* comm = FromContext(context);
      start.kind = EventKind::kKernelLaunch;
      start.comm = comm != nullptr ? comm->slot : schema::kCommUnknown;
      start.detail[0] = Number(d.kernel_launch.stream);
      recorder::NoteStream(start.detail[0]);
      return StartEvent(lane, start);
    }
  }
  if constexpr (V >= 6) {
    if (type == abi::kCeSync || type == abi::kCeBatch) {
      if (!Wanted(recorder::kEventsCeDetail)) return 0;
      start.parent = Number(d.parent_obj);
      const Communicator* comm = FromContext(context);
      start.comm = comm != nullptr ? comm->slot : schema::kCommUnknown;
      if (type == abi::kCeSync) {
        start.kind = EventKind::kCeSync;
        start.detail[0] = uint64_t{static_cast<uint32_t>(d.ce_sync.n_ranks)} | uint64_t{d.ce_sync.is_complete} << 32;
      } else {
        start.kind = EventKind::kCeBatch;
        start.detail[0] = d.ce_batch.total_bytes;
        start.detail[1] = uint64_t{static_cast<uint32_t>(d.ce_batch.num_ops)} | uint64_t{d.ce_batch.use_intra_sync}
                                                                                    << 32;
      }
      return StartEvent(lane, start);
    }
  }
  recorder::CountLoss(schema::LossReason::kUnknownType);
  return 0;
}

// Events of the proxy and network threads. Their context may be another process's, so it is never required.
template <int V>
Handle StartProxyEvent(Lane* lane, void* context, const typename abi::Abi<V>::Descriptor& d) {
  EventStart start;
  const uint64_t type = d.type;
  start.parent = Number(d.parent_obj);
  if (type == abi::kProxyOp) {
    if (!Wanted(recorder::kEventsProxyOp | recorder::kEventsCompletion | recorder::kEventsProxyStep)) return 0;
    return StartProxyOp(lane, FromContext(context), DecodeProxyOp(d.proxy_op, d.parent_obj));
  }
  if (type == abi::kProxyStep) {
    if (!Wanted(recorder::kEventsProxyStep)) return 0;
    start.kind = EventKind::kProxyStep;
    start.detail[0] = static_cast<uint32_t>(d.proxy_step.step);
    return StartEvent(lane, start);
  }
  const Communicator* comm = FromContext(context);
  start.comm = comm != nullptr ? comm->slot : schema::kCommUnknown;
  if (type == abi::kProxyCtrl) {
    if (V < 4 || !Wanted(recorder::kEventsProxyCtrl)) return 0;
    start.kind = EventKind::kProxyCtrl;
    start.parent = 0;
    return StartEvent(lane, start);
  }
  if constexpr (V >= 3) {
    if (type == abi::kKernelCh) {
      if (!Wanted(recorder::kEventsKernelCh)) return 0;
      start.kind = EventKind::kKernelChannel;
      start.aux = d.kernel_ch.channel_id;
      if constexpr (V >= 4) start.detail[0] = d.kernel_ch.p_timer;
      return StartEvent(lane, start);
    }
    if (type == abi::kNetPlugin) {
      if (!Wanted(recorder::kEventsNetPlugin)) return 0;
      start.kind = EventKind::kNetPlugin;
      DecodeNetPlugin(d.net_plugin, &start);
      return StartEvent(lane, start);
    }
  }
  if constexpr (V >= 7) {
    if (!Wanted(recorder::kEventsKernelPhase)) return 0;
    start.kind = EventKind::kKernelPhase;
    start.aux = d.kernel_phase.channel_id;
    start.detail[0] = d.kernel_phase.p_timer;
    start.third = uint64_t{d.kernel_phase.phase_id} << 32;  // GpuStampPayload::phase
    return StartEvent(lane, start);
  }
  return 0;
}

template <int V>
Handle Start(Lane* lane, void* context, const typename abi::Abi<V>::Descriptor& d) {
  constexpr uint64_t kProxyTypes = abi::kProxyOp | abi::kProxyStep | abi::kProxyCtrl |
                                   (V >= 3 ? abi::kKernelCh | abi::kNetPlugin : 0) | (V >= 7 ? abi::kKernelPhase : 0);
  const uint64_t type = d.type;
  Communicator* comm = nullptr;
  if (type == abi::kColl) {
    if (!Wanted(recorder::kEventsColl) || !FindCommunicator(context, &comm)) return 0;
    LearnIdentityIfPending<V>(comm, d, false);
    return StartOperation(lane, comm, EventKind::kColl, DecodeColl<V>(lane, d));
  }
  if (type == abi::kP2p) {
    if (!Wanted(recorder::kEventsP2p) || !FindCommunicator(context, &comm)) return 0;
    LearnIdentityIfPending<V>(comm, d, true);
    return StartOperation(lane, comm, EventKind::kP2p, DecodeP2p<V>(d));
  }
  if constexpr (V >= 5) {
    if (type == abi::kCollApi) {
      if (!Wanted(recorder::kEventsApi) || !FindCommunicator(context, &comm)) return 0;
      ApiStart start = DecodeApi(lane, d.coll_api);
      start.root = d.coll_api.root;
      return StartApi(lane, comm, EventKind::kCollApi, start);
    }
    if (type == abi::kP2pApi) {
      if (!Wanted(recorder::kEventsApi) || !FindCommunicator(context, &comm)) return 0;
      return StartApi(lane, comm, EventKind::kP2pApi, DecodeApi(lane, d.p2p_api));
    }
  }
  if constexpr (V >= 6) {
    if (type == abi::kCeColl) {
      if (!Wanted(recorder::kEventsCe | recorder::kEventsCeDetail) || !FindCommunicator(context, &comm)) return 0;
      return StartOperation(lane, comm, EventKind::kCeColl, DecodeCeColl<V>(d));
    }
  }
  // The types are single bits; a number with several is none of them.
  if ((type & kProxyTypes) != 0 && (type & (type - 1)) == 0) return StartProxyEvent<V>(lane, context, d);
  return StartHostEvent<V>(lane, context, d);
}

// ---------------------------------------------------------------------------------------------------------------
// The functions of the tables.

template <int V>
__attribute__((noinline)) int StartEventWithCare(void* context, void** handle,
                                                 const typename abi::Abi<V>::Descriptor* descriptor) {
  if (handle == nullptr) return kSuccess;
  Handle out = 0;
  if (descriptor != nullptr) {
    if (Lane* lane = recorder::CurrentLane()) {
      out = Start<V>(lane, context, *descriptor);
    } else if (V <= 4 && descriptor->type == abi::kGroup) {
      out = IgnoredHandle();
    }
  }
  *handle = reinterpret_cast<void*>(out);
  return kSuccess;
}

// The fast way of collectives and the calls for them (operation_start.h); 0 = not taken.
template <int V>
inline __attribute__((always_inline)) Handle TryStart(void* context, const typename abi::Abi<V>::Descriptor* d) {
  Lane* lane = recorder::t_lane;
  if (V == 1 || __builtin_expect(lane == nullptr || d == nullptr, 0)) return 0;
  if constexpr (V >= 2) {
    const uint64_t type = d->type;
    if (type == abi::kColl) {
      Communicator* comm = FromContext(context);
      if ((lane->fast_events & recorder::kEventsColl) == 0 || comm == nullptr) return 0;
      if constexpr (V >= 7) {
        if (d->coll.is_sym_coll) return 0;
      }
      OperationStart start = DecodeCollNumbers<V>(*d);
      if (!RememberedNames(lane, d->coll.func, d->coll.datatype, d->coll.algo, d->coll.proto, &start.names)) return 0;
      return TryStartCollective<(V >= 5)>(lane, comm, start);
    }
    if constexpr (V >= 5) {
      if (type == abi::kCollApi) {
        Communicator* comm = FromContext(context);
        if ((lane->fast_events & recorder::kEventsApi) == 0 || comm == nullptr) return 0;
        ApiStart start = DecodeApiNumbers(d->coll_api);
        start.root = d->coll_api.root;
        const char *func = d->coll_api.func, *dtype = d->coll_api.datatype;
        if (!RememberedNames(lane, func, dtype, func, dtype, &start.names)) return 0;
        start.names &= kApiNames;
        return TryStartApi(lane, comm, EventKind::kCollApi, start);
      }
    }
  }
  return 0;
}

template <int V>
int StartEventOf(void* context, void** handle, typename abi::Abi<V>::Descriptor* descriptor) {
  const Handle fast = TryStart<V>(context, descriptor);
  if (__builtin_expect(fast == 0 || handle == nullptr, 0)) return StartEventWithCare<V>(context, handle, descriptor);
  *handle = reinterpret_cast<void*>(fast);
  return kSuccess;
}

int StopEventOf(void* handle) {
  StopEvent(Number(handle));
  return kSuccess;
}

template <int V>
int RecordStateOf(void* handle, int state, typename abi::Abi<V>::StateArgs* args) {
  const Handle event = Number(handle);
  if (event == 0) return kSuccess;
  if (state >= abi::kProxyStepSendGpuWait && state <= abi::kProxyStepRecvGpuWait) {
    // The size is that of the transfer in these two states only; in the others it is left over from the step before.
    const bool sized = state == abi::kProxyStepSendWait || state == abi::kProxyStepRecvFlushWait;
    uint64_t bytes = 0;
    if constexpr (V >= 4) bytes = sized && args != nullptr ? args->proxy_step.trans_size : 0;
    RecordProxyStepState(event, state, V >= 4 && sized && args != nullptr, bytes);
  } else if (state == abi::kProxyStepSendPeerWait) {
    RecordProxyStepState(event, state, false, 0);
  } else if (state >= abi::kProxyOpFirstState && state <= abi::kProxyOpLastState) {
    if constexpr (V <= 3) {
      RecordProxyOpState(event, state, args != nullptr ? args->proxy_op.trans_size : 0,
                         args != nullptr ? args->proxy_op.steps : 0);
    } else {
      RecordProxyOpState(event, state, 0, 0);
    }
  } else if (state == abi::kProxyOpInProgress) {
    RecordProxyOpState(event, state, 0, 0);
  } else if (state >= abi::kProxyCtrlIdle && state <= abi::kProxyCtrlAppendEnd) {
    const bool counted = state == abi::kProxyCtrlAppendEnd && args != nullptr;
    RecordProxyCtrlState(event, state, counted ? args->proxy_ctrl.appended_proxy_ops : 0);
  } else if (state == abi::kKernelChStop || state == abi::kKernelPhaseStop) {
    if constexpr (V >= 4) {
      if (args != nullptr) RecordGpuStop(event, args->kernel_ch.p_timer);
    }
  } else if (state < abi::kNetPluginUpdate || state > abi::kKernelPhaseStop) {
    recorder::CountLoss(schema::LossReason::kUnknownState);
  }
  // The rest (21, 23 to 30) says nothing that is recorded; its argument may be garbage and isn't looked at.
  return kSuccess;
}

int FinalizeOf(void* context) {
  FinalizeCommunicator(context);
  return kSuccess;
}

template <int V>
int InitV1To3(void** context, int* activation_mask) {
  return OpenCommunicator(V, context, activation_mask, CommunicatorIdentity{});
}

CommunicatorIdentity MakeIdentity(uint64_t hash, const char* name, int nodes, int ranks, int rank) {
  CommunicatorIdentity identity;
  identity.known = true;
  identity.hash = hash;
  identity.name = name;
  identity.rank = rank;
  identity.ranks = ranks;
  identity.nodes = nodes;
  return identity;
}

int InitV4(void** context, int* activation_mask, const char* name, uint64_t hash, int nodes, int ranks, int rank,
           abi::Logger) {
  return OpenCommunicator(4, context, activation_mask, MakeIdentity(hash, name, nodes, ranks, rank));
}

template <int V>
int InitV5To7(void** context, uint64_t hash, int* activation_mask, const char* name, int nodes, int ranks, int rank,
              abi::Logger) {
  return OpenCommunicator(V, context, activation_mask, MakeIdentity(hash, name, nodes, ranks, rank));
}

}  // namespace
}  // namespace rankscope::plugin

// The symbols are data, and the only ones that the library exports. NCCL patches its own copies, so they can be
// constant.
#define RANKSCOPE_TABLE(V, INIT)                                                                                   \
  extern "C" __attribute__((visibility("default"))) const rankscope::plugin::abi::TableOf<V> ncclProfiler_v##V = { \
      "rankscope",                                                                                                 \
      INIT,                                                                                                        \
      rankscope::plugin::StartEventOf<V>,                                                                          \
      rankscope::plugin::StopEventOf,                                                                              \
      rankscope::plugin::RecordStateOf<V>,                                                                         \
      rankscope::plugin::FinalizeOf};

RANKSCOPE_TABLE(1, rankscope::plugin::InitV1To3<1>)
RANKSCOPE_TABLE(2, rankscope::plugin::InitV1To3<2>)
RANKSCOPE_TABLE(3, rankscope::plugin::InitV1To3<3>)
RANKSCOPE_TABLE(4, rankscope::plugin::InitV4)
RANKSCOPE_TABLE(5, rankscope::plugin::InitV5To7<5>)
RANKSCOPE_TABLE(6, rankscope::plugin::InitV5To7<6>)
RANKSCOPE_TABLE(7, rankscope::plugin::InitV5To7<7>)
