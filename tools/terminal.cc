// See terminal.h.
#include "tools/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace rankscope::tools {

bool WantsColor(const std::string& choice) {
  if (choice != "auto") return choice == "always";
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* term = std::getenv("TERM");
  if (term == nullptr || std::strcmp(term, "dumb") == 0) return false;
  return isatty(STDOUT_FILENO) == 1;
}

int TextWidth() {
  constexpr int kLeast = 40, kMost = 160, kElse = 100;
  int columns = 0;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  const char* variable = std::getenv("COLUMNS");
  if (columns <= 0 && (variable == nullptr || !absl::SimpleAtoi(variable, &columns))) columns = kElse;
  if (columns <= 0) return kElse;
  return columns < kLeast ? kLeast : columns > kMost ? kMost : columns;
}

Progress::Progress(std::string what)
    : what_(std::move(what)),
      on_terminal_(isatty(STDERR_FILENO) == 1),
      next_(std::chrono::steady_clock::now() + std::chrono::seconds(1)) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

bool Progress::Due() {
  if (!on_terminal_) return false;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return false;
  next_ = now + std::chrono::milliseconds(200);
  return true;
}

void Progress::Show(const std::string& text) {
  shown_ = true;
  std::fputs(absl::StrCat("\r\x1b[K", text).c_str(), stderr);
}

std::function<void(double)> Progress::Share() {
  return [this](double share) {
    if (!Due()) return;
    constexpr int kCells = 30;
    const double clamped = share < 0 ? 0 : share > 1 ? 1 : share;
    const int full = static_cast<int>(clamped * kCells);
    Show(absl::StrFormat("%s [%s%s] %3.0f %%", what_, std::string(static_cast<size_t>(full), '#'),
                         std::string(static_cast<size_t>(kCells - full), '.'), clamped * 100));
  };
}

std::function<void(uint64_t)> Progress::Count(std::string noun) {
  return [this, noun = std::move(noun)](uint64_t count) {
    if (Due()) Show(absl::StrFormat("%s: %.1f million %s", what_, static_cast<double>(count) / 1e6, noun));
  };
}

}  // namespace rankscope::tools
