// Which NCCL events are asked for, by API version, and which kinds of record that makes. Called from init only.
#ifndef RANKSCOPE_PLUGIN_EVENT_MASK_H_
#define RANKSCOPE_PLUGIN_EVENT_MASK_H_

#include <cstdint>

namespace rankscope::plugin {

struct EventChoice {
  uint32_t mask = 0;          // NCCL's event bits to switch on
  uint64_t record_kinds = 0;  // bit k: events of kind k (schema::EventKind) become records
  bool refused = false;       // something that the user asked for is not safe, or not there, in this version
};

// `events` are recorder::NcclEventBits. What a version lacks or makes unsafe is left out and said in `refused`.
EventChoice ChooseEvents(int api_version, uint32_t events);

// Says once what a user who asks for kernel channels should know of this version. Logs; init only.
void WarnAboutEvents(int api_version, uint32_t events);

// Adds `bits` to the process's one mask without disturbing what others put there.
void MergeMask(int* activation_mask, uint32_t bits);

}  // namespace rankscope::plugin

#endif  // RANKSCOPE_PLUGIN_EVENT_MASK_H_
