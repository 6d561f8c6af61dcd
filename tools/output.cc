// See output.h.
#include "tools/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tools/diagnostics.h"

namespace rankscope::tools {

// A pipe's usual room: larger writes save nothing.
constexpr size_t kFlushBytes = 64 * 1024;

void Output::Write(absl::string_view text) {
  if (closed_) return;
  buffer_.append(text.data(), text.size());
  if (buffer_.size() >= kFlushBytes) Flush();
}

void Output::Flush() {
  size_t done = 0;
  while (!closed_ && done < buffer_.size()) {
    const ssize_t wrote = write(fd_, buffer_.data() + done, buffer_.size() - done);
    if (wrote >= 0) {
      done += static_cast<size_t>(wrote);
    } else if (errno != EINTR) {
      closed_ = true;
      if (errno != EPIPE) error_ = errno;
    }
  }
  buffer_.clear();
}

int Output::Finish(absl::string_view verb) {
  Flush();
  if (error_ == 0) return kExitFine;
  PrintError(verb, absl::StrCat("cannot write the answer: ", std::strerror(error_)));
  return kExitBadInput;
}

}  // namespace rankscope::tools
