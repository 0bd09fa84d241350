#include "containers/attribution.h"

#include <algorithm>

#include "base/text.h"

namespace tranche::containers {
namespace {

constexpr std::size_t kGrantDigits = 16;

// 36 35 98:0 <root> <mount point> <options> … - <type> <source> <super options>   (proc(5))
struct Mount {
  std::string_view device;
  std::string_view root;
  std::string_view point;
};

std::optional<Mount> read_mount(std::string_view line) {
  const auto fields = split(line, ' ');
  if (fields.size() < 6) return std::nullopt;
  return Mount{fields[2], fields[3], fields[4]};
}

// Blanks, tabs, line ends and backslashes are encoded as three octal digits.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto code = text[i] == '\\' && i + 3 < text.size() ? parse_unsigned(text.substr(i + 1, 3), 8) : std::nullopt;
    if (code && *code < 256) {
      plain += static_cast<char>(*code);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// The rest of `path` below `directory`: "" for the directory itself, "/a" for an entry in it.
std::optional<std::string_view> below(std::string_view path, std::string_view directory) {
  while (directory.ends_with('/')) directory.remove_suffix(1);
  if (!path.starts_with(directory)) return std::nullopt;
  path.remove_prefix(directory.size());
  if (!path.empty() && !path.starts_with('/')) return std::nullopt;
  return path;
}

}  // namespace

bool is_grant(std::string_view name) {
  return name.size() == kGrantDigits &&
         std::ranges::all_of(name, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::optional<MountedDirectory> mounted_at(std::string_view mountinfo, std::string_view path) {
  std::optional<MountedDirectory> found;
  std::size_t longest = 0;
  for (const auto line : lines_of(mountinfo)) {
    const auto mount = read_mount(line);
    if (!mount) continue;
    const std::string point = unescaped(mount->point);
    const auto rest = below(path, point);
    if (!rest || (found && point.size() < longest)) continue;  // of several mounts at one point the last is on top
    longest = point.size();
    std::string root = unescaped(mount->root);
    if (root == "/") root.clear();
    found = MountedDirectory{std::string(mount->device), root + std::string(*rest)};
  }
  return found;
}

}  // namespace tranche::containers
