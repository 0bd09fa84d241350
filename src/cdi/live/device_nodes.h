#pragma once
// The device nodes in Allocate responses besides the devices' own: the driver's control nodes and the IMEX channel.
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

// Whether the channel's node is a character device under the container dev root or, failing that, `system_root`.
bool imex_channel_exists(const std::string& driver_root, const std::string& system_root = "/");

// A channel that is configured and missing: an error if it is required, else a warning, and it is omitted from
// responses.
std::vector<Problem> imex_problems(const config::Imex& imex, bool exists);

// Why no device may be allocated, in one sentence; "" if no required channel is missing.
std::string imex_block(const config::Imex& imex, bool exists);

class DeviceNodes {
 public:
  // on_change: runs on the loop after a missing channel has appeared; the caller must call look() then.
  DeviceNodes(os::Loop& loop, std::function<void()> on_change) : loop_(loop), on_change_(std::move(on_change)) {}
  DeviceNodes(const DeviceNodes&) = delete;
  DeviceNodes& operator=(const DeviceNodes&) = delete;

  void look(const config::Imex& imex, gpu::Platform platform, const std::string& driver_root);

  const std::vector<std::string>& control() const { return control_; }
  bool imex_channel() const { return channel_; }  // configured, and its node exists
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
  bool channel_ = false;
  std::vector<Problem> problems_;
  std::string block_;
};

}  // namespace tranche::cdi
