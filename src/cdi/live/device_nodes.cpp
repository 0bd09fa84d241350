#include "cdi/live/device_nodes.h"

#include <algorithm>
#include <array>
#include <optional>

#include "os/files/root_view.h"
#include "plan/imex.h"

namespace tranche::cdi {
namespace {

using namespace std::chrono_literals;

constexpr Duration kFirstWait = 1s;
constexpr Duration kMostWait = 30s;
// Those that exist in this process's container, as in NVIDIA's plugin: a node without, for example, modeset is normal.
constexpr std::array<std::string_view, 4> kControlNodes{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
                                                        "/dev/nvidia-modeset"};

std::optional<mode_t> mode_of(const std::string& root, std::string_view path) {
  const auto view = os::RootView::open(root);
  const auto place = view ? view->look(path) : std::nullopt;
  return place ? std::optional(place->mode) : std::nullopt;
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

void DeviceNodes::look(const config::Imex& imex, inventory::Platform platform, const std::string& driver_root) {
  // WSL and Tegra have none of these.
  control_ = platform == inventory::Platform::kNvml ? existing_nodes(kControlNodes) : std::vector<std::string>{};
  channels_ = existing_imex_channels(imex.channel_ids, driver_root);
  problems_ = plan::imex_problems(imex, channels_);
  block_ = plan::imex_block(imex, channels_);
  if (imex != imex_ || driver_root != driver_root_ || problems_.empty()) wait_ = kFirstWait;
  imex_ = imex;
  driver_root_ = driver_root;
  timer_.stop();
  if (!problems_.empty()) timer_.start(wait_, [this] { look_again(); });
}

void DeviceNodes::look_again() {
  wait_ = std::min(wait_ * 2, kMostWait);
  if (existing_imex_channels(imex_.channel_ids, driver_root_) != channels_) return on_change_();
  timer_.start(wait_, [this] { look_again(); });
}

}  // namespace tranche::cdi
