#pragma once
// Text for a terminal in one manner everywhere: headings, tables with aligned columns, sentences wrapped behind a mark.
// Foreign text cannot control the terminal: what is not our own colour is shown as visible_text() shows it. Widths are
// counted in bytes. One thread.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tranche {

class TerminalText {
 public:
  using Row = std::vector<std::string>;

  TerminalText(bool colour, int width) : colour_(colour), width_(width) {}

  void heading(const std::string& text);  // an empty line before it, unless it is the first
  void line(const std::string& text);     // indented by two, unless it is empty
  // The first row is the head, and no row is longer. Columns are as wide as their widest cell.
  void table(const std::vector<Row>& rows);
  void sentence(const std::string& mark, std::string_view text, const char* colour);

  std::string take() { return std::move(out_); }

 private:
  std::string paint(const std::string& text, const char* code) const;  // "1" bold, "2" dim, "31" red …
  void put(const std::string& row);

  bool colour_;
  int width_;
  std::string out_;
};

// The text with no line wider than `width` columns: broken at blanks, continued with a deeper indentation. Escapes of
// colours have no width. For text that is complete; width 0 leaves it as it is.
std::string fitted(std::string_view text, int width);

}  // namespace tranche
