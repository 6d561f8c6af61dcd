// See identity.h.
#include "recorder/identity.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <initializer_list>

#include "recorder/clock.h"
#include "recorder/config.h"

#ifndef RANKSCOPE_VERSION
#define RANKSCOPE_VERSION "0"
#endif

namespace rankscope::recorder {
namespace {

template <size_t N>
void CopyField(const char* text, char (&out)[N]) {
  if (text == nullptr) text = "";
  size_t length = strnlen(text, N - 1);
  memcpy(out, text, length);
  memset(out + length, 0, N - length);
}

// Reads a small file of /proc or /sys; returns the bytes read, 0 on failure.
size_t ReadSmallFile(const char* path, char* out, size_t out_bytes) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  size_t total = 0;
  while (total + 1 < out_bytes) {
    const ssize_t got = read(fd, out + total, out_bytes - 1 - total);
    if (got <= 0) break;
    total += static_cast<size_t>(got);
  }
  close(fd);
  out[total] = '\0';
  return total;
}

// A whole non-negative number, or `missing`.
int32_t EnvironmentNumber(const char* name, int32_t missing) {
  const char* text = getenv(name);
  if (text == nullptr || *text < '0' || *text > '9') return missing;
  char* end = nullptr;
  const unsigned long value = strtoul(text, &end, 10);
  if (*end != '\0' || value > 0x7fffffffu) return missing;
  return static_cast<int32_t>(value);
}
int32_t FirstNumber(std::initializer_list<const char*> names, int32_t missing) {
  for (const char* name : names) {
    const int32_t value = EnvironmentNumber(name, missing);
    if (value != missing) return value;
  }
  return missing;
}
bool HasValue(const char* name) {
  const char* text = getenv(name);
  return text != nullptr && *text != '\0';
}

struct EnvironmentRank {
  int32_t rank = -1;
  int32_t world_size = 0;
  schema::RankSource source = schema::RankSource::kNone;
};

// SLURM_PROCID is a rank only where Slurm started the workers itself: with one task a node it is the node's number
// and every worker of the node inherits it, unless the node has just one worker.
bool SlurmTaskIsRank() {
  const int32_t tasks = FirstNumber({"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"}, 0);
  const int32_t nodes = FirstNumber({"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"}, 0);
  if (tasks > nodes && nodes > 0) return true;
  const char* visible = getenv("CUDA_VISIBLE_DEVICES");
  return tasks > 0 && tasks == nodes && visible != nullptr && *visible != '\0' && strchr(visible, ',') == nullptr;
}

EnvironmentRank RankFromEnvironment() {
  using schema::RankSource;
  const int32_t rank = EnvironmentNumber("RANK", -1);
  const int32_t world = EnvironmentNumber("WORLD_SIZE", 0);
  if (rank >= 0 && world > 0 && (HasValue("LOCAL_RANK") || HasValue("TORCHELASTIC_RUN_ID"))) {
    return {rank, world, RankSource::kTorch};
  }
  const int32_t ompi = EnvironmentNumber("OMPI_COMM_WORLD_RANK", -1);
  if (ompi >= 0) return {ompi, EnvironmentNumber("OMPI_COMM_WORLD_SIZE", 0), RankSource::kOpenMpi};
  const int32_t pmi = FirstNumber({"PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK"}, -1);
  if (pmi >= 0)
    return {pmi, FirstNumber({"PMI_SIZE", "PMIX_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_NTASKS"}, 0), RankSource::kPmi};
  const int32_t slurm = EnvironmentNumber("SLURM_PROCID", -1);
  if (slurm >= 0 && SlurmTaskIsRank()) {
    return {slurm, FirstNumber({"SLURM_NTASKS", "SLURM_NPROCS"}, 0), RankSource::kSlurm};
  }
  return {};
}

const char* LauncherName() {
  if (HasValue("TORCHELASTIC_RUN_ID")) return "torchrun";
  if (HasValue("CROSS_RANK") || HasValue("LOCAL_SIZE")) return "deepspeed";
  if (HasValue("OMPI_COMM_WORLD_RANK")) return "openmpi";
  if (HasValue("MV2_COMM_WORLD_RANK")) return "mvapich";
  if (HasValue("PMIX_RANK") || HasValue("PMI_RANK")) return "pmi";
  if (HasValue("RANK") && HasValue("WORLD_SIZE")) return "torch-environment";
  if (HasValue("SLURM_PROCID")) return "slurm";
  return "unknown";
}

void CopyCommandLine(char* out, size_t out_bytes) {
  const size_t length = ReadSmallFile("/proc/self/cmdline", out, out_bytes);
  for (size_t i = 0; i < length; ++i) {
    const unsigned char c = static_cast<unsigned char>(out[i]);
    if (c == 0 && i + 1 < length)
      out[i] = ' ';
    else if (c < 0x20 && c != 0)
      out[i] = '?';
  }
}

// Field 22 of /proc/self/stat, counted after the closing parenthesis of the name (proc(5)).
uint64_t ProcessStartTicks() {
  char text[1024];
  if (ReadSmallFile("/proc/self/stat", text, sizeof(text)) == 0) return 0;
  const char* at = strrchr(text, ')');
  if (at == nullptr) return 0;
  for (int field = 2; field < 22 && at != nullptr; ++field) at = strchr(at + 1, ' ');
  return at == nullptr ? 0 : strtoull(at + 1, nullptr, 10);
}

}  // namespace

void DescribeProcess(schema::ProcessIdentity* identity) {
  identity->rank = identity->env_rank = identity->local_rank = identity->node_rank = -1;
  identity->restart_count = identity->device = -1;
  identity->pid = static_cast<uint32_t>(getpid());
  identity->parent_pid = static_cast<uint32_t>(getppid());
  identity->uid = static_cast<uint32_t>(getuid());
  identity->process_start_ticks = ProcessStartTicks();
  identity->start_realtime_ns = RealtimeNs();
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  CopyField(host, identity->host);
  char boot[64] = {};
  ReadSmallFile("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
  boot[strcspn(boot, "\n")] = '\0';
  CopyField(boot, identity->boot_id);
  char command[sizeof(identity->command)] = {};
  CopyCommandLine(command, sizeof(command));
  CopyField(command, identity->command);
  CopyField(RANKSCOPE_VERSION, identity->library_version);
}

void ReadEnvironmentIdentity(schema::ProcessIdentity* identity) {
  const EnvironmentRank found = RankFromEnvironment();
  identity->env_rank = found.rank;
  identity->env_world_size = found.world_size;
  identity->env_rank_source = static_cast<uint32_t>(found.source);
  if (identity->rank_source != static_cast<uint32_t>(schema::RankSource::kCommunicator)) {
    identity->rank = found.rank;
    identity->world_size = found.world_size;
    identity->rank_source = static_cast<uint32_t>(found.source);
  }
  identity->local_rank = FirstNumber({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                      "PALS_LOCAL_RANKID", "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"},
                                     -1);
  identity->local_world_size =
      FirstNumber({"LOCAL_WORLD_SIZE", "LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"}, 0);
  identity->node_rank = FirstNumber({"GROUP_RANK", "NODE_RANK", "CROSS_RANK", "SLURM_NODEID"}, -1);
  identity->restart_count = EnvironmentNumber("TORCHELASTIC_RESTART_COUNT", -1);
  CopyField(LauncherName(), identity->launcher);
  const char* run_id = getenv("TORCHELASTIC_RUN_ID");
  CopyField(run_id != nullptr ? run_id : getenv("SLURM_JOB_ID"), identity->run_id);
  CopyField(getenv("CUDA_VISIBLE_DEVICES"), identity->gpu_visible);
}

void LearnRankFromCommunicator(schema::ProcessIdentity* identity, int32_t rank, int32_t ranks) {
  if (rank < 0 || ranks <= 0 || rank >= ranks) return;
  const bool from_communicator = identity->rank_source == static_cast<uint32_t>(schema::RankSource::kCommunicator);
  if (from_communicator ? ranks <= identity->world_size : ranks < identity->env_world_size) return;
  // A communicator of one rank proves nothing about the world.
  if (ranks == 1 && identity->env_rank >= 0) return;
  identity->rank = rank;
  identity->world_size = ranks;
  identity->rank_source = static_cast<uint32_t>(schema::RankSource::kCommunicator);
}

void DescribeAccelerator(schema::ProcessIdentity* identity) {
  using GetVersion = int (*)(int*);
  if (identity->nccl_version == 0) {
    if (auto get = reinterpret_cast<GetVersion>(dlsym(RTLD_DEFAULT, "ncclGetVersion"))) {
      int version = 0;
      if (get(&version) == 0) identity->nccl_version = version;
    }
  }
  if (identity->device >= 0) return;
  // Only a driver that is there already: RTLD_NOLOAD never brings one in. NCCL has the communicator's device current
  // in init.
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return;
  auto get_device = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuCtxGetDevice"));
  int device = -1;
  if (get_device != nullptr && get_device(&device) == 0) {
    identity->device = device;
    unsigned char uuid[16] = {};
    auto get_uuid = reinterpret_cast<int (*)(void*, int)>(dlsym(driver, "cuDeviceGetUuid"));
    if (get_uuid != nullptr && get_uuid(uuid, device) == 0) {
      char text[64];
      int length = snprintf(text, sizeof(text), "GPU-");
      for (int i = 0; i < 16; ++i) {
        const bool dash = i == 4 || i == 6 || i == 8 || i == 10;
        length +=
            snprintf(text + length, sizeof(text) - static_cast<size_t>(length), dash ? "-%02x" : "%02x", uuid[i]);
      }
      CopyField(text, identity->device_uuid);
    }
  }
  dlclose(driver);
}

void JobFromEnvironment(char* job, size_t job_bytes) {
  // torchrun's id is "none" where nobody gave one, and DeepSpeed's elastic agent has a constant one.
  const char* run_id = getenv("TORCHELASTIC_RUN_ID");
  const bool useful =
      run_id != nullptr && *run_id != '\0' && strcmp(run_id, "none") != 0 && strcmp(run_id, "123456789") != 0;
  char name[kNameLimit * 2];
  if (useful) {
    snprintf(name, sizeof(name), "torch-%s", run_id);
  } else if (HasValue("SLURM_JOB_ID")) {
    const char* step = getenv("SLURM_STEP_ID");
    snprintf(name, sizeof(name), "slurm-%s%s%s", getenv("SLURM_JOB_ID"), step != nullptr ? "." : "",
             step != nullptr ? step : "");
  } else if (HasValue("PBS_JOBID")) {
    snprintf(name, sizeof(name), "pbs-%s", getenv("PBS_JOBID"));
  } else if (HasValue("LSB_JOBID")) {
    snprintf(name, sizeof(name), "lsf-%s", getenv("LSB_JOBID"));
  } else if (HasValue("OMPI_MCA_ess_base_jobid")) {
    snprintf(name, sizeof(name), "mpi-%s", getenv("OMPI_MCA_ess_base_jobid"));
  } else if (HasValue("MASTER_ADDR") && HasValue("MASTER_PORT")) {
    snprintf(name, sizeof(name), "job-%s-%s", getenv("MASTER_ADDR"), getenv("MASTER_PORT"));
  } else {
    snprintf(name, sizeof(name), "job");
  }
  CopySafeName(name, job, job_bytes);
}

}  // namespace rankscope::recorder
