#include <algorithm>
#include <array>

#include "observe/metrics/page.h"

namespace tranche::metrics {
namespace {

constexpr std::string_view kHelp = "# HELP ", kType = "# TYPE ";
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
void add_family(std::string& out, std::string_view rest, std::string_view help) {
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
  out.append(kType).append(family).append(" ").append(type).append("\n");
  if (const auto unit = unit_of(family); !unit.empty())
    out.append("# UNIT ").append(family).append(" ").append(unit).append("\n");
  out.append(kHelp).append(family).append(" ");
  for (const char c : help.substr(help.find(' ') + 1)) {
    if (c == '"') out += '\\';
    out += c;
  }
  out += '\n';
}

}  // namespace

std::string open_metrics(std::string_view text) {
  constexpr std::size_t kMoreForHeadings = 4096;
  std::string out;
  out.reserve(text.size() + kMoreForHeadings);
  std::string_view help;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size() - 1);
    const auto line = text.substr(0, end);
    if (line.starts_with(kHelp)) {
      help = line.substr(kHelp.size());
    } else if (line.starts_with(kType)) {
      add_family(out, line.substr(kType.size()), help);
    } else {
      out.append(line).append("\n");
    }
    text.remove_prefix(end + 1);
  }
  return out + "# EOF\n";
}

}  // namespace tranche::metrics
