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

std::vector<int> missing(const config::Imex& imex, const std::vector<int>& existing) {
  std::vector<int> channels;
  for (const int channel : imex.channel_ids)
    if (std::ranges::find(existing, channel) == existing.end()) channels.push_back(channel);
  return channels;
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

void DeviceNodes::look(const config::Imex& imex, gpu::Platform platform, const std::string& driver_root) {
  // WSL and Tegra have none of these.
  control_ = platform == gpu::Platform::kNvml ? existing_nodes(kControlNodes) : std::vector<std::string>{};
  channels_ = existing_imex_channels(imex.channel_ids, driver_root);
  problems_ = imex_problems(imex, channels_);
  block_ = imex_block(imex, channels_);
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

std::vector<Problem> imex_problems(const config::Imex& imex, const std::vector<int>& existing) {
  std::vector<Problem> problems;
  for (const int channel : missing(imex, existing)) {
    const std::string is_not_there =
        fmt::format("channel {}, whose device node {} is not on this node", channel, imex_channel_path(channel));
    const std::string remedy =
        "create it (NVreg_CreateImexChannel0=1, or nvidia-modprobe), mount it into this container, or ";
    if (imex.required)
      problems.push_back({Severity::kError,
                          {},
                          "imex.required",
                          "is true for " + is_not_there + "; no device is handed out until it is there",
                          remedy + "write required: false"});
    else
      problems.push_back({Severity::kWarning,
                          {},
                          "imex.channelIDs",
                          "names " + is_not_there + "; it is left out of answers",
                          remedy + "take it out of the list"});
  }
  return problems;
}

std::string imex_block(const config::Imex& imex, const std::vector<int>& existing) {
  const auto channels = missing(imex, existing);
  if (!imex.required || channels.empty()) return {};
  return fmt::format("IMEX channel {} is required, and its device node {} is not there", channels.front(),
                     imex_channel_path(channels.front()));
}

}  // namespace tranche::cdi
