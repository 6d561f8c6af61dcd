// Relaxed, acquire and release access to plain words of the ring.
//
// The ring's structs (schema/ring_abi.h) are plain integers, since readers of other builds and languages share them; every
// access by the recorder to a word that another thread or process may touch goes through these. Called on every thread,
// hot path included: each is one instruction.
#ifndef RANKSCOPE_RECORDER_ATOMIC_WORD_H_
#define RANKSCOPE_RECORDER_ATOMIC_WORD_H_

#include <atomic>
#include <cstdint>

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
template <typename T>
inline bool CompareExchange(T& word, T expected, T desired) {
  return __atomic_compare_exchange_n(&word, &expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}
// A release fence before the fields of a record, as schema/ring_abi.h draws it. ThreadSanitizer knows no fences; under it
// the fields themselves are atomic, so leaving it out hides no race from it.
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
