// An in-flight slot as 64-bit words: fields that lie side by side are written and read together on the hot path.
#ifndef RANKSCOPE_PLUGIN_SLOT_WORDS_H_
#define RANKSCOPE_PLUGIN_SLOT_WORDS_H_

#include <cstddef>
#include <cstdint>

#include "schema/ring_abi.h"

namespace rankscope::plugin {

using schema::InFlightSlot;

enum SlotWord {
  kWordIssue = 1,
  kWordBegin = 2,
  kWordKind = 3,  // words 3 to 7 are those of the record
  kWordOperation = 4,
  kWordCount = 5,
  kWordSeqOrdinal = 6,
  kWordNames = 7,
  kWordChildren = 10,
  kWordThread = 14,
};
static_assert(offsetof(InFlightSlot, issue_ticks) == 8 * kWordIssue &&
              offsetof(InFlightSlot, begin_ticks) == 8 * kWordBegin);
static_assert(offsetof(InFlightSlot, kind) == 8 * kWordKind && offsetof(InFlightSlot, op_id) == 8 * kWordOperation);
static_assert(offsetof(InFlightSlot, count) == 8 * kWordCount && offsetof(InFlightSlot, seq) == 8 * kWordSeqOrdinal);
static_assert(offsetof(InFlightSlot, func) == 8 * kWordNames &&
              offsetof(InFlightSlot, root_or_peer) == 8 * kWordNames + 4);
static_assert(offsetof(InFlightSlot, children_started) == 8 * kWordChildren);
static_assert(offsetof(InFlightSlot, thread_id) == 8 * kWordThread &&
              offsetof(InFlightSlot, api_ordinal) == 8 * kWordThread + 4);

inline uint64_t* WordsOf(InFlightSlot* slot) { return reinterpret_cast<uint64_t*>(slot); }

inline constexpr uint64_t kMaxU32 = 0xffffffffu;
constexpr uint64_t Pair32(uint64_t low, uint64_t high) { return (low & kMaxU32) | high << 32; }

// func, dtype, algo, proto as one number, in the order in which slots and records hold them.
constexpr uint32_t PackNames(uint8_t func, uint8_t dtype, uint8_t algo = 0, uint8_t proto = 0) {
  return uint32_t{func} | uint32_t{dtype} << 8 | uint32_t{algo} << 16 | uint32_t{proto} << 24;
}
constexpr uint64_t NamesWord(uint32_t names, int32_t root_or_peer) {
  return uint64_t{names} | static_cast<uint64_t>(static_cast<uint32_t>(root_or_peer)) << 32;
}

}  // namespace rankscope::plugin

#endif  // RANKSCOPE_PLUGIN_SLOT_WORDS_H_
