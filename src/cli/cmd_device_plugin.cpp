#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "cli/shared_commands.h"
#include "cli/stand_in.h"

namespace tranche::cli {
namespace {

constexpr const char* kPlugin = "nvidia-device-plugin";
constexpr const char* kMpsDaemon = "mps-control-daemon";
constexpr const char* kFeatureDiscovery = "gpu-feature-discovery";
constexpr const char* kRootOfNode = "/host";  // where the GPU Operator mounts it, read-only, only in the device plugin
constexpr const char* kMpsPlace = "/mps";     // where NVIDIA's chart mounts the host's MPS root in its containers

int as_nvidias(int status) {
  return status == 0 ? 0 : 1;
}

// NVIDIA's manifests do not mount the folder of kubelet's PodResources socket, which reports the holders of devices. If
// they mount the node's root, the socket is reached through that: it accepts connections below a read-only mount too.
std::string pod_resources_socket(const std::string& given) {
  const std::filesystem::path elsewhere(kRootOfNode + given);
  const bool only_there = !is_folder(std::filesystem::path(given).parent_path()) && is_folder(elsewhere.parent_path());
  return only_there ? elsewhere.string() : given;
}

int device_plugin(const std::vector<std::string>& arguments, Process& process) {
  std::optional<CLI::App> app(
      std::in_place, "Tranche as NVIDIA's device plugin: the same flags, variables, files and sockets", kPlugin);
  NodeCommand held;
  held.options.mps_root_here = kMpsPlace;
  held.options.run_dir_may_lack = true;
  add_node_options(*app, held);
  if (const auto status = read_as_nvidias(*app, arguments)) return *status;
  app.reset();  // its options need 0.4 MB
  held.options.pod_resources_socket = pod_resources_socket(held.options.pod_resources_socket);
  return as_nvidias(node::run_node(started(held, process)));
}

int mps_control_daemon(const std::vector<std::string>& arguments, Process& process) {
  std::optional<CLI::App> app(
      std::in_place, "Tranche as NVIDIA's MPS control daemon: the same flags, variables and files", kMpsDaemon);
  MpsCommand held;
  held.options.mps_root_here = kMpsPlace;
  add_settings(*app, config::Program::kMpsControlDaemon, held.options.flags);
  add_own_mps_options(*app, held);
  std::vector<std::string> rest;
  if (const auto status = read_as_nvidias(*app, arguments, rest)) return *status;
  if (!rest.empty() && rest.front() == "mount-shm") {
    fmt::print(stderr,
               "{}: mount-shm has nothing to do: containers reach MPS through a directory of their own, and where the "
               "driver needs shared memory as well, the folder that is there does\n",
               kMpsDaemon);
    return 0;
  }
  warn_of_ignored(*app, rest);
  app.reset();  // its options need 0.4 MB
  return as_nvidias(run(held, process));
}

int feature_discovery(const std::vector<std::string>& arguments, Process& process) {
  CLI::App app("Tranche as NVIDIA's GPU feature discovery: the same flags, variables, labels and outputs",
               kFeatureDiscovery);
  FeatureCommand held;
  add_feature_options(app, held);
  if (const auto status = read_as_nvidias(app, arguments)) return *status;
  return as_nvidias(labels::run_feature_discovery(started(held, process)));
}

}  // namespace

std::optional<int> stand_in(const std::string& program, const std::vector<std::string>& arguments, Process& process) {
  const std::string name = program.substr(program.rfind('/') + 1);  // npos + 1 is 0
  if (name == kPlugin) return device_plugin(arguments, process);
  if (name == kMpsDaemon) return mps_control_daemon(arguments, process);
  if (name == kConfigManager) return config_manager(arguments, process);
  if (name == kMigParted) return mig_parted(arguments, process);
  if (name == kMigManager) return mig_manager(arguments, process);
  if (name == kFeatureDiscovery) return feature_discovery(arguments, process);
  return std::nullopt;
}

void add_device_plugin(CLI::App& app, Process&) {
  app.add_subcommand("device-plugin",
                     "the node agent as NVIDIA's device plugin; the same as calling this program nvidia-device-plugin");
}

}  // namespace tranche::cli
