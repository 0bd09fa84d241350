#pragma once
// Which of the driver's device nodes exist where this process can see them. A handful of stat calls, cheap enough for
// every scan: nodes appear and disappear with the driver and the fabric. No thread affinity.
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tranche::host {

// Where this process finds the driver's device nodes: `driver_root` if it has a `dev` folder, else `system_root`.
std::string container_dev_root(const std::string& driver_root, const std::string& system_root = "/");

// The `paths` ("/dev/nvidiactl") that exist under `root`, in the same order.
std::vector<std::string> existing_nodes(std::span<const std::string_view> paths, const std::string& root = "/");

std::string imex_channel_path(int channel);  // "/dev/nvidia-caps-imex-channels/channel0"

// The `channels` whose node is a character device under the container dev root or, failing that, `system_root`.
std::vector<int> existing_imex_channels(std::span<const int> channels, const std::string& driver_root,
                                        const std::string& system_root = "/");

}  // namespace tranche::host
