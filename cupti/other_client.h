// Another client's session with CUPTI, where its calls are interposed (preload/interpose_cupti.cc): whether there is
// one, and whether it is over. Written on the client's threads, read by the flush thread; words, no lock.
#ifndef RANKSCOPE_CUPTI_OTHER_CLIENT_H_
#define RANKSCOPE_CUPTI_OTHER_CLIENT_H_

#include <cstdint>

namespace rankscope::cupti {

enum class OtherClient {
  kNone,       // none was seen
  kPresent,    // it has our callbacks' place
  kGone,       // it has turned off all that it had turned on, flushed by force, and been quiet for a second
  kFinalized,  // it took CUPTI down
};
OtherClient SeenOtherClient(uint64_t now_ns);
// When its last call was; 0 = none.
uint64_t OtherClientLastNs();
// We have registered again: its session is history.
void ForgetOtherClient();

}  // namespace rankscope::cupti

#endif  // RANKSCOPE_CUPTI_OTHER_CLIENT_H_
