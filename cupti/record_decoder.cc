// See record_decoder.h.
#include "cupti/record_decoder.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cupti/gpu_clock.h"
#include "cupti/name_table.h"
#include "recorder/clock.h"
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
constexpr uint64_t kOldestRawNs = 600'000'000'000;  // ten minutes: a hung collective's kernel holds its buffer back

// Some records ahead: a buffer was written by another core. (A prefetch beyond the buffer does no harm.)
constexpr size_t kPrefetchBytes = 8 * 216;

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
      case kKindDriver:
      case kKindRuntime:
        return TakeApi(kind, view);
      default:
        return;  // another client's kind: not ours to record
    }
  }

  const DecodeCounts& counts() const { return counts_; }

 private:
  void Bad(LossReason reason) {
    CountLoss(reason);
    counts_.bad_times++;
  }

  // When it was, in ticks.
  struct Span {
    uint64_t begin_ticks = 0, end_ticks = 0;
    bool good = false;
  };

  Span GoodTimes(uint64_t start_ns, uint64_t end_ns) {
    if (start_ns == 0 && end_ns == 0) {
      Bad(LossReason::kCuptiNoTimestamp);
      return {};
    }
    if (end_ns == 0) {
      // A kernel that ran when a forced flush took its record; no sign of a broken clock.
      CountLoss(LossReason::kCuptiIncomplete);
      return {};
    }
    if (start_ns < earliest_ns_ || start_ns > latest_ns_) return SpanOfRawTicks(start_ns, end_ns);
    if (end_ns < start_ns || end_ns - start_ns > kLongestNs) {
      Bad(LossReason::kCuptiBadTimestamp);
      return {};
    }
    return {ToTicks(start_ns), ToTicks(end_ns), true};
  }

  // torch.profiler has CUPTI stamp with the processor's own counter, which is our ticks, and leaves it so when its
  // session is over: records that come after it are in ticks. As nanoseconds since 1970, ticks are years away; some
  // other clock that counts from the machine's start is told from them by its being minutes away.
  __attribute__((noinline)) Span SpanOfRawTicks(uint64_t start, uint64_t end) {
    const uint64_t oldest_ns = latest_ns_ - kOldestRawNs;
    if (recorder::g_use_monotonic_clock || start < ToTicks(oldest_ns > earliest_ns_ ? oldest_ns : earliest_ns_) ||
        start > ToTicks(latest_ns_)) {
      Bad(LossReason::kCuptiForeignClock);
      return {};
    }
    if (end < start || end > ToTicks(latest_ns_)) {
      Bad(LossReason::kCuptiBadTimestamp);
      return {};
    }
    return {start, end, true};
  }

  // The payload comes as words: a struct that is written field by field and read as words waits for its own stores.
  struct Words {
    uint64_t first, second, third;
  };
  static Words KernelWords(uint32_t name, uint32_t correlation, uint32_t stream, uint32_t device, uint32_t context,
                           uint32_t blocks, uint32_t threads) {
    static_assert(
        offsetof(schema::GpuKernelPayload, correlation) == 4 && offsetof(schema::GpuKernelPayload, stream) == 8 &&
        offsetof(schema::GpuKernelPayload, device) == 12 && offsetof(schema::GpuKernelPayload, context) == 14 &&
        offsetof(schema::GpuKernelPayload, grid_blocks) == 16 &&
        offsetof(schema::GpuKernelPayload, block_threads) == 20);
    return {name | uint64_t{correlation} << 32,
            stream | uint64_t{device & 0xffff} << 32 | uint64_t{context & 0xffff} << 48,
            blocks | uint64_t{threads} << 32};
  }
  static Words CopyWords(uint64_t bytes, uint32_t correlation, uint32_t stream, uint32_t device, uint32_t peer,
                         uint32_t copy_kind, uint32_t source_kind, uint32_t destination_kind) {
    static_assert(offsetof(schema::GpuCopyPayload, correlation) == 8 &&
                  offsetof(schema::GpuCopyPayload, stream) == 12 && offsetof(schema::GpuCopyPayload, device) == 16 &&
                  offsetof(schema::GpuCopyPayload, peer_device) == 18 &&
                  offsetof(schema::GpuCopyPayload, copy_kind) == 20 &&
                  offsetof(schema::GpuCopyPayload, destination_kind) == 22);
    return {bytes, correlation | uint64_t{stream} << 32,
            (device & 0xffff) | uint64_t{peer & 0xffff} << 16 | uint64_t{copy_kind & 0xff} << 32 |
                uint64_t{source_kind & 0xff} << 40 | uint64_t{destination_kind & 0xff} << 48};
  }

  void Commit(EventKind kind, uint16_t flags, uint32_t aux, const Span& span, uint64_t graph_node,
              const Words& words) {
    if (lane_ == nullptr) return;
    recorder::Commit(lane_, {span.begin_ticks,
                             span.end_ticks,
                             PackKind(kind, flags, schema::kCommUnknown, static_cast<uint16_t>(aux)),
                             graph_node,
                             {words.first, words.second, words.third}});
    counts_.records++;
    // A lane that filled up was changed for a larger one.
    lane_ = recorder::t_lane;
  }

  static uint16_t GraphFlag(uint64_t graph_node, uint32_t graph) {
    return graph_node != 0 || graph != 0 ? schema::kFlagGraphReplay : 0;
  }

  void TakeKernel(const View& view) {
    const Span span = GoodTimes(view.U64(KernelLayout::kStart), view.U64(KernelLayout::kEnd));
    if (!span.good) return;
    const KernelName name = FindKernelName(reinterpret_cast<const char*>(view.U64(KernelLayout::kName)), reading_);
    const uint64_t node = view.U64OrZero(KernelLayout::kGraphNode);
    const uint32_t blocks =
        view.U32(KernelLayout::kGridX) * view.U32(KernelLayout::kGridY) * view.U32(KernelLayout::kGridZ);
    const uint32_t threads =
        view.U32(KernelLayout::kBlockX) * view.U32(KernelLayout::kBlockY) * view.U32(KernelLayout::kBlockZ);
    Commit(EventKind::kGpuKernel, GraphFlag(node, view.U32OrZero(KernelLayout::kGraph)),
           static_cast<uint32_t>(name.kind), span, node,
           KernelWords(name.id, view.U32(KernelLayout::kCorrelation), view.U32(KernelLayout::kStream),
                       view.U32(KernelLayout::kDevice), view.U32(KernelLayout::kContext), blocks, threads));
  }

  void TakeMemcpy(const View& view) {
    using L = MemcpyLayout;
    const Span span = GoodTimes(view.U64(L::kStart), view.U64(L::kEnd));
    if (!span.good) return;
    const uint64_t node = view.U64OrZero(L::kGraphNode), copies = view.U64OrZero(L::kCopyCount);
    const Words words =
        CopyWords(view.U64(L::kBytes), view.U32(L::kCorrelation), view.U32(L::kStream), view.U32(L::kDevice),
                  view.U32(L::kDevice), view.U8(L::kCopyKind), view.U8(L::kSourceKind), view.U8(L::kDestinationKind));
    const auto folded = static_cast<uint32_t>(copies > 0x7fff ? 0x7fff : copies);
    Commit(EventKind::kGpuMemcpy, GraphFlag(node, view.U32OrZero(L::kGraph)), (view.U8(L::kFlags) & 1) | folded << 1,
           span, node, words);
  }

  void TakePeerCopy(const View& view) {
    using L = PeerCopyLayout;
    const Span span = GoodTimes(view.U64(L::kStart), view.U64(L::kEnd));
    if (!span.good) return;
    const uint64_t node = view.U64OrZero(L::kGraphNode);
    const Words words = CopyWords(view.U64(L::kBytes), view.U32(L::kCorrelation), view.U32(L::kStream),
                                  view.U32(L::kSourceDevice), view.U32(L::kDestinationDevice), view.U8(L::kCopyKind),
                                  view.U8(L::kSourceKind), view.U8(L::kDestinationKind));
    Commit(EventKind::kGpuMemcpy, GraphFlag(node, view.U32OrZero(L::kGraph)), view.U8(L::kFlags) & 1, span, node,
           words);
  }

  void TakeMemset(const View& view) {
    using L = MemsetLayout;
    const Span span = GoodTimes(view.U64(L::kStart), view.U64(L::kEnd));
    if (!span.good) return;
    const uint64_t node = view.U64OrZero(L::kGraphNode);
    const Words words = CopyWords(view.U64(L::kBytes), view.U32(L::kCorrelation), view.U32(L::kStream),
                                  view.U32(L::kDevice), view.U32(L::kDevice), 0, 0, view.U16(L::kMemoryKind));
    Commit(EventKind::kGpuMemset, GraphFlag(node, view.U32OrZero(L::kGraph)), view.U16(L::kFlags) & 1, span, node,
           words);
  }

  void TakeSynchronization(const View& view) {
    using L = SynchronizationLayout;
    const Span span = GoodTimes(view.U64(L::kStart), view.U64(L::kEnd));
    if (!span.good) return;
    // CUPTI doesn't say the device (0xffff): join through the context.
    const Words words =
        KernelWords(0, view.U32(L::kCorrelation), view.U32(L::kStream), 0xffff, view.U32(L::kContext), 0, 0);
    Commit(EventKind::kGpuSync, 0, view.U32(L::kType), span, 0, words);
  }

  void TakeOverhead(const View& view) {
    using L = OverheadLayout;
    // The client's memory, whatever is done with the record.
    if (view.Has(L::kData)) free(reinterpret_cast<void*>(view.U64(L::kData)));
    const Span span = GoodTimes(view.U64(L::kStart), view.U64(L::kEnd));
    if (!span.good) return;
    const Words words = KernelWords(0, view.U32OrZero(L::kCorrelation), 0, 0xffff, 0, 0, 0);
    const uint32_t overhead_kind = view.U32(L::kOverheadKind);  // a 16-bit number, shifted by 16 for CUPTI's own
    Commit(EventKind::kGpuOverhead, 0, overhead_kind > 0xffff ? overhead_kind >> 16 | 0x8000 : overhead_kind, span, 0,
           words);
  }

  void TakeMemory(const View& view) {
    using L = MemoryLayout;
    const uint64_t at_ns = view.U64(L::kTimestamp);
    const Span span = GoodTimes(at_ns, at_ns);
    if (!span.good) return;
    const Words words = CopyWords(view.U64(L::kBytes), view.U32(L::kCorrelation), view.U32(L::kStream),
                                  view.U32(L::kDevice), view.U32(L::kDevice), 0, 0, view.U32(L::kMemoryKind));
    Commit(EventKind::kGpuMemory, 0, view.U32(L::kOperation), span, view.U64(L::kAddress), words);
  }

  void TakePool(const View& view) {
    using L = MemoryPoolLayout;
    const uint64_t at_ns = view.U64(L::kTimestamp);
    const Span span = GoodTimes(at_ns, at_ns);
    if (!span.good) return;
    const Words words = CopyWords(view.U64(L::kSize), view.U32(L::kCorrelation), 0, view.U32(L::kDevice),
                                  view.U32(L::kDevice), 0, 0, 0);
    Commit(EventKind::kGpuMemoryPool, 0, view.U32(L::kOperation), span, 0, words);
  }

  void TakeGraph(const View& view) {
    using L = GraphTraceLayout;
    const Span span = GoodTimes(view.U64(L::kStart), view.U64(L::kEnd));
    if (!span.good) return;
    const Words words = KernelWords(0, view.U32(L::kCorrelation), view.U32(L::kStream), view.U32(L::kDevice),
                                    view.U32(L::kContext), view.U32(L::kGraph), 0);
    Commit(EventKind::kGpuGraph, schema::kFlagGraphReplay, 0, span, 0, words);
  }

  void TakeApi(uint32_t kind, const View& view) {
    using L = ApiLayout;
    const Span span = GoodTimes(view.U64(L::kStart), view.U64(L::kEnd));
    if (!span.good) return;
    const Words words =
        KernelWords(0, view.U32(L::kCorrelation), view.U32(L::kThread), 0xffff, 0, view.U32(L::kReturnValue), kind);
    Commit(EventKind::kCudaApi, 0, view.U32(L::kCallback), span, 0, words);
  }

  Lane* lane_;
  const uint64_t earliest_ns_, latest_ns_;
  const uint32_t reading_ = NewReading();
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
  Lane* lane = recorder::LargeLane();
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
    __builtin_prefetch(at + kPrefetchBytes);
    __builtin_prefetch(at + kPrefetchBytes + 64);
    if (stride >= NeededBytes(kind)) decoder.Take(kind, View(at, stride));
    offset += stride;
  }
  return decoder.counts();
}

}  // namespace rankscope::cupti
