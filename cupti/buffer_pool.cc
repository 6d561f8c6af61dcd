// See buffer_pool.h.
#include "cupti/buffer_pool.h"

#include <sys/mman.h>

#include "schema/ring_abi.h"

namespace rankscope::cupti {

using recorder::LoadAcquire;
using recorder::LoadRelaxed;
using recorder::StoreRelaxed;

static_assert(kBufferLimit == 64 && kBufferLimit <= schema::kGpuBufferLimit, "one word has a bit for each");

bool BufferPool::Prepare() {
  if (anonymous_ != nullptr) return true;
  constexpr size_t kBytes = (kBufferLimit - kRingBuffers + 1) * kBufferBytes;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  anonymous_ = static_cast<uint8_t*>(memory);
  sacrificial_ = anonymous_ + (kBufferLimit - kRingBuffers) * kBufferBytes;
  __atomic_fetch_or(&there_, ~uint64_t{0} << kRingBuffers, __ATOMIC_RELEASE);
  return true;
}

void BufferPool::AddRing(char* buffers, uint32_t count, uint32_t* states) {
  if (buffers == nullptr || count == 0) return;
  if (count > kRingBuffers) count = kRingBuffers;
  ring_ = reinterpret_cast<uint8_t*>(buffers);
  ring_states_ = states;
  ring_count_ = count;
  __atomic_fetch_or(&there_, (uint64_t{1} << count) - 1, __ATOMIC_RELEASE);
}

uint8_t* BufferPool::Address(int index) const {
  return index < kRingBuffers ? ring_ + static_cast<uint64_t>(index) * kBufferBytes
                              : anonymous_ + static_cast<uint64_t>(index - kRingBuffers) * kBufferBytes;
}

uint8_t* BufferPool::Take() {
  const uint64_t there = LoadAcquire(there_);
  uint64_t out = LoadRelaxed(out_);
  while (const uint64_t free = there & ~out) {
    const int index = __builtin_ctzll(free);
    if (!__atomic_compare_exchange_n(&out_, &out, out | uint64_t{1} << index, true, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
      continue;
    if (index < kRingBuffers) StoreRelaxed(ring_states_[index], static_cast<uint32_t>(schema::GpuBufferState::kLent));
    return Address(index);
  }
  return nullptr;
}

int BufferPool::IndexOf(const uint8_t* buffer) const {
  const uint64_t out = LoadAcquire(out_);
  const bool ring_is_there = (LoadAcquire(there_) & 1) != 0;
  const auto at = reinterpret_cast<uintptr_t>(buffer);
  const auto in = [&](const uint8_t* base, uint64_t count) {
    const auto first = reinterpret_cast<uintptr_t>(base);
    if (base == nullptr || at < first || at >= first + count * kBufferBytes || (at - first) % kBufferBytes != 0)
      return -1;
    return static_cast<int>((at - first) / kBufferBytes);
  };
  int index = ring_is_there ? in(ring_, ring_count_) : -1;
  if (index < 0) {
    index = in(anonymous_, kBufferLimit - kRingBuffers);
    if (index >= 0) index += kRingBuffers;
  }
  return index >= 0 && (out >> index & 1) != 0 ? index : -1;
}

bool BufferPool::MarkReturned(int index) {
  const uint64_t bit = uint64_t{1} << index;
  if ((__atomic_fetch_or(&returned_, bit, __ATOMIC_ACQUIRE) & bit) != 0) return false;
  if (index < kRingBuffers)
    StoreRelaxed(ring_states_[index], static_cast<uint32_t>(schema::GpuBufferState::kReturned));
  return true;
}

void BufferPool::GiveBack(int index) {
  if (index < kRingBuffers) StoreRelaxed(ring_states_[index], static_cast<uint32_t>(schema::GpuBufferState::kFree));
  __atomic_fetch_and(&returned_, ~(uint64_t{1} << index), __ATOMIC_RELAXED);
  __atomic_fetch_and(&out_, ~(uint64_t{1} << index), __ATOMIC_RELEASE);
}

}  // namespace rankscope::cupti
