#include "cdi/live/device_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "os/files/root_view.h"

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

bool imex_channel_exists(const std::string& driver_root, const std::string& system_root) {
  return is_character_device(container_dev_root(driver_root, system_root), config::kImexChannelNode) ||
         is_character_device(system_root, config::kImexChannelNode);
}

void DeviceNodes::look(const config::Imex& imex, gpu::Platform platform, const std::string& driver_root) {
  // WSL and Tegra have none of these.
  control_ = platform == gpu::Platform::kNvml ? existing_nodes(kControlNodes) : std::vector<std::string>{};
  channel_ = imex.channel && imex_channel_exists(driver_root);
  problems_ = imex_problems(imex, channel_);
  block_ = imex_block(imex, channel_);
  if (imex != imex_ || driver_root != driver_root_ || problems_.empty()) wait_ = kFirstWait;
  imex_ = imex;
  driver_root_ = driver_root;
  timer_.stop();
  if (!problems_.empty()) timer_.start(wait_, [this] { look_again(); });
}

void DeviceNodes::look_again() {
  wait_ = std::min(wait_ * 2, kMostWait);
  if (imex_channel_exists(driver_root_)) return on_change_();
  timer_.start(wait_, [this] { look_again(); });
}

std::vector<Problem> imex_problems(const config::Imex& imex, bool exists) {
  if (!imex.channel || exists) return {};
  const std::string is_not_there =
      fmt::format("channel 0, whose device node {} is not on this node", config::kImexChannelNode);
  const std::string remedy =
      "create it (NVreg_CreateImexChannel0=1, or nvidia-modprobe), mount it into this container, or ";
  if (imex.required)
    return {{Severity::kError,
             {},
             "imex.required",
             "is true for " + is_not_there + "; no device is handed out until it is there",
             remedy + "write required: false"}};
  return {{Severity::kWarning,
           {},
           "imex.channelIDs",
           "names " + is_not_there + "; it is left out of answers",
           remedy + "take it out of the list"}};
}

std::string imex_block(const config::Imex& imex, bool exists) {
  if (!imex.required || !imex.channel || exists) return {};
  return fmt::format("IMEX channel 0 is required, and its device node {} is not there", config::kImexChannelNode);
}

}  // namespace tranche::cdi
