// What the names of recent collectives decoded to, per lane: a training step repeats a few combinations of function,
// type, algorithm and protocol. An entry counts only where the addresses AND the bytes behind them are the same, so a
// reused address can't lie. Hot path; an entry is written by its lane's thread alone.
#ifndef RANKSCOPE_PLUGIN_NAME_MEMO_H_
#define RANKSCOPE_PLUGIN_NAME_MEMO_H_

#include <cstdint>

#include "plugin/nccl_names.h"
#include "plugin/slot_words.h"
#include "recorder/atomic_word.h"
#include "recorder/lane.h"

namespace rankscope::plugin {

inline constexpr int kMemoNames = 4;
inline constexpr int kMemoEntries = 16;

struct alignas(32) NameMemo {
  uint64_t inverted_address[kMemoNames];  // zero = empty: no name lies at the last address there is
  uint64_t bytes[kMemoNames][2];          // 16 bytes from each name's start, whatever follows its end
  uint32_t names;                         // PackNames
};
extern NameMemo g_name_memos[recorder::kLaneLimit][kMemoEntries];

// Decodes and remembers.
uint32_t DecodeNames(NameMemo* memo, const char* func, const char* dtype, const char* algo, const char* proto);

// True if the 16 bytes at each address are those remembered. Addresses are remembered only where 16 bytes can be
// read.
#if defined(__SSE2__)
RANKSCOPE_READS_BEYOND_THE_NAME bool SameBytes(const NameMemo& memo, const char* a, const char* b, const char* c,
                                               const char* d) {
  const auto* kept = reinterpret_cast<const __m128i*>(memo.bytes);
  // No lambda and no loop over an array of pointers: this function alone is exempt from AddressSanitizer.
  const __m128i first = _mm_cmpeq_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a)), kept[0]);
  const __m128i second = _mm_cmpeq_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b)), kept[1]);
  const __m128i third = _mm_cmpeq_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(c)), kept[2]);
  const __m128i fourth = _mm_cmpeq_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(d)), kept[3]);
  const __m128i equal = _mm_and_si128(_mm_and_si128(first, second), _mm_and_si128(third, fourth));
  return _mm_movemask_epi8(equal) == 0xffff;
}
#else
RANKSCOPE_READS_BEYOND_THE_NAME bool SameBytes(const NameMemo& memo, const char* a, const char* b, const char* c,
                                               const char* d) {
  const char* const text[kMemoNames] = {a, b, c, d};
  uint64_t differs = 0;
  for (int i = 0; i < kMemoNames; ++i) {
    uint64_t now[2];
    __builtin_memcpy(now, text[i], 16);
    differs |= (now[0] ^ memo.bytes[i][0]) | (now[1] ^ memo.bytes[i][1]);
  }
  return differs == 0;
}
#endif

// The same function comes with several types and protocols, and from calls as well as from launches: both ends count.
inline NameMemo& MemoFor(const recorder::Lane* lane, const char* func, const char* proto) {
  const uint64_t address = reinterpret_cast<uint64_t>(func) + 3 * reinterpret_cast<uint64_t>(proto);
  return g_name_memos[lane->index][(address ^ address >> 4) & (kMemoEntries - 1)];
}

// The names if the lane has decoded just these before; a function without calls.
inline __attribute__((always_inline)) bool RememberedNames(const recorder::Lane* lane, const char* func,
                                                           const char* dtype, const char* algo, const char* proto,
                                                           uint32_t* names) {
  const NameMemo& memo = MemoFor(lane, func, proto);
  const uint64_t same = (reinterpret_cast<uint64_t>(func) ^ memo.inverted_address[0]) &
                        (reinterpret_cast<uint64_t>(dtype) ^ memo.inverted_address[1]) &
                        (reinterpret_cast<uint64_t>(algo) ^ memo.inverted_address[2]) &
                        (reinterpret_cast<uint64_t>(proto) ^ memo.inverted_address[3]);
  if (__builtin_expect(same != ~uint64_t{0}, 0)) return false;
  *names = memo.names;
  return SameBytes(memo, func, dtype, algo, proto);
}

}  // namespace rankscope::plugin

#endif  // RANKSCOPE_PLUGIN_NAME_MEMO_H_
