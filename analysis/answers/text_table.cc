// See text_table.h.
#include "analysis/answers/text_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace rankscope::answers {

namespace {

constexpr size_t kNarrowestCut = 8;

std::string Cut(const std::string& text, size_t width) {
  if (text.size() <= width) return text;
  return text.substr(0, width - 1) + "~";
}

}  // namespace

void TextTable::AddColumn(std::string title, Align align) { columns_.push_back({std::move(title), align}); }

void TextTable::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::Render(int indent, int width) const {
  std::vector<size_t> widths(columns_.size(), 0);
  for (size_t c = 0; c < columns_.size(); ++c) {
    for (const auto& row : rows_) widths[c] = std::max(widths[c], row[c].size());
    if (widths[c] > 0) widths[c] = std::max(widths[c], columns_[c].title.size());
  }
  size_t total = static_cast<size_t>(indent);
  for (size_t w : widths) total += w > 0 ? w + 2 : 0;
  for (size_t c = columns_.size(); c-- > 0 && width > 0 && total > static_cast<size_t>(width) + 2;) {
    if (columns_[c].align != Align::kLeft || widths[c] <= kNarrowestCut) continue;
    const size_t over = total - static_cast<size_t>(width) - 2;
    const size_t taken = std::min(over, widths[c] - kNarrowestCut);
    widths[c] -= taken;
    total -= taken;
  }
  std::string text;
  const auto add_line = [&](auto cell_of) {
    std::string line(static_cast<size_t>(indent), ' ');
    bool first = true;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (widths[c] == 0) continue;
      if (!first) line += "  ";
      first = false;
      const std::string cell = Cut(cell_of(c), widths[c]);
      const std::string pad(widths[c] - cell.size(), ' ');
      line += columns_[c].align == Align::kLeft ? cell + pad : pad + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  };
  add_line([&](size_t c) { return columns_[c].title; });
  for (const auto& row : rows_) add_line([&](size_t c) { return row[c]; });
  return text;
}

}  // namespace rankscope::answers
