// See recording_options.h.
#include "tools/recording_options.h"

namespace rankscope::tools {

void AddRecordingOptions(CLI::App* command, RecordingOptions* options) {
  command->add_option("--dir", options->directory, "where the rings go (else /dev/shm/rankscope-<uid>)");
  command->add_option("--events", options->events, "NCCL events to record (docs/environment.md)");
  command->add_option("--gpu-events", options->gpu_events,
                      "GPU records to ask for (docs/environment.md), for example default,api");
  command->add_option("--ring-bytes", options->ring_bytes, "size of a process's ring, for example 64M");
  command->add_flag("--no-gpu", options->no_gpu, "leave CUDA_INJECTION64_PATH alone: no kernels and copies");
  command->add_flag("--no-nvtx", options->no_nvtx, "leave NVTX_INJECTION64_PATH alone: no ranges");
  command->add_flag("--preload", options->preload,
                    "LD_PRELOAD too: checkpoint and data files; with RANKSCOPE_CALL_STACKS=1 who calls NCCL");
  command->add_flag("--hook", options->hook,
                    "the Python hook too (PYTHONPATH): data loading, optimizer, checkpoints, garbage collection");
}

}  // namespace rankscope::tools
