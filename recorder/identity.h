// Who this process is: host, job, launcher and rank by the rules that docs/design.md states.
// Called at start and when a communicator is made, never on the hot path; reads the environment and /proc, nothing
// else.
#ifndef RANKSCOPE_RECORDER_IDENTITY_H_
#define RANKSCOPE_RECORDER_IDENTITY_H_

#include <cstddef>

#include "schema/ring_abi.h"

namespace rankscope::recorder {

// Fills what doesn't change: host, boot, pid, uid, command, start.
void DescribeProcess(schema::ProcessIdentity* identity);

// Rank, world, local rank, launcher, run id, restart count from the environment, by these rules in order: RANK with
// WORLD_SIZE and (LOCAL_RANK or TORCHELASTIC_RUN_ID); OMPI_COMM_WORLD_RANK; PMIX_RANK or PMI_RANK; SLURM_PROCID where
// Slurm started more tasks than nodes, or the node has one GPU to show; none. Does not touch a rank that NCCL gave.
void ReadEnvironmentIdentity(schema::ProcessIdentity* identity);

// The largest communicator overrules the environment where it covers at least the world that the environment spoke
// of.
void LearnRankFromCommunicator(schema::ProcessIdentity* identity, int32_t rank, int32_t ranks);

// NCCL's version and the CUDA device, where their libraries are in the process and findable; both optional.
void DescribeAccelerator(schema::ProcessIdentity* identity);

// The job's name where the user gave none: the scheduler's or launcher's id, safe as a file name.
void JobFromEnvironment(char* job, size_t job_bytes);

}  // namespace rankscope::recorder

#endif  // RANKSCOPE_RECORDER_IDENTITY_H_
