#include "cdi/csv.h"

#include "base/enum_names.h"
#include "base/text.h"

namespace tranche::cdi {
namespace {

constexpr const char* kShape = "write for example: lib, /usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1";

int column_of(std::string_view line, std::string_view piece) {
  return static_cast<int>(piece.data() - line.data()) + 1;
}

// "" = absolute, without ".." and NUL.
std::string fault_of_path(std::string_view path) {
  if (path.empty()) return "must not be empty";
  if (path.front() != '/') return "must be absolute, starting with /";
  if (path.find('\0') != std::string_view::npos) return "must not have a zero byte";
  for (const auto piece : split(path, '/'))
    if (piece == "..") return "must not have \"..\" in it";
  return {};
}

class Reader {
 public:
  explicit Reader(std::string_view source) : source_(source) {}

  void read_line(std::string_view line, int number) {
    const std::string_view content = trimmed(line);
    if (content.empty() || content.front() == '#') return;
    const auto comma = content.find(',');
    if (comma == std::string_view::npos)
      return refuse(line, content, number, "has no comma between kind and path: " + in_quotes(content), kShape);
    const std::string_view kind = trimmed(content.substr(0, comma));
    const std::string_view path = trimmed(content.substr(comma + 1));
    const auto known = enum_of<CsvKind>(kind);
    if (!known)
      return refuse(line, content, number, "has the unknown kind " + in_quotes(kind), "write dev, dir, lib or sym");
    if (const auto fault = fault_of_path(path); !fault.empty())
      return refuse(line, path.empty() ? content : path, number, "has a path that " + fault + ": " + in_quotes(path),
                    kShape);
    parsed.entries.push_back({*known, std::string(path)});
  }

  ParsedCsv parsed;

 private:
  void refuse(std::string_view line, std::string_view at, int number, std::string what, std::string remedy) {
    parsed.problems.push_back({Severity::kWarning,
                               {std::string(source_), number, column_of(line, at)},
                               "",
                               "the line " + std::move(what),
                               std::move(remedy)});
  }

  std::string_view source_;
};

}  // namespace

ParsedCsv parse_csv(std::string_view text, std::string_view source) {
  Reader reader(source);
  int number = 0;
  for (const std::string_view line : lines_of(text)) reader.read_line(line, ++number);
  return std::move(reader.parsed);
}

bool is_library_link(std::string_view path) {
  if (path.ends_with(".so")) return true;
  if (path.size() < 5) return false;
  const char last = path.back();
  return path.substr(0, path.size() - 1).ends_with(".so.") && last >= '0' && last <= '9';
}

}  // namespace tranche::cdi
