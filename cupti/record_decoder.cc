// See record_decoder.h.
#include "cupti/record_decoder.h"

#include <stdlib.h>
#include <string.h>

#include "cupti/gpu_clock.h"
#include "cupti/name_table.h"
#include "recorder/session.h"

namespace rankscope::cupti {
namespace {

using recorder::CountLoss;
using recorder::Lane;
using recorder::PackKind;
using schema::EventKind;
using schema::LossReason;

constexpr uint64_t kSlackNs = 1'000'000'000;        // GPU times are interpolated, clocks are not read at once
constexpr uint64_t kLongestNs = 3'600'000'000'000;  // an hour

// One record, and how much of it this library writes.
class View {
 public:
  View(const uint8_t* at, uint32_t stride) : at_(at), stride_(stride) {}
  bool Has(Field field) const { return field.end() <= stride_; }
  uint32_t U8(Field field) const { return at_[field.offset]; }
  uint32_t U16(Field field) const { return Load<uint16_t>(field); }
  uint32_t U32(Field field) const { return Load<uint32_t>(field); }
  uint64_t U64(Field field) const { return Load<uint64_t>(field); }
  uint64_t U64OrZero(Field field) const { return Has(field) ? U64(field) : 0; }
  uint32_t U32OrZero(Field field) const { return Has(field) ? U32(field) : 0; }

 private:
  template <typename T>
  T Load(Field field) const {
    T value;
    memcpy(&value, at_ + field.offset, sizeof(T));
    return value;
  }
  const uint8_t* at_;
  uint32_t stride_;
};

class Decoder {
 public:
  Decoder(const DecodeContext& context, Lane* lane)
      : lane_(lane), earliest_ns_(context.earliest_ns), latest_ns_(CuptiNowNs() + kSlackNs) {}

  void Take(uint32_t kind, const View& view) {
    switch (kind) {
      case kKindConcurrentKernel:
      case kKindKernel:
        return TakeKernel(view);
      case kKindMemcpy:
        return TakeMemcpy(view);
      case kKindMemcpy2:
        return TakePeerCopy(view);
      case kKindMemset:
        return TakeMemset(view);
      case kKindSynchronization:
        return TakeSynchronization(view);
      case kKindOverhead:
        return TakeOverhead(view);
      case kKindMemory2:
        return TakeMemory(view);
      case kKindMemoryPool:
        return TakePool(view);
      case kKindGraphTrace:
        return TakeGraph(view);
      default:
        return;  // another client's kind: not ours to record
    }
  }

  const DecodeCounts& counts() const { return counts_; }

 private:
  bool Bad(LossReason reason) {
    CountLoss(reason);
    counts_.bad_times++;
    return false;
  }

  bool TimesAreGood(uint64_t start_ns, uint64_t end_ns) {
    if (start_ns == 0 && end_ns == 0) return Bad(LossReason::kCuptiNoTimestamp);
    if (end_ns == 0) {
      // A kernel that ran when a forced flush took its record; no sign of a broken clock.
      CountLoss(LossReason::kCuptiIncomplete);
      return false;
    }
    if (start_ns < earliest_ns_ || start_ns > latest_ns_) return Bad(LossReason::kCuptiForeignClock);
    if (end_ns < start_ns || end_ns - start_ns > kLongestNs) return Bad(LossReason::kCuptiBadTimestamp);
    return true;
  }

  template <typename Payload>
  void Commit(EventKind kind, uint16_t flags, uint32_t aux, uint64_t start_ns, uint64_t end_ns, uint64_t graph_node,
              const Payload& payload) {
    static_assert(sizeof(Payload) == 24);
    recorder::RecordWords words{};
    words.begin_ticks = ToTicks(start_ns);
    words.end_ticks = ToTicks(end_ns);
    words.kind_flags_comm_aux = PackKind(kind, flags, schema::kCommUnknown, static_cast<uint16_t>(aux));
    words.op_id = graph_node;
    memcpy(words.payload, &payload, sizeof(payload));
    if (lane_ == nullptr) return;
    recorder::Commit(lane_, words);
    counts_.records++;
    // A lane that filled up was changed for a larger one.
    lane_ = recorder::t_lane;
  }

  static uint16_t GraphFlag(uint64_t graph_node, uint32_t graph) {
    return graph_node != 0 || graph != 0 ? schema::kFlagGraphReplay : 0;
  }

  void TakeKernel(const View& view) {
    const uint64_t start_ns = view.U64(KernelLayout::kStart), end_ns = view.U64(KernelLayout::kEnd);
    if (!TimesAreGood(start_ns, end_ns)) return;
    const KernelName name = FindKernelName(reinterpret_cast<const char*>(view.U64(KernelLayout::kName)));
    const uint64_t node = view.U64OrZero(KernelLayout::kGraphNode);
    schema::GpuKernelPayload payload{};
    payload.name = name.id;
    payload.correlation = view.U32(KernelLayout::kCorrelation);
    payload.stream = view.U32(KernelLayout::kStream);
    payload.device = static_cast<uint16_t>(view.U32(KernelLayout::kDevice));
    payload.context = static_cast<uint16_t>(view.U32(KernelLayout::kContext));
    payload.grid_blocks =
        view.U32(KernelLayout::kGridX) * view.U32(KernelLayout::kGridY) * view.U32(KernelLayout::kGridZ);
    payload.block_threads =
        view.U32(KernelLayout::kBlockX) * view.U32(KernelLayout::kBlockY) * view.U32(KernelLayout::kBlockZ);
    Commit(EventKind::kGpuKernel, GraphFlag(node, view.U32OrZero(KernelLayout::kGraph)),
           static_cast<uint32_t>(name.kind), start_ns, end_ns, node, payload);
  }

  void TakeMemcpy(const View& view) {
    using L = MemcpyLayout;
    const uint64_t start_ns = view.U64(L::kStart), end_ns = view.U64(L::kEnd);
    if (!TimesAreGood(start_ns, end_ns)) return;
    const uint64_t node = view.U64OrZero(L::kGraphNode), copies = view.U64OrZero(L::kCopyCount);
    schema::GpuCopyPayload payload{};
    payload.bytes = view.U64(L::kBytes);
    payload.correlation = view.U32(L::kCorrelation);
    payload.stream = view.U32(L::kStream);
    payload.device = payload.peer_device = static_cast<uint16_t>(view.U32(L::kDevice));
    payload.copy_kind = static_cast<uint8_t>(view.U8(L::kCopyKind));
    payload.source_kind = static_cast<uint8_t>(view.U8(L::kSourceKind));
    payload.destination_kind = static_cast<uint8_t>(view.U8(L::kDestinationKind));
    const auto folded = static_cast<uint32_t>(copies > 0x7fff ? 0x7fff : copies);
    Commit(EventKind::kGpuMemcpy, GraphFlag(node, view.U32OrZero(L::kGraph)), (view.U8(L::kFlags) & 1) | folded << 1,
           start_ns, end_ns, node, payload);
  }

  void TakePeerCopy(const View& view) {
    using L = PeerCopyLayout;
    const uint64_t start_ns = view.U64(L::kStart), end_ns = view.U64(L::kEnd);
    if (!TimesAreGood(start_ns, end_ns)) return;
    const uint64_t node = view.U64OrZero(L::kGraphNode);
    schema::GpuCopyPayload payload{};
    payload.bytes = view.U64(L::kBytes);
    payload.correlation = view.U32(L::kCorrelation);
    payload.stream = view.U32(L::kStream);
    payload.device = static_cast<uint16_t>(view.U32(L::kSourceDevice));
    payload.peer_device = static_cast<uint16_t>(view.U32(L::kDestinationDevice));
    payload.copy_kind = static_cast<uint8_t>(view.U8(L::kCopyKind));
    payload.source_kind = static_cast<uint8_t>(view.U8(L::kSourceKind));
    payload.destination_kind = static_cast<uint8_t>(view.U8(L::kDestinationKind));
    Commit(EventKind::kGpuMemcpy, GraphFlag(node, view.U32OrZero(L::kGraph)), view.U8(L::kFlags) & 1, start_ns,
           end_ns, node, payload);
  }

  void TakeMemset(const View& view) {
    using L = MemsetLayout;
    const uint64_t start_ns = view.U64(L::kStart), end_ns = view.U64(L::kEnd);
    if (!TimesAreGood(start_ns, end_ns)) return;
    const uint64_t node = view.U64OrZero(L::kGraphNode);
    schema::GpuCopyPayload payload{};
    payload.bytes = view.U64(L::kBytes);
    payload.correlation = view.U32(L::kCorrelation);
    payload.stream = view.U32(L::kStream);
    payload.device = payload.peer_device = static_cast<uint16_t>(view.U32(L::kDevice));
    payload.destination_kind = static_cast<uint8_t>(view.U16(L::kMemoryKind));
    Commit(EventKind::kGpuMemset, GraphFlag(node, view.U32OrZero(L::kGraph)), view.U16(L::kFlags) & 1, start_ns,
           end_ns, node, payload);
  }

  void TakeSynchronization(const View& view) {
    using L = SynchronizationLayout;
    const uint64_t start_ns = view.U64(L::kStart), end_ns = view.U64(L::kEnd);
    if (!TimesAreGood(start_ns, end_ns)) return;
    schema::GpuKernelPayload payload{};
    payload.correlation = view.U32(L::kCorrelation);
    payload.stream = view.U32(L::kStream);
    payload.context = static_cast<uint16_t>(view.U32(L::kContext));
    payload.device = 0xffff;  // CUPTI doesn't say: join through the context
    Commit(EventKind::kGpuSync, 0, view.U32(L::kType), start_ns, end_ns, 0, payload);
  }

  void TakeOverhead(const View& view) {
    using L = OverheadLayout;
    // The client's memory, whatever is done with the record.
    if (view.Has(L::kData)) free(reinterpret_cast<void*>(view.U64(L::kData)));
    const uint64_t start_ns = view.U64(L::kStart), end_ns = view.U64(L::kEnd);
    if (!TimesAreGood(start_ns, end_ns)) return;
    schema::GpuKernelPayload payload{};
    payload.correlation = view.U32OrZero(L::kCorrelation);
    payload.device = 0xffff;
    const uint32_t overhead_kind = view.U32(L::kOverheadKind);  // a 16-bit number, shifted by 16 for CUPTI's own
    Commit(EventKind::kGpuOverhead, 0, overhead_kind > 0xffff ? overhead_kind >> 16 | 0x8000 : overhead_kind,
           start_ns, end_ns, 0, payload);
  }

  void TakeMemory(const View& view) {
    using L = MemoryLayout;
    const uint64_t at_ns = view.U64(L::kTimestamp);
    if (!TimesAreGood(at_ns, at_ns)) return;
    schema::GpuCopyPayload payload{};
    payload.bytes = view.U64(L::kBytes);
    payload.correlation = view.U32(L::kCorrelation);
    payload.stream = view.U32(L::kStream);
    payload.device = payload.peer_device = static_cast<uint16_t>(view.U32(L::kDevice));
    payload.destination_kind = static_cast<uint8_t>(view.U32(L::kMemoryKind));
    Commit(EventKind::kGpuMemory, 0, view.U32(L::kOperation), at_ns, at_ns, view.U64(L::kAddress), payload);
  }

  void TakePool(const View& view) {
    using L = MemoryPoolLayout;
    const uint64_t at_ns = view.U64(L::kTimestamp);
    if (!TimesAreGood(at_ns, at_ns)) return;
    schema::GpuCopyPayload payload{};
    payload.bytes = view.U64(L::kSize);
    payload.correlation = view.U32(L::kCorrelation);
    payload.device = payload.peer_device = static_cast<uint16_t>(view.U32(L::kDevice));
    Commit(EventKind::kGpuMemoryPool, 0, view.U32(L::kOperation), at_ns, at_ns, 0, payload);
  }

  void TakeGraph(const View& view) {
    using L = GraphTraceLayout;
    const uint64_t start_ns = view.U64(L::kStart), end_ns = view.U64(L::kEnd);
    if (!TimesAreGood(start_ns, end_ns)) return;
    schema::GpuKernelPayload payload{};
    payload.correlation = view.U32(L::kCorrelation);
    payload.stream = view.U32(L::kStream);
    payload.device = static_cast<uint16_t>(view.U32(L::kDevice));
    payload.context = static_cast<uint16_t>(view.U32(L::kContext));
    payload.grid_blocks = view.U32(L::kGraph);
    Commit(EventKind::kGpuGraph, schema::kFlagGraphReplay, 0, start_ns, end_ns, 0, payload);
  }

  Lane* lane_;
  const uint64_t earliest_ns_, latest_ns_;
  DecodeCounts counts_;
};

// Bytes from `at` to the next record, asked of the library; 0 if it can't say either.
uint32_t AskStride(const DecodeContext& context, uint8_t* buffer, uint8_t* at, size_t valid_bytes) {
  if (context.calls == nullptr) return 0;
  uint8_t* next = at;
  if (context.calls->get_next_record(buffer, valid_bytes, &next) != kSuccess) return 0;
  return next > at ? static_cast<uint32_t>(next - at) : 0;
}

}  // namespace

DecodeCounts DecodeBuffer(const DecodeContext& context, uint8_t* buffer, size_t valid_bytes) {
  Lane* lane = recorder::CurrentLane();
  Decoder decoder(context, lane);
  size_t offset = 0;
  while (offset + 8 <= valid_bytes) {
    uint8_t* at = buffer + offset;
    uint32_t kind;
    memcpy(&kind, at, sizeof(kind));
    uint32_t stride = kind < static_cast<uint32_t>(schema::kCuptiKindLimit) ? context.strides[kind] : 0;
    if (stride == 0) stride = AskStride(context, buffer, at, valid_bytes);
    if (stride == 0 || stride > valid_bytes - offset) {
      CountLoss(LossReason::kCuptiUnparsedBytes, valid_bytes - offset);
      if (stride == 0) CountLoss(LossReason::kCuptiUnknownKind);
      break;
    }
    if (stride >= NeededBytes(kind)) decoder.Take(kind, View(at, stride));
    offset += stride;
  }
  return decoder.counts();
}

}  // namespace rankscope::cupti
