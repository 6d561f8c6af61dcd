// The buffers that CUPTI fills: a fixed set, handed out and taken back without a lock.
//
// Take() runs on the application's own thread inside a CUDA call; it makes no system call and no allocation. CUPTI
// owns a buffer from Take() to its completion and writes into it whenever it likes, so the memory stays for the life
// of the process. Buffers that lie in the ring survive a SIGKILL with what CUPTI had written; those beyond them are
// anonymous memory that costs nothing until it is used. Must never: free a buffer, or hand one out that has not come
// back.
#ifndef RANKSCOPE_CUPTI_BUFFER_POOL_H_
#define RANKSCOPE_CUPTI_BUFFER_POOL_H_

#include <cstdint>

#include "recorder/atomic_word.h"
#include "recorder/ring_file.h"

namespace rankscope::cupti {

inline constexpr uint64_t kBufferBytes = recorder::kGpuBufferBytes;
inline constexpr int kBufferLimit = 64;

class BufferPool {
 public:
  constexpr BufferPool() = default;

  // Reserves the anonymous memory. Once, at arm time; false if there is none.
  bool Prepare();
  // The ring is there now: its buffers are handed out first. Once a ring; not in the hot path.
  void AddRing(char* buffers, uint32_t count, uint32_t* states);

  // A buffer, or nullptr: all are out.
  uint8_t* Take();
  // The index of a buffer that is out, -1 if `buffer` is not one of ours or not out.
  int IndexOf(const uint8_t* buffer) const;
  // CUPTI gave it back: true for the first who says so, who then owns it until GiveBack.
  bool MarkReturned(int index);
  void GiveBack(int index);
  // A buffer whose contents nobody reads, for releases of CUPTI that can't take a refusal. Always the same one.
  uint8_t* sacrificial() const { return sacrificial_; }

  uint32_t out() const { return static_cast<uint32_t>(__builtin_popcountll(recorder::LoadRelaxed(out_))); }

 private:
  uint8_t* Address(int index) const;

  uint64_t out_ = 0;              // bit i: buffer i is CUPTI's
  uint64_t there_ = 0;            // bit i: buffer i exists
  uint64_t returned_ = 0;         // bit i: it came back and is being read
  uint8_t* anonymous_ = nullptr;  // buffers [ring_count_limit, kBufferLimit)
  uint8_t* sacrificial_ = nullptr;
  uint8_t* ring_ = nullptr;
  uint32_t* ring_states_ = nullptr;
  uint32_t ring_count_ = 0;
};

// Buffers [0, kRingBuffers) may lie in the ring, the others are anonymous.
inline constexpr int kRingBuffers = 32;

}  // namespace rankscope::cupti

#endif  // RANKSCOPE_CUPTI_BUFFER_POOL_H_
