#include "cdi/live/device_nodes.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "gpu/platform/nodes.h"
#include "plan/imex.h"

namespace tranche::agent {
namespace {

using namespace std::chrono_literals;

constexpr Duration kFirstWait = 1s;
constexpr Duration kMostWait = 30s;
// Those that exist in this process's container, as in NVIDIA's plugin: a node without, for example, modeset is normal.
constexpr std::array<std::string_view, 4> kControlNodes{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
                                                        "/dev/nvidia-modeset"};

}  // namespace

void DeviceNodes::look(const config::Imex& imex, inventory::Platform platform, const std::string& driver_root) {
  // WSL and Tegra have none of these.
  control_ = platform == inventory::Platform::kNvml ? host::existing_nodes(kControlNodes) : std::vector<std::string>{};
  channels_ = host::existing_imex_channels(imex.channel_ids, driver_root);
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
  if (host::existing_imex_channels(imex_.channel_ids, driver_root_) != channels_) return on_change_();
  timer_.start(wait_, [this] { look_again(); });
}

}  // namespace tranche::agent
