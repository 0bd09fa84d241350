#pragma once
// The device nodes in Allocate responses besides the devices' own: the driver's control nodes and the IMEX channels.
// Checked when something may have changed and, while a configured channel is missing, repeatedly with back-off. Loop
// thread only; a check is a handful of stat calls.
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "base/time.h"
#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "os/loop/loop.h"

namespace tranche::cdi {

// Where this process finds the driver's device nodes: `driver_root` if it has a `dev` folder, else `system_root`.
std::string container_dev_root(const std::string& driver_root, const std::string& system_root = "/");

// The `paths` ("/dev/nvidiactl") that exist under `root`, in the same order.
std::vector<std::string> existing_nodes(std::span<const std::string_view> paths, const std::string& root = "/");

std::string imex_channel_path(int channel);  // "/dev/nvidia-caps-imex-channels/channel0"

// The `channels` whose node is a character device under the container dev root or, failing that, `system_root`.
std::vector<int> existing_imex_channels(std::span<const int> channels, const std::string& driver_root,
                                        const std::string& system_root = "/");

// `existing`: those of imex.channel_ids whose device node exists. Errors if the channels are required, else warnings:
// missing channels are omitted from responses.
std::vector<Problem> imex_problems(const config::Imex& imex, const std::vector<int>& existing);

// Why no device may be allocated, in one sentence; "" if no required channel is missing.
std::string imex_block(const config::Imex& imex, const std::vector<int>& existing);

class DeviceNodes {
 public:
  // on_change: runs on the loop after a missing channel has appeared; the caller must call look() then.
  DeviceNodes(os::Loop& loop, std::function<void()> on_change) : loop_(loop), on_change_(std::move(on_change)) {}
  DeviceNodes(const DeviceNodes&) = delete;
  DeviceNodes& operator=(const DeviceNodes&) = delete;

  void look(const config::Imex& imex, gpu::Platform platform, const std::string& driver_root);

  const std::vector<std::string>& control() const { return control_; }
  const std::vector<int>& imex_channels() const { return channels_; }
  const std::vector<Problem>& problems() const { return problems_; }
  const std::string& block() const { return block_; }  // why no device may be allocated, or ""

 private:
  void look_again();

  os::Loop& loop_;
  std::function<void()> on_change_;
  os::Timer timer_{loop_};
  Duration wait_{};
  config::Imex imex_;
  std::string driver_root_;
  std::vector<std::string> control_;
  std::vector<int> channels_;
  std::vector<Problem> problems_;
  std::string block_;
};

}  // namespace tranche::cdi
