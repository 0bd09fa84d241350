#pragma once
// Which of the driver's device nodes exist where this process can see them. Cheap (a handful of stat calls), so that it
// can be asked again at every scan: nodes come and go with the driver and the fabric. No thread affinity.
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tranche::host {

// Where device nodes of the driver are for this process: `driver_root` when it has a `dev` folder, else `system_root`.
std::string container_dev_root(const std::string& driver_root, const std::string& system_root = "/");

// Those of `paths` ("/dev/nvidiactl") that exist under `root`, in the same order.
std::vector<std::string> existing_nodes(std::span<const std::string_view> paths, const std::string& root = "/");

std::string imex_channel_path(int channel);  // "/dev/nvidia-caps-imex-channels/channel0"

// Those of `channels` whose node is a character device under the container dev root or, failing that, `system_root`.
std::vector<int> existing_imex_channels(std::span<const int> channels, const std::string& driver_root,
                                        const std::string& system_root = "/");

}  // namespace tranche::host
