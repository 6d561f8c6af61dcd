// See config.h.
#include "recorder/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <initializer_list>

namespace rankscope::recorder {
namespace {

struct EventName {
  const char* name;
  uint32_t bits;
};
constexpr EventName kEventNames[] = {
    {"default", kEventsDefault},
    {"all", kEventsAll},
    {"none", 0},
    {"group", kEventsGroup},
    {"coll", kEventsColl},
    {"p2p", kEventsP2p},
    {"api", kEventsApi},
    {"launch", kEventsLaunch},
    {"completion", kEventsCompletion},
    {"proxyop", kEventsProxyOp | kEventsCompletion},
    {"proxystep", kEventsProxyStep | kEventsCompletion},
    {"proxyctrl", kEventsProxyCtrl},
    {"kernelch", kEventsKernelCh},
    {"netplugin", kEventsNetPlugin},
    {"ce", kEventsCe | kEventsCeDetail},
    {"kernelphase", kEventsKernelPhase | kEventsKernelCh},
};

const EventName* FindEvent(const char* name, size_t length) {
  for (const EventName& entry : kEventNames) {
    if (strlen(entry.name) == length && strncmp(entry.name, name, length) == 0) return &entry;
  }
  return nullptr;
}

void CopyText(const char* text, char* out, size_t out_bytes) { snprintf(out, out_bytes, "%s", text); }

// A directory must be absolute: the process may change its working directory at any time.
void ReadDirectory(const char* name, char* out, size_t out_bytes) {
  const char* value = SettingValue(name);
  if (value == nullptr || value[0] == '\0') return;
  if (value[0] != '/' || strlen(value) >= out_bytes) {
    LogWarning("RANKSCOPE_%s is not an absolute path of under %zu characters; it is ignored", name, out_bytes);
    return;
  }
  CopyText(value, out, out_bytes);
}

void ReadLogLevel(Config* config) {
  const char* value = SettingValue("LOG");
  if (value == nullptr) return;
  if (strcmp(value, "off") == 0) {
    config->log_level = LogLevel::kOff;
  } else if (strcmp(value, "info") == 0) {
    config->log_level = LogLevel::kInfo;
  } else if (strcmp(value, "warning") != 0) {
    LogWarning("RANKSCOPE_LOG=%.40s is none of off, warning, info; warning is taken", value);
  }
}

}  // namespace

const char* SettingValue(const char* name) {
  char variable[96];
  for (const char* prefix : {"RANKSCOPE_", "NCCL_RANKSCOPE_"}) {
    snprintf(variable, sizeof(variable), "%s%s", prefix, name);
    if (const char* value = getenv(variable)) return value;
  }
  return nullptr;
}

bool ReadsMonotonicClock() {
  const char* value = SettingValue("CLOCK");
  return value != nullptr && strcmp(value, "monotonic") == 0;
}

bool ParseBytes(const char* text, uint64_t* bytes) {
  if (text[0] < '0' || text[0] > '9') return false;
  char* end = nullptr;
  errno = 0;
  const unsigned long long number = strtoull(text, &end, 10);
  if (errno == ERANGE) return false;
  int shift = 0;
  switch (*end) {
    case '\0':
      break;
    case 'k':
    case 'K':
      shift = 10;
      break;
    case 'm':
    case 'M':
      shift = 20;
      break;
    case 'g':
    case 'G':
      shift = 30;
      break;
    default:
      return false;
  }
  if (shift != 0 && end[1] != '\0' && strcmp(end + 1, "iB") != 0 && strcmp(end + 1, "B") != 0) return false;
  if (number > (UINT64_MAX >> shift)) return false;
  *bytes = static_cast<uint64_t>(number) << shift;
  return true;
}

bool ParseEventList(const char* text, uint32_t* events, char* unknown, size_t unknown_bytes) {
  uint32_t result = 0;
  bool first = true;
  for (const char* at = text; *at != '\0';) {
    const size_t span = strcspn(at, ",");
    const bool removes = *at == '-';
    const size_t skip = removes ? 1 : 0;
    const EventName* entry = FindEvent(at + skip, span - skip);
    if (span > 0 && entry == nullptr) {
      snprintf(unknown, unknown_bytes, "%.*s", static_cast<int>(span), at);
      return false;
    }
    if (span > 0) {
      if (first && removes) result = kEventsDefault;  // "-p2p" alone means the default without it
      result = removes ? result & ~entry->bits : result | entry->bits;
      first = false;
    }
    at += span;
    if (*at == ',') ++at;
  }
  *events = first ? kEventsDefault : result;
  return true;
}

void CopySafeName(const char* text, char* out, size_t out_bytes) {
  size_t length = 0;
  for (const char* at = text; *at != '\0' && length + 1 < out_bytes; ++at) {
    const char c = *at;
    const bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                      c == '-' || (c == '.' && length > 0);
    out[length++] = safe ? c : '_';
  }
  out[length] = '\0';
}

Config ReadConfig() {
  Config config;
  ReadLogLevel(&config);
  SetLogLevel(config.log_level);
  if (const char* value = SettingValue("DISABLE")) config.disabled = value[0] != '\0' && strcmp(value, "0") != 0;
  snprintf(config.dir, sizeof(config.dir), "/dev/shm/rankscope-%u", static_cast<unsigned>(getuid()));
  ReadDirectory("DIR", config.dir, sizeof(config.dir));
  ReadDirectory("FALLBACK_DIR", config.fallback_dir, sizeof(config.fallback_dir));
  if (const char* value = SettingValue("JOB")) CopySafeName(value, config.job, sizeof(config.job));
  if (const char* value = SettingValue("RING_BYTES")) {
    uint64_t bytes = 0;
    if (!ParseBytes(value, &bytes) || bytes < (1ull << 20) || bytes > (16ull << 30)) {
      LogWarning("RANKSCOPE_RING_BYTES=%.40s is not a size from 1M to 16G; 32M is taken", value);
    } else {
      config.ring_bytes = bytes;
    }
  }
  if (const char* value = SettingValue("NCCL_EVENTS")) {
    char unknown[64] = {};
    if (!ParseEventList(value, &config.nccl_events, unknown, sizeof(unknown))) {
      LogWarning(
          "RANKSCOPE_NCCL_EVENTS: '%s' is not an event's name; the default is taken (docs/environment.md has the "
          "names)",
          unknown);
      config.nccl_events = kEventsDefault;
    }
  }
  if (const char* value = SettingValue("MODE")) {
    if (strcmp(value, "flight") != 0)
      LogWarning("RANKSCOPE_MODE=%.40s is not known to this release; flight is taken", value);
  }
  if (const char* value = SettingValue("CLOCK")) {
    if (strcmp(value, "monotonic") != 0 && strcmp(value, "auto") != 0)
      LogWarning("RANKSCOPE_CLOCK=%.40s is none of auto, monotonic; auto is taken", value);
  }
  return config;
}

}  // namespace rankscope::recorder
