// How a report's text looks: headings, colour, wrapped paragraphs. And the parts of a report that two renderings
// share.
//
// Used by the text renderers only.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_TEXT_STYLE_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_TEXT_STYLE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "analysis/answers/hang.h"

namespace rankscope::answers {

class TextStyle {
 public:
  // `width` 0: lines are not wrapped.
  TextStyle(int width, bool color) : width_(width), color_(color) {}
  int width() const { return width_; }
  std::string Heading(absl::string_view text) const;            // bold
  std::string Verdict(absl::string_view text, bool bad) const;  // bold, red or green
  // The text, broken at spaces, each line indented (further lines by two more), with a final newline.
  std::string Wrap(absl::string_view text, int indent) const;

 private:
  std::string Colored(absl::string_view text, const char* code) const;
  int width_;
  bool color_;
};

// The sentences of a hang, without headline: for `hang` and for `report`.
std::string HangLines(const HangReport& report, TextStyle* style, int indent);

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_TEXT_STYLE_H_
