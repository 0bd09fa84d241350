#include <algorithm>
#include <array>
#include <string>

#include "observe/metrics/page.h"

namespace tranche::metrics {
namespace {

constexpr std::string_view kHelp = "# HELP ", kType = "# TYPE ";
static_assert(kHelp.size() == kType.size());
constexpr std::array<std::string_view, 8> kUnits{"seconds", "bytes", "joules", "watts",
                                                 "celsius", "hertz", "ratio",  "percent"};

std::string_view without(std::string_view name, std::string_view suffix) {
  if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  return name;
}

std::string_view unit_of(std::string_view family) {
  const auto last = family.substr(family.rfind('_') + 1);
  return std::ranges::find(kUnits, last) == kUnits.end() ? "" : last;
}

// `rest` is "name type"; `help` is "name text".
void add_family(LongText& out, std::string_view rest, std::string_view help) {
  const auto blank = rest.find(' ');
  const auto name = rest.substr(0, blank);
  auto family = name, type = rest.substr(blank + 1);
  if (type == to_string(Type::kCounter)) {
    family = without(name, "_total");
    if (family == name) type = "unknown";
  } else if (name.ends_with("_info")) {
    family = without(name, "_info");
    type = "info";
  }
  std::string heading;
  heading.append(kType).append(family).append(" ").append(type).append("\n");
  if (const auto unit = unit_of(family); !unit.empty())
    heading.append("# UNIT ").append(family).append(" ").append(unit).append("\n");
  heading.append(kHelp).append(family).append(" ");
  for (const char c : help.substr(help.find(' ') + 1)) {
    if (c == '"') heading += '\\';
    heading += c;
  }
  out += heading += '\n';
}

// The headings are written again, and all else stays in the blocks that it is in.
class Converter {
 public:
  void add(const LongText::Piece& piece) {
    std::size_t at = 0;
    if (!split_.empty()) {
      at = std::min(piece.text.find('\n'), piece.text.size() - 1) + 1;
      split_ += piece.text.substr(0, at);
      if (!split_.ends_with('\n')) return;
      add_line(split_);
      split_.clear();
    }
    std::size_t shared = at;  // out_ has what is before
    while (at < piece.text.size()) {
      const auto end = piece.text.find('\n', at);
      if (end == std::string_view::npos) break;
      if (const auto line = piece.text.substr(at, end + 1 - at); is_heading(line)) {
        out_.share(piece, shared, at);
        add_line(line);
        shared = end + 1;
      }
      at = end + 1;
    }
    out_.share(piece, shared, at);
    split_ = piece.text.substr(at);
  }

  LongText take() {
    if (!split_.empty()) add_line(split_ += '\n');
    out_ += "# EOF\n";
    return std::move(out_);
  }

 private:
  static bool is_heading(std::string_view line) { return line.starts_with(kHelp) || line.starts_with(kType); }

  void add_line(std::string_view line) {
    if (!is_heading(line)) {
      out_ += line;
      return;
    }
    const auto rest = line.substr(kType.size(), line.size() - kType.size() - 1);
    if (line.starts_with(kHelp)) {
      help_ = rest;
    } else {
      add_family(out_, rest, help_);
    }
  }

  LongText out_;
  std::string split_;  // the beginning of a line that ends in the next piece
  std::string help_;
};

}  // namespace

LongText open_metrics(const LongText& text) {
  Converter converter;
  for (const auto& piece : text.pieces()) converter.add(piece);
  return converter.take();
}

}  // namespace tranche::metrics
