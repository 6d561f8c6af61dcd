// One sentence to stderr when something keeps the recorder from its work. Start-up only; never on the hot path.
// Does not allocate; one write(2) a line. RANKSCOPE_LOG=off silences it, =info adds what was done.
#ifndef RANKSCOPE_RECORDER_LOG_H_
#define RANKSCOPE_RECORDER_LOG_H_

namespace rankscope::recorder {

enum class LogLevel { kOff = 0, kWarning = 1, kInfo = 2 };
void SetLogLevel(LogLevel level);

// printf-like; a line is cut at 1 KiB. "rankscope: " goes before it.
void LogWarning(const char* format, ...) __attribute__((format(printf, 1, 2)));
void LogInfo(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace rankscope::recorder

#endif  // RANKSCOPE_RECORDER_LOG_H_
