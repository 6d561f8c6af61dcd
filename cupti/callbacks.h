// What CUPTI calls: for a buffer to fill, and with one that it has filled.
//
// RequestBuffer runs on the application's own thread in the middle of a CUDA call: no system call, no allocation, no
// lock. CompleteBuffer runs on CUPTI's thread or on the one that flushes, perhaps on several at once. Neither calls
// CUPTI (but for stepping over a record that this build doesn't know), and neither changes errno.
#ifndef RANKSCOPE_CUPTI_CALLBACKS_H_
#define RANKSCOPE_CUPTI_CALLBACKS_H_

#include <cstddef>
#include <cstdint>

namespace rankscope::cupti {

void RequestBuffer(uint8_t** buffer, size_t* bytes, size_t* most_records);
void CompleteBuffer(void* context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid_bytes);

// Makes the ring if there is none and lets the buffers lie in it; false where nothing is recorded. Not on the
// application's thread.
bool UseRing();

}  // namespace rankscope::cupti

#endif  // RANKSCOPE_CUPTI_CALLBACKS_H_
