#include "gpu/platform/nodes.h"

#include <sys/stat.h>

#include <optional>

#include "os/files/rooted.h"

namespace tranche::host {
namespace {

std::optional<mode_t> mode_of(const std::string& root, std::string_view path) {
  const auto found = path_in_root(root, path);
  struct stat status{};
  if (!found || ::stat(found->c_str(), &status) != 0) return std::nullopt;
  return status.st_mode;
}

bool is_character_device(const std::string& root, std::string_view path) {
  const auto mode = mode_of(root, path);
  return mode && S_ISCHR(*mode);
}

}  // namespace

std::string container_dev_root(const std::string& driver_root, const std::string& system_root) {
  const auto mode = mode_of(driver_root, "/dev");
  return mode && S_ISDIR(*mode) ? driver_root : system_root;
}

std::vector<std::string> existing_nodes(std::span<const std::string_view> paths, const std::string& root) {
  std::vector<std::string> existing;
  for (const std::string_view path : paths)
    if (mode_of(root, path)) existing.emplace_back(path);
  return existing;
}

std::string imex_channel_path(int channel) {
  return "/dev/nvidia-caps-imex-channels/channel" + std::to_string(channel);
}

std::vector<int> existing_imex_channels(std::span<const int> channels, const std::string& driver_root,
                                        const std::string& system_root) {
  const std::string dev_root = container_dev_root(driver_root, system_root);
  std::vector<int> existing;
  for (const int channel : channels) {
    const std::string path = imex_channel_path(channel);
    if (is_character_device(dev_root, path) || is_character_device(system_root, path)) existing.push_back(channel);
  }
  return existing;
}

}  // namespace tranche::host
