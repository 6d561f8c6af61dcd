// See log.h.
#include "recorder/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "recorder/atomic_word.h"

namespace rankscope::recorder {
namespace {

LogLevel g_level = LogLevel::kWarning;  // written at start only, while other threads may have something to say

__attribute__((format(printf, 1, 0))) void WriteLine(const char* format, va_list arguments) {
  const int saved_errno = errno;
  char line[1024];
  constexpr char kPrefix[] = "rankscope: ";
  constexpr size_t kPrefixBytes = sizeof(kPrefix) - 1;
  memcpy(line, kPrefix, kPrefixBytes);
  const int written = vsnprintf(line + kPrefixBytes, sizeof(line) - kPrefixBytes - 1, format, arguments);
  if (written >= 0) {
    size_t length = kPrefixBytes + static_cast<size_t>(written);
    if (length > sizeof(line) - 2) length = sizeof(line) - 2;
    line[length++] = '\n';
    if (write(STDERR_FILENO, line, length) < 0) {
      // Nowhere to say it.
    }
  }
  errno = saved_errno;
}

}  // namespace

void SetLogLevel(LogLevel level) { StoreRelaxed(g_level, level); }

void LogWarning(const char* format, ...) {
  if (LoadRelaxed(g_level) < LogLevel::kWarning) return;
  va_list arguments;
  va_start(arguments, format);
  WriteLine(format, arguments);
  va_end(arguments);
}

void LogInfo(const char* format, ...) {
  if (LoadRelaxed(g_level) < LogLevel::kInfo) return;
  va_list arguments;
  va_start(arguments, format);
  WriteLine(format, arguments);
  va_end(arguments);
}

}  // namespace rankscope::recorder
