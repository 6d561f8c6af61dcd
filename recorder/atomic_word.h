// Relaxed, acquire and release access to plain words of the ring.
//
// The ring's structs (schema/ring_abi.h) are plain integers, since readers of other builds and languages share them;
// every access by the recorder to a word that another thread or process may touch goes through these. Called on every
// thread, hot path included: each is one instruction.
#ifndef RANKSCOPE_RECORDER_ATOMIC_WORD_H_
#define RANKSCOPE_RECORDER_ATOMIC_WORD_H_

#include <atomic>
#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace rankscope::recorder {

template <typename T>
inline T LoadRelaxed(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
}
template <typename T>
inline T LoadAcquire(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}
template <typename T, typename V>
inline void StoreRelaxed(T& word, V value) {
  __atomic_store_n(&word, static_cast<T>(value), __ATOMIC_RELAXED);
}
template <typename T, typename V>
inline void StoreRelease(T& word, V value) {
  __atomic_store_n(&word, static_cast<T>(value), __ATOMIC_RELEASE);
}
// For a word with one writer: no locked instruction, and readers never see half a value.
template <typename T, typename V>
inline void AddSingleWriter(T& word, V value) {
  StoreRelaxed(word, static_cast<T>(LoadRelaxed(word) + static_cast<T>(value)));
}
// For a word with several writers: a locked instruction.
template <typename T, typename V>
inline T AddShared(T& word, V value) {
  return __atomic_fetch_add(&word, static_cast<T>(value), __ATOMIC_RELAXED);
}
template <typename T, typename V>
inline void OrShared(T& word, V bits) {
  __atomic_fetch_or(&word, static_cast<T>(bits), __ATOMIC_RELAXED);
}
template <typename T, typename V>
inline void AndShared(T& word, V bits) {
  __atomic_fetch_and(&word, static_cast<T>(bits), __ATOMIC_RELAXED);
}
template <typename T>
inline bool CompareExchange(T& word, T expected, T desired) {
  return __atomic_compare_exchange_n(&word, &expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}
// Two neighbouring words at once, each of them relaxed: half as many stores on the hot path. A reader may see one
// without the other, as with two stores. ThreadSanitizer sees the two stores.
struct WordPair {
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)
  __m128i value;
#else
  uint64_t low, high;
#endif
};
inline WordPair MakePair(uint64_t low, uint64_t high) {
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)
  return {_mm_set_epi64x(static_cast<long long>(high), static_cast<long long>(low))};
#else
  return {low, high};
#endif
}
inline WordPair LoadPair(const uint64_t* words) {
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)
  return {_mm_loadu_si128(reinterpret_cast<const __m128i*>(words))};
#else
  return {LoadRelaxed(words[0]), LoadRelaxed(words[1])};
#endif
}
inline void StorePair(uint64_t* words, WordPair pair) {
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(words), pair.value);
#else
  StoreRelaxed(words[0], pair.low);
  StoreRelaxed(words[1], pair.high);
#endif
}
// A release fence before the fields of a record, as schema/ring_abi.h draws it. ThreadSanitizer knows no fences;
// under it the fields themselves are atomic, so leaving it out hides no race from it.
inline void FenceRelease() {
#if !defined(__SANITIZE_THREAD__)
  std::atomic_thread_fence(std::memory_order_release);
#endif
}
inline void FenceAcquire() {
#if !defined(__SANITIZE_THREAD__)
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

}  // namespace rankscope::recorder

#endif  // RANKSCOPE_RECORDER_ATOMIC_WORD_H_
