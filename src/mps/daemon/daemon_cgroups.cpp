#include "mps/daemon/daemon_cgroups.h"

#include "base/text.h"

namespace tranche::host {
namespace {

bool is_folder_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

}  // namespace

std::vector<std::string> daemon_cgroups(std::string_view self, const std::string& root, const std::string& pool) {
  std::vector<std::string> hierarchies;
  bool unified = false;
  for (const auto line : split(self, '\n')) {
    const auto first = line.find(':');
    const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos || !parse_unsigned(line.substr(0, first))) continue;
    std::string_view name = line.substr(first + 1, second - first - 1);
    if (name.empty()) {
      unified = true;
      continue;
    }
    if (name.starts_with("name=")) name.remove_prefix(5);
    if (is_folder_name(name)) hierarchies.emplace_back(name);
  }
  if (unified) hierarchies.emplace_back(hierarchies.empty() ? "" : "unified");
  std::vector<std::string> dirs;
  for (const auto& name : hierarchies) dirs.push_back(root + (name.empty() ? "" : "/" + name) + "/tranche/" + pool);
  return dirs;
}

}  // namespace tranche::host
