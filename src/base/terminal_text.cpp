#include "base/terminal_text.h"

#include <algorithm>

#include "base/text.h"
#include "base/utf8.h"

namespace tranche {
namespace {

constexpr int kNarrowest = 40;
constexpr std::string_view kIndent = "  ";

}  // namespace

void TerminalText::heading(const std::string& text) {
  if (!out_.empty()) out_ += '\n';
  out_ += paint(visible_text(text), "1") + '\n';
}

void TerminalText::line(const std::string& text) {
  if (text.empty()) {
    out_ += '\n';
  } else {
    put(visible_text(text));
  }
}

void TerminalText::put(const std::string& row) {
  out_ += kIndent;
  out_ += row + '\n';
}

void TerminalText::table(const std::vector<Row>& given) {
  std::vector<Row> rows = given;
  for (Row& row : rows)
    for (std::string& cell : row) cell = visible_text(cell);
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const Row& row : rows) {
    std::string text;
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      text.append(widths[i] - row[i].size() + 2, ' ');
    }
    text.resize(text.find_last_not_of(' ') + 1);
    put(&row == &rows.front() ? paint(text, "2") : text);
  }
}

void TerminalText::sentence(const std::string& mark, std::string_view text, const char* colour) {
  const auto width = static_cast<std::size_t>(std::max(width_, kNarrowest)) - kIndent.size();
  std::string row = paint(mark, colour);
  std::size_t used = mark.size();
  for (const std::string_view bytes : words_of(text)) {
    const std::string word = visible_text(bytes);
    if (used > mark.size() && used + 1 + word.size() > width) {
      put(row);
      row = std::string(mark.size(), ' ');
      used = mark.size();
    }
    row += ' ';
    row += word;
    used += 1 + word.size();
  }
  put(row);
}

std::string TerminalText::paint(const std::string& text, const char* code) const {
  return colour_ ? "\x1b[" + std::string(code) + "m" + text + "\x1b[0m" : text;
}

}  // namespace tranche
