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
  out_ += pen_(kBold, visible_text(text)) + '\n';
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
    put(&row == &rows.front() ? pen_(kDim, text) : text);
  }
}

void TerminalText::sentence(const std::string& mark, std::string_view text, const char* colour) {
  const auto width = static_cast<std::size_t>(std::max(width_, kNarrowest)) - kIndent.size();
  std::string row = pen_(colour, mark);
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

namespace {

// The size of the first character or escape in bytes, and its width in columns.
std::pair<std::size_t, std::size_t> front(std::string_view text) {
  if (text.starts_with("\x1b[")) {
    const auto end = text.find('m');
    return {end == std::string_view::npos ? text.size() : end + 1, 0};
  }
  std::size_t bytes = 1;
  while (bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) ++bytes;
  return {bytes, 1};
}

// The end of the part of a line that fits, and the start of the rest.
std::pair<std::size_t, std::size_t> break_of(std::string_view line, std::size_t width) {
  const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  std::size_t columns = 0;
  std::size_t blank = 0;
  for (std::size_t at = 0; at < line.size();) {
    const auto [bytes, wide] = front(line.substr(at));
    if (columns + wide > width) {
      if (blank == 0) return {at, at};
      return {line.find_last_not_of(' ', blank) + 1, blank + 1};
    }
    if (line[at] == ' ' && at > indent) blank = at;
    columns += wide;
    at += bytes;
  }
  return {line.size(), line.size()};
}

}  // namespace

std::string fitted(std::string_view text, int width) {
  if (width <= 0) return std::string(text);
  const auto columns = static_cast<std::size_t>(std::max(width, kNarrowest));
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line(text.substr(begin, end - begin));
    const std::size_t indent = std::min({line.find_first_not_of(' '), line.size(), columns / 2}) + 4;
    for (;;) {
      const auto [fits, rest] = break_of(line, columns);
      out.append(line, 0, fits);
      if (rest >= line.size()) break;
      out += '\n';
      const std::size_t word = std::min(line.find_first_not_of(' ', rest), line.size());
      line = std::string(indent, ' ') + line.substr(word);
    }
    if (end < text.size()) out += '\n';
    begin = end + 1;
  }
  return out;
}

std::string Pen::operator()(std::string_view style, std::string_view text) const {
  return colour ? "\x1b[" + std::string(style) + "m" + std::string(text) + "\x1b[0m" : std::string(text);
}

}  // namespace tranche
