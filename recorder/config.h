// The recorder's settings: one table of environment variables, read once when the ring is made.
//
// Each RANKSCOPE_X is also read as NCCL_RANKSCOPE_X, because DeepSpeed's multi-node launcher and others forward only
// names that begin with NCCL. The plain name wins. Called by the starting thread only, never on the hot path.
#ifndef RANKSCOPE_RECORDER_CONFIG_H_
#define RANKSCOPE_RECORDER_CONFIG_H_

#include <cstddef>
#include <cstdint>

#include "recorder/log.h"

namespace rankscope::recorder {

struct Setting {
  const char* name;      // without the RANKSCOPE_ prefix
  const char* fallback;  // as text, for the documentation
  const char* help;
};

// Every setting there is; docs/environment.md is checked against it.
inline constexpr Setting kSettings[] = {
    {"DISABLE", "0", "1 = record nothing in this process"},
    {"DIR", "/dev/shm/rankscope-<uid>", "directory of the rings; made with mode 0700"},
    {"FALLBACK_DIR", "(none)", "directory to use where the first has no room or can't be used"},
    {"JOB", "from the launcher", "name of the job: the folder of its rings"},
    {"RING_BYTES", "32M", "size of a process's ring; K, M, G; 1M to 16G; made smaller where it doesn't fit"},
    {"NCCL_EVENTS", "default",
     "NCCL events to record, by name, comma separated: default, all, group, coll, p2p, api, "
     "launch, proxyop, proxystep, proxyctrl, kernelch, netplugin, ce, kernelphase; -name takes one away"},
    {"CUPTI", "1", "0 = never touch CUPTI; 1 = GPU records while nobody else has CUPTI; exclusive = keep others out"},
    {"GPU_EVENTS", "default",
     "GPU records to ask for, comma separated: default, none, kernel, memcpy, memset, sync, memory, graph, overhead, "
     "api (every CUDA call: kernels get the phase of the thread that launched them); "
     "graphnodes = every kernel of a CUDA graph; -name takes one away"},
    {"CUPTI_LIB", "(found)", "libcupti to open where none is in the process"},
    {"CUPTI_RESUME_S", "600", "seconds to stay away from CUPTI after another client took it"},
    {"CALL_STACKS", "0",
     "1 = who calls NCCL: stacks of its callers, under LD_PRELOAD where NCCL is a shared library"},
    {"HOOK", "1", "0 = the Python hook does nothing"},
    {"MODE", "flight", "flight = keep the newest events; the only mode of this release"},
    {"CLOCK", "auto", "auto or monotonic"},
    {"LOG", "warning", "off, warning, info: what goes to stderr"},
};

// The NCCL event groups of RANKSCOPE_NCCL_EVENTS, as bits of NcclEventSet.
enum NcclEventBits : uint32_t {
  kEventsGroup = 1u << 0,
  kEventsColl = 1u << 1,
  kEventsP2p = 1u << 2,
  kEventsApi = 1u << 3,
  kEventsLaunch = 1u << 4,
  kEventsProxyOp = 1u << 5,  // a record for each
  kEventsProxyStep = 1u << 6,
  kEventsProxyCtrl = 1u << 7,
  kEventsKernelCh = 1u << 8,
  kEventsNetPlugin = 1u << 9,
  kEventsCe = 1u << 10,        // CeColl
  kEventsCeDetail = 1u << 11,  // CeSync, CeBatch
  kEventsKernelPhase = 1u << 12,
  kEventsCompletion = 1u << 13,  // ask for ProxyOp in order to know when operations end
};
inline constexpr uint32_t kEventsDefault =
    kEventsGroup | kEventsColl | kEventsP2p | kEventsApi | kEventsLaunch | kEventsCe | kEventsCompletion;
inline constexpr uint32_t kEventsAll = (1u << 14) - 1;

inline constexpr size_t kPathLimit = 512;
inline constexpr size_t kNameLimit = 128;

struct Config {
  bool disabled = false;
  LogLevel log_level = LogLevel::kWarning;
  uint32_t nccl_events = kEventsDefault;
  uint64_t ring_bytes = 32ull << 20;
  char dir[kPathLimit] = {};           // never empty
  char fallback_dir[kPathLimit] = {};  // empty = none
  char job[kNameLimit] = {};           // as the user gave it, made safe for a file name; empty = from the launcher
};

// Value of a setting from the environment: RANKSCOPE_<name>, else NCCL_RANKSCOPE_<name>, else nullptr.
const char* SettingValue(const char* name);

// Reads all settings. A value that can't be used is named in one sentence and its default is taken.
Config ReadConfig();

// True where RANKSCOPE_CLOCK asks for CLOCK_MONOTONIC.
bool ReadsMonotonicClock();

// The parts of ReadConfig that tests reach on their own.
bool ParseBytes(const char* text, uint64_t* bytes);
bool ParseEventList(const char* text, uint32_t* events, char* unknown, size_t unknown_bytes);
// Copies `text` with every character that isn't [A-Za-z0-9._-] replaced by '_', no leading dot, cut to the room.
void CopySafeName(const char* text, char* out, size_t out_bytes);

}  // namespace rankscope::recorder

#endif  // RANKSCOPE_RECORDER_CONFIG_H_
