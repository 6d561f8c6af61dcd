// See diagnostics.h.
#include "tools/diagnostics.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"

namespace rankscope::tools {
namespace {

// One call a line, so that lines of several processes don't mix. Nothing can be done where stderr is gone.
void PrintLine(const std::string& line) { std::fputs(line.c_str(), stderr); }

std::string Who(absl::string_view verb) {
  return verb.empty() ? std::string("rankscope: ") : absl::StrCat("rankscope ", verb, ": ");
}

}  // namespace

void PrintError(absl::string_view verb, absl::string_view message, absl::string_view hint) {
  std::string text = absl::StrCat(Who(verb), "error: ", message, "\n");
  if (!hint.empty()) absl::StrAppend(&text, "hint: ", hint, "\n");
  PrintLine(text);
}

void PrintWarning(absl::string_view verb, absl::string_view message) {
  PrintLine(absl::StrCat(Who(verb), "warning: ", message, "\n"));
}

void PrintNote(absl::string_view verb, absl::string_view message) {
  PrintLine(absl::StrCat(Who(verb), message, "\n"));
}

int FailWith(absl::string_view verb, const absl::Status& status, absl::string_view hint) {
  PrintError(verb, status.message(), hint);
  return kExitBadInput;
}

}  // namespace rankscope::tools
