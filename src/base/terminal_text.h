#pragma once
// Formats text for a terminal in one style: headings, tables with aligned columns, wrapped sentences with a mark.
// Foreign text cannot control the terminal: everything except our own colours is printed as by visible_text(). Widths
// are counted in bytes. One thread.
#include <string>
#include <string_view>
#include <vector>

namespace tranche {

inline constexpr const char* kBold = "1";
inline constexpr const char* kDim = "2";
inline constexpr const char* kRed = "31";
inline constexpr const char* kGreen = "32";
inline constexpr const char* kYellow = "33";

// Text in one of these styles, where the terminal shows them.
struct Pen {
  bool colour = false;
  std::string operator()(std::string_view style, std::string_view text) const;
};

class TerminalText {
 public:
  using Row = std::vector<std::string>;

  TerminalText(bool colour, int width) : pen_{colour}, width_(width) {}

  void heading(const std::string& text);  // preceded by an empty line, unless it is the first
  void line(const std::string& text);     // indented by two, unless it is empty
  // The first row is the heading, and no row is longer. Columns are as wide as their widest cell.
  void table(const std::vector<Row>& rows);
  void sentence(const std::string& mark, std::string_view text, const char* colour);

  std::string take() { return std::move(out_); }

 private:
  void put(const std::string& row);

  Pen pen_;
  int width_;
  std::string out_;
};

// Wraps the text to `width` columns: breaks at blanks, and indents continuation lines more deeply. Colour escapes have
// no width. For complete text; width 0 returns it unchanged.
std::string fitted(std::string_view text, int width);

}  // namespace tranche
