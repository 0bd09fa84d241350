#include "base/terminal_text.h"

#include <algorithm>

#include "base/text.h"

namespace tranche {
namespace {

constexpr int kNarrowest = 40;
constexpr std::string_view kIndent = "  ";

}  // namespace

void TerminalText::heading(const std::string& text) {
  if (!out_.empty()) out_ += '\n';
  out_ += paint(text, "1") + '\n';
}

void TerminalText::line(const std::string& text) {
  out_ += kIndent;
  out_ += text + '\n';
}

void TerminalText::table(const std::vector<Row>& rows) {
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
    line(&row == &rows.front() ? paint(text, "2") : text);
  }
}

void TerminalText::sentence(const std::string& mark, std::string_view text, const char* colour) {
  const auto width = static_cast<std::size_t>(std::max(width_, kNarrowest)) - kIndent.size();
  std::string row = paint(mark, colour);
  std::size_t used = mark.size();
  for (const std::string_view word : words_of(text)) {
    if (used > mark.size() && used + 1 + word.size() > width) {
      line(row);
      row = std::string(mark.size(), ' ');
      used = mark.size();
    }
    row += ' ';
    row += word;
    used += 1 + word.size();
  }
  line(row);
}

std::string TerminalText::paint(const std::string& text, const char* code) const {
  return colour_ ? "\x1b[" + std::string(code) + "m" + text + "\x1b[0m" : text;
}

}  // namespace tranche
