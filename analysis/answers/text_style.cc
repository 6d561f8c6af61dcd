// See text_style.h.
#include "analysis/answers/text_style.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace rankscope::answers {

std::string TextStyle::Colored(absl::string_view text, const char* code) const {
  if (!color_) return std::string(text);
  return absl::StrCat("\x1b[", code, "m", text, "\x1b[0m");
}

std::string TextStyle::Heading(absl::string_view text) const { return Colored(text, "1"); }

std::string TextStyle::Verdict(absl::string_view text, bool bad) const {
  // The escape codes stay outside of what is measured.
  std::string wrapped = Wrap(text, 0);
  wrapped.pop_back();
  return Colored(wrapped, bad ? "1;31" : "1;32");
}

std::string TextStyle::Wrap(absl::string_view text, int indent) const {
  const size_t limit = width_ > 0 ? static_cast<size_t>(std::max(width_, indent + 30)) : SIZE_MAX;
  std::string result, line(static_cast<size_t>(indent), ' ');
  bool first = true;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (!first && line.size() + 1 + word.size() > limit) {
      absl::StrAppend(&result, line, "\n");
      line.assign(static_cast<size_t>(indent) + 2, ' ');
      first = true;
    }
    if (!first) line += ' ';
    absl::StrAppend(&line, word);
    first = false;
  }
  absl::StrAppend(&result, line, "\n");
  return result;
}

}  // namespace rankscope::answers
