// Kernel names: from the string that a record points to, to its id in the ring, at the price of comparing it once.
//
// CUPTI's strings are shared by all records of a kernel, so the address finds the id; but a module that was unloaded
// may leave its addresses to other names, so the bytes are compared each time. Called inside the complete callback,
// by several threads at once; no lock, no allocation. A name longer than the ring keeps of one is compared as far as
// it is kept.
#ifndef RANKSCOPE_CUPTI_NAME_TABLE_H_
#define RANKSCOPE_CUPTI_NAME_TABLE_H_

#include <cstdint>

#include "schema/event_abi.h"

namespace rankscope::cupti {

struct KernelName {
  uint32_t id = 0;  // 0 = no name
  schema::GpuKernelClass kind = schema::GpuKernelClass::kOther;
};

// A number for one reading of a buffer.
uint32_t NewReading();

// `name` may be nullptr. The ring must be active.
KernelName FindKernelName(const char* name, uint32_t reading);

// A new ring has no names yet.
void ForgetKernelNames();

// By NCCL's names of all releases, mangled or not (cupti.md 5.5).
schema::GpuKernelClass ClassifyKernel(const char* name);

}  // namespace rankscope::cupti

#endif  // RANKSCOPE_CUPTI_NAME_TABLE_H_
