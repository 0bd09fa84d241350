#include "cdi/csv.h"

#include <algorithm>

#include "base/enum_names.h"
#include "base/text.h"

namespace tranche::cdi {
namespace {

constexpr const char* kShape = "write for example: lib, /usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1";

// "" = absolute, without ".." and NUL.
std::string fault_of_path(std::string_view path) {
  if (path.empty()) return "must not be empty";
  if (path.front() != '/') return "must be absolute, starting with /";
  if (path.find('\0') != std::string_view::npos) return "must not have a zero byte";
  for (const auto piece : split(path, '/'))
    if (piece == "..") return "must not have \"..\" in it";
  return {};
}

}  // namespace

ParsedCsv parse_csv(std::string_view text, std::string_view source) {
  ParsedCsv parsed;
  int number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    const std::string_view content = trimmed(line);
    if (content.empty() || content.front() == '#') continue;
    const auto refuse = [&](std::string_view at, const std::string& what, std::string_view quoted, const char* remedy) {
      const Place place{std::string(source), number, static_cast<int>(at.data() - line.data()) + 1};
      parsed.problems.push_back({Severity::kWarning, place, "", "the line " + what + in_quotes(quoted), remedy});
    };
    const auto comma = std::min(content.find(','), content.size());
    const std::string_view path = trimmed(content.substr(std::min(comma + 1, content.size())));
    const std::string_view kind = trimmed(content.substr(0, comma));
    const auto known = enum_of<CsvKind>(kind);
    if (comma == content.size())
      refuse(content, "has no comma between kind and path: ", content, kShape);
    else if (!known)
      refuse(content, "has the unknown kind ", kind, "write dev, dir, lib or sym");
    else if (const auto fault = fault_of_path(path); !fault.empty())
      refuse(path.empty() ? content : path, "has a path that " + fault + ": ", path, kShape);
    else
      parsed.entries.push_back({*known, std::string(path)});
  }
  return parsed;
}

bool is_library_link(std::string_view path) {
  if (!path.empty() && is_digit(path.back())) return path.substr(0, path.size() - 1).ends_with(".so.");
  return path.ends_with(".so");
}

}  // namespace tranche::cdi
