#include "config/live/named_configs.h"

#include <sys/stat.h>

#include "os/files/files.h"

namespace tranche::config {
namespace {

constexpr const char* kMounted = "..data";  // kubelet's link to the newest version of a mounted volume

bool is_folder(const os::Dir& dir, const std::string& name) {
  struct stat about{};
  return ::fstatat(dir.fd(), name.c_str(), &about, 0) == 0 && S_ISDIR(about.st_mode);
}

// An open directory stays at the same version when kubelet replaces the link.
Result<os::Dir> version_of(const std::string& path) {
  if (auto mounted = os::Dir::open(path + "/" + kMounted)) return mounted;
  return os::Dir::open(path);
}

}  // namespace

NamedConfigs read_config_dir(const std::string& path) {
  NamedConfigs found{.where = path};
  const auto dir = version_of(path);
  const auto names = dir ? dir->list() : std::unexpected(dir.error());
  if (!names) {
    found.why = to_string(names.error());
    return found;
  }
  for (const auto& name : *names) {
    if (name.starts_with("..") || is_folder(*dir, name)) continue;
    found.texts.emplace(name, dir->read(name));
    found.sources.emplace(name, path + "/" + name);
  }
  return found;
}

NamedConfigs configs_of_map(const std::string& name, const std::map<std::string, std::string>& data) {
  NamedConfigs found{.where = "ConfigMap " + name};
  for (const auto& [key, text] : data) {
    found.texts.emplace(key, text);
    found.sources.emplace(key, found.where + "[" + key + "]");
  }
  return found;
}

}  // namespace tranche::config
