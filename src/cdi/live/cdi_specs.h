#pragma once
// Keeps the node's CDI spec files in line with the configuration, the inventory and the driver's files while a list
// strategy uses CDI; otherwise does nothing. Searching and writing happen on the worker; all other calls are on the
// loop's thread. Files stay when the strategy is disabled and when the program ends: kubelet restarts a container of a
// running pod with its earlier Allocate response, and the runtime then needs the file (docs/reference/cdi.md).
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cdi/live/write_specs.h"
#include "cdi/make_specs.h"
#include "config/live/config_source.h"
#include "gpu/inventory/inventory.h"
#include "os/files/watch.h"
#include "os/loop/loop.h"
#include "os/worker/worker.h"

namespace tranche::cdi {

// Searches the driver root and the device nodes for the files that containers need: reads directories, resolves links
// inside the root, changes nothing. Takes milliseconds, more on a slow disk: do not call it on the loop.
//
// `driver_root`: where this process finds it; if it does not exist, this process's own root is searched. `system_root`:
// prefix of /sys, of /dev if the driver root has none, and of a Tegra system's CSV files if the driver root does not
// have their folder. Of the configuration: nvidiaDriverRoot and nvidiaCTKPath. kNotFound: there is no
// libcuda.so.<driver version>, so no container could use a GPU.
Result<DriverFiles> find_driver_files(const config::Config& config, const std::string& driver_root,
                                      const std::string& system_root, const gpu::Inventory& inventory);

// --- the device nodes in Allocate responses besides the devices' own: the driver's control nodes and the IMEX channel.
// A look is a handful of stat calls.

// Whether the channel's node is a character device under one of the roots.
bool imex_channel_exists(const std::string& driver_root, const std::string& system_root = "/");

// A channel that is configured and missing: an error if it is required, else a warning, and it is omitted from
// responses.
std::vector<Problem> imex_problems(const config::Imex& imex, bool exists);

// Why no device may be allocated, in one sentence; "" if no required channel is missing.
std::string imex_block(const config::Imex& imex, bool exists);

struct DeviceNodes {
  std::vector<std::string> control;  // those that exist
  bool imex_channel = false;         // configured, and its node exists
};
DeviceNodes find_device_nodes(const config::Imex& imex, gpu::Platform platform, const std::string& driver_root,
                              const std::string& system_root = "/");

struct CdiOptions {
  std::string cdi_root = kDefaultCdiRoot;
  std::string driver_root_here;  // "" = flags.plugin.containerDriverRoot
  std::string system_root = "/";
};

class CdiSpecs {
 public:
  // Calls `changed` on the loop when classes or problem have changed.
  CdiSpecs(os::Loop& loop, os::Worker& worker, CdiOptions options, std::function<void()> changed);
  ~CdiSpecs();

  // Call after every change of either; also if only the driver's files may have changed.
  void follow(const config::ConfigView& config, const std::optional<gpu::Inventory>& inventory);

  // Classes that Allocate may name. Includes "gpu" whenever there are GPUs to allocate, even if the file is missing: a
  // container that fails to start without a spec is better than one that runs without its GPU.
  const std::set<std::string>& classes() const { return classes_; }
  const std::string& problem() const { return problem_; }  // "" = none

 private:
  struct Input;
  struct Outcome;
  static Result<Outcome> make_and_write(const Input& input);

  void run();
  void take(const Result<Outcome>& outcome);
  void watch_devices();
  void device_changed(const std::string& name);
  void say(std::set<std::string> classes, std::string problem);

  os::Loop& loop_;
  os::Worker& worker_;
  CdiOptions options_;
  std::function<void()> changed_;
  std::shared_ptr<const Input> wanted_;  // null: no CDI
  os::Timer retry_{loop_};
  std::string watched_;          // the directory of device nodes
  std::set<std::string> nodes_;  // its entries at the last check
  std::unique_ptr<os::DirWatch> watch_;
  std::set<std::string> classes_;
  std::string problem_;
};

}  // namespace tranche::cdi
