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

// A LogLevel. Written at start only, while other threads may have something to say.
uint32_t g_level = static_cast<uint32_t>(LogLevel::kWarning);

LogLevel Level() { return static_cast<LogLevel>(LoadRelaxed(g_level)); }

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

void SetLogLevel(LogLevel level) { StoreRelaxed(g_level, static_cast<uint32_t>(level)); }

void LogWarning(const char* format, ...) {
  if (Level() < LogLevel::kWarning) return;
  va_list arguments;
  va_start(arguments, format);
  WriteLine(format, arguments);
  va_end(arguments);
}

void LogInfo(const char* format, ...) {
  if (Level() < LogLevel::kInfo) return;
  va_list arguments;
  va_start(arguments, format);
  WriteLine(format, arguments);
  va_end(arguments);
}

}  // namespace rankscope::recorder
