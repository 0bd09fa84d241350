// `nvidia-mig-manager` by name: its flags and variables, as the GPU Operator's DaemonSet sets them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/nvidia_arguments.h"
#include "cli/setting_options.h"
#include "cli/stand_in.h"
#include "cli/usage.h"
#include "programs/mig_manager/mig_manager_program.h"

namespace tranche::cli {
namespace {

struct Given {
  programs::MigManagerOptions options;
  std::string host_root = "/host";
  std::string driver_root;
  std::string driver_root_here;
  std::string with_reboot, with_host_clients;
  std::string run_dir = "/run/tranche";
  std::string ignored;  // of flags without effect
  LogOptions log;
};

std::string below(const std::string& root, const std::string& path) {
  return is_folder(root) && root != "/" ? root + path : path;
}

void add_options(CLI::App& app, Given& given) {
  auto& o = given.options;
  app.add_option("--kubeconfig", o.kubeconfig, "how to reach the API server; empty: as every pod is given it")
      ->envname("KUBECONFIG");
  app.add_option("--node-name,-n", o.node_name, "what the cluster calls this node; required")->envname("NODE_NAME");
  app.add_option("--config-file,-f", o.config_file,
                 "MIG configurations in mig-parted's format; empty: the default configurations of these GPUs")
      ->envname("CONFIG_FILE");
  app.add_option("--default-gpu-clients-namespace,-p", o.operator_namespace, "namespace of the pods to pause")
      ->envname("DEFAULT_GPU_CLIENTS_NAMESPACE")
      ->capture_default_str();
  app.add_option("--host-root-mount,-m", given.host_root, "where the root of the node is mounted")
      ->envname("HOST_ROOT_MOUNT")
      ->capture_default_str();
  app.add_option("--nvidia-driver-root,--driver-root,-t", given.driver_root, "root of the driver on the node")
      ->envname("NVIDIA_DRIVER_ROOT");
  app.add_option("--driver-root-ctr-path,-a", given.driver_root_here, "root of the driver in this container")
      ->envname("DRIVER_ROOT_CTR_PATH");
  app.add_flag("--with-reboot{true},-r{true}", given.with_reboot, "no effect: nodes are not restarted [$WITH_REBOOT]");
  app.add_flag("--with-shutdown-host-gpu-clients{true},-d{true}", given.with_host_clients,
               "no effect: units of the host are not stopped [$WITH_SHUTDOWN_HOST_GPU_CLIENTS]");
  for (const char* name : {"--reconfigure-script,-s", "--host-nvidia-dir,-i", "--host-mig-manager-state-file,-o",
                           "--host-kubelet-systemd-service,-k", "--gpu-clients-file,-g", "--default-config-file",
                           "--dev-root,-b", "--dev-root-ctr-path,-j", "--nvidia-cdi-hook-path"})
    app.add_option(name, given.ignored, "no effect");
  app.add_flag("--cdi-enabled{true}", given.ignored, "no effect");
  app.add_option("--run-dir", given.run_dir, "directory on the node for the record of what is under way")
      ->envname("TRANCHE_RUN_DIR")
      ->capture_default_str();
  add_log_options(app, given.log);
}

// The operator names a path that its DaemonSet does not mount; the node's root has the driver, too.
std::string driver_root(const Given& given) {
  if (!given.driver_root_here.empty() && is_folder(given.driver_root_here)) return given.driver_root_here;
  const std::string on_node = given.driver_root.empty() ? "/run/nvidia/driver" : given.driver_root;
  const std::string here = given.host_root + on_node;
  return is_folder(given.host_root) && is_folder(here) ? here : "/";
}

}  // namespace

int mig_manager(const std::vector<std::string>& arguments, Process& process) {
  CLI::App app("Tranche as NVIDIA's MIG manager: the same flags, variables and labels", kMigManager);
  Given given;
  add_options(app, given);
  if (const auto status = read_as_nvidias(app, arguments)) return *status;
  auto& o = given.options;
  if (o.node_name.empty()) {
    fmt::print(stderr, "{}: the name of this node is not given: --node-name or $NODE_NAME\n", kMigManager);
    return 1;
  }
  o.driver_root = driver_root(given);
  o.pod_resources_socket = below(given.host_root, "/var/lib/kubelet/pod-resources/kubelet.sock");
  o.folder = below(given.host_root, given.run_dir) + "/mig";
  o.reboot_asked = switch_of(given.with_reboot, "WITH_REBOOT", false, process).value_or(false);
  o.host_clients_asked =
      switch_of(given.with_host_clients, "WITH_SHUTDOWN_HOST_GPU_CLIENTS", false, process).value_or(false);
  apply(given.log);
  o.environment = process.environment;
  return programs::run_mig_manager(o);
}

}  // namespace tranche::cli
