// Extended payloads of NVTX: which bytes of a payload are what, from the schemas that a library registers with its
// domain. Taken out are the size of the message in bytes, the communicator, its size and the own rank in it, as NCCL
// (2.16 and later; the communicator since 2.25) names them. Registration comes once a schema, reading is on the hot
// path; any thread, no lock. Must never read a payload beyond the size that its caller gives.
#ifndef RANKSCOPE_SHIM_NVTX_PAYLOAD_H_
#define RANKSCOPE_SHIM_NVTX_PAYLOAD_H_

#include "shim/nvtx_abi.h"
#include "shim/range_names.h"
#include "shim/range_stack.h"

namespace rankscope::shim {

// The schema's id: the caller's own, or one of ours.
uint64_t RegisterSchema(uint32_t domain, const nvtx::SchemaAttributes* schema);
// What the payloads say; `present` if any of them has a known schema with something of interest.
RangeExtra ReadPayloads(uint32_t domain, const nvtx::PayloadData* payloads, size_t count);
// The name of the first payload's schema: ranges that are pushed by payload alone have no other.
NameInfo SchemaName(uint32_t domain, const nvtx::PayloadData* payloads, size_t count);

}  // namespace rankscope::shim

#endif  // RANKSCOPE_SHIM_NVTX_PAYLOAD_H_
