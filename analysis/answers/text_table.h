// A plain text table: right-aligned columns, a header, no lines. (The packaged C++ table libraries are not in both of
// Debian 12 and Ubuntu 22.04.)
//
// Called by the text renderers.
#ifndef RANKSCOPE_ANALYSIS_ANSWERS_TEXT_TABLE_H_
#define RANKSCOPE_ANALYSIS_ANSWERS_TEXT_TABLE_H_

#include <string>
#include <vector>

namespace rankscope::answers {

class TextTable {
 public:
  enum class Align { kLeft, kRight };
  void AddColumn(std::string title, Align align = Align::kRight);
  // Missing cells are empty; cells beyond the columns are dropped.
  void AddRow(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  // Each line begins with `indent` spaces and ends without trailing blanks. Columns in which every cell is empty are
  // left out. If a line is wider than `width` (0 = no limit), the last left-aligned columns are cut, with "~".
  std::string Render(int indent, int width) const;

 private:
  struct Column {
    std::string title;
    Align align;
  };
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace rankscope::answers

#endif  // RANKSCOPE_ANALYSIS_ANSWERS_TEXT_TABLE_H_
