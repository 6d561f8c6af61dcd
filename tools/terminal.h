// What the terminal can show: colour, width, progress.
//
// Main thread only.
#ifndef RANKSCOPE_TOOLS_TERMINAL_H_
#define RANKSCOPE_TOOLS_TERMINAL_H_

#include <chrono>
#include <functional>
#include <string>

namespace rankscope::tools {

// `choice` is auto, always or never. Auto: stdout is a terminal that knows escapes, and NO_COLOR is unset or empty
// (https://no-color.org).
bool WantsColor(const std::string& choice);

// Columns for text: the terminal's, else COLUMNS, else 100.
int TextWidth();

// A line on stderr that shows how far something long has come: only on a terminal, only after it has taken a second,
// and erased at the end.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // For whoever can tell the share done, 0 to 1.
  std::function<void(double)> Share();
  // For whoever can only count.
  std::function<void(uint64_t)> Count(std::string noun);

 private:
  bool Due();
  void Show(const std::string& text);

  const std::string what_;
  const bool on_terminal_;
  std::chrono::steady_clock::time_point next_;
  bool shown_ = false;
};

}  // namespace rankscope::tools

#endif  // RANKSCOPE_TOOLS_TERMINAL_H_
