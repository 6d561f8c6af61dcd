// CUPTI's activity records, as they lie in a returned buffer, into records of the ring.
//
// Called inside CUPTI's complete callback, on CUPTI's thread or on the one that flushes, by several at once. Reads no
// field beyond the stride that the loaded library steps by. Must never: allocate, lock, keep a pointer into the
// buffer, or take a time on trust: each record's times are checked and counted by reason where they can't be right.
#ifndef RANKSCOPE_CUPTI_RECORD_DECODER_H_
#define RANKSCOPE_CUPTI_RECORD_DECODER_H_

#include <cstddef>
#include <cstdint>

#include "cupti/cupti_calls.h"
#include "schema/ring_abi.h"

namespace rankscope::cupti {

struct DecodeContext {
  const uint16_t* strides = nullptr;  // by kind, schema::kCuptiKindLimit of them
  const Calls* calls = nullptr;       // for stepping over kinds whose stride is not known; may be nullptr
  uint64_t earliest_ns = 0;           // CUPTI's time: a record that began earlier is of another clock
};

struct DecodeCounts {
  uint64_t records = 0;    // into the ring
  uint64_t bad_times = 0;  // counted as a loss by reason, too
};

// Takes over the `valid_bytes` of a buffer. The ring must be active.
DecodeCounts DecodeBuffer(const DecodeContext& context, uint8_t* buffer, size_t valid_bytes);

}  // namespace rankscope::cupti

#endif  // RANKSCOPE_CUPTI_RECORD_DECODER_H_
