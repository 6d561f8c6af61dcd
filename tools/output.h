// The answer's way to stdout: buffered, quiet when the reader has gone (`rankscope dump … | head`), loud when the
// disk is full.
//
// Main thread only. Must never: end the program by SIGPIPE, or lose an error of writing.
#ifndef RANKSCOPE_TOOLS_OUTPUT_H_
#define RANKSCOPE_TOOLS_OUTPUT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace rankscope::tools {

class Output {
 public:
  explicit Output(int fd = 1) : fd_(fd) {}
  ~Output() { Flush(); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void Write(absl::string_view text);
  // False when nothing that is written arrives any more: the reader has gone, or an error. Producers of much ask it.
  bool open() const { return !closed_; }
  // Writes what is left and gives the exit status: kExitFine also where the reader has gone.
  int Finish(absl::string_view verb);

 private:
  void Flush();

  const int fd_;
  bool closed_ = false;
  int error_ = 0;  // errno of the first failed write, but for EPIPE
  std::string buffer_;
};

}  // namespace rankscope::tools

#endif  // RANKSCOPE_TOOLS_OUTPUT_H_
