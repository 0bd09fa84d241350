#include "cli/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/text.h"
#include "base/version.h"
#include "cli/setting_options.h"
#include "programs/mig_manager/mig_manager_program.h"

namespace tranche::cli {

bool is_folder(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

std::optional<int> read_as_nvidias(CLI::App& app, const std::vector<std::string>& arguments) {
  app.set_version_flag("--version,-v", fmt::format("{} (tranche {})", app.get_name(), kVersion));
  auto go = read_go_arguments(arguments, [&app](std::string_view name) {
    const std::string flag = (name.size() == 1 ? "-" : "--") + std::string(name);
    const CLI::Option* option = app.get_option_no_throw(flag);
    return option != nullptr && option->get_items_expected_min() > 0;
  });
  if (!go.rest.empty() && (go.rest.front() == "help" || go.rest.front() == "h")) go.words = {"--help"};
  try {
    app.parse(std::vector<std::string>(go.words.rbegin(), go.words.rend()));  // CLI11 expects the last word first
  } catch (const CLI::ParseError& error) {
    return leave(app, error, 1);
  }
  if (!go.rest.empty())
    fmt::print(stderr,
               "{}: warning: ignored, as NVIDIA's program ignores everything from the first word that is no flag: {}; "
               "a switch has its value after \"=\"\n",
               app.get_name(), join(go.rest, " ", in_quotes));
  return std::nullopt;
}

namespace {

struct MigManagerGiven : Held<programs::MigManagerOptions> {
  std::string host_root = "/host";
  std::string driver_root;
  std::string driver_root_here;
  std::string ignored;  // of flags without effect
};

std::string below(const std::string& root, const std::string& path) {
  return is_folder(root) && root != "/" ? root + path : path;
}

void add_mig_manager_options(CLI::App& app, MigManagerGiven& given) {
  auto& o = given.options;
  add_variable_option(app, "--kubeconfig", o.kubeconfig, kKubeconfigHelp);
  add_variable_option(app, "--node-name,-n", o.mig.node_name, "what the cluster calls this node; required");
  add_variable_option(app, "--config-file,-f", o.mig.options.config_file,
                      "MIG configurations in mig-parted's format; empty: the default configurations of these GPUs");
  add_variable_option(app, "--default-gpu-clients-namespace,-p", o.operator_namespace,
                      "namespace of the pods to pause");
  add_variable_option(app, "--host-root-mount,-m", given.host_root, "where the root of the node is mounted");
  add_variable_option(app, "--nvidia-driver-root,--driver-root,-t", given.driver_root,
                      "root of the driver on the node");
  add_variable_option(app, "--driver-root-ctr-path,-a", given.driver_root_here, "root of the driver in this container");
  app.add_flag("--with-reboot,-r", o.reboot_asked, "no effect: nodes are not restarted")->envname("WITH_REBOOT");
  app.add_flag("--with-shutdown-host-gpu-clients,-d", o.host_clients_asked,
               "no effect: units of the host are not stopped")
      ->envname("WITH_SHUTDOWN_HOST_GPU_CLIENTS");
  for (const char* name : {"--reconfigure-script,-s", "--host-nvidia-dir,-i", "--host-mig-manager-state-file,-o",
                           "--host-kubelet-systemd-service,-k", "--gpu-clients-file,-g", "--default-config-file",
                           "--dev-root,-b", "--dev-root-ctr-path,-j", "--nvidia-cdi-hook-path"})
    app.add_option(name, given.ignored, "no effect");
  app.add_flag("--cdi-enabled{true}", given.ignored, "no effect");
  add_log_options(app, given.log);
}

// The operator names a path that its DaemonSet does not mount; the node's root has the driver, too.
std::string driver_root(const MigManagerGiven& given) {
  if (!given.driver_root_here.empty() && is_folder(given.driver_root_here)) return given.driver_root_here;
  const std::string on_node = given.driver_root.empty() ? "/run/nvidia/driver" : given.driver_root;
  const std::string here = given.host_root + on_node;
  return is_folder(given.host_root) && is_folder(here) ? here : "/";
}

}  // namespace

int mig_manager(const std::vector<std::string>& arguments, Process& process) {
  CLI::App app("Tranche as NVIDIA's MIG manager: the same flags, variables and labels", kMigManager);
  MigManagerGiven given;
  add_mig_manager_options(app, given);
  if (const auto status = read_as_nvidias(app, arguments)) return *status;
  auto& o = given.options;
  if (o.mig.node_name.empty()) {
    fmt::print(stderr, "{}: the name of this node is not given: --node-name or $NODE_NAME\n", kMigManager);
    return 1;
  }
  o.driver_root = driver_root(given);
  o.pod_resources_socket = below(given.host_root, "/var/lib/kubelet/pod-resources/kubelet.sock");
  o.mig.options.enabled = o.mig.options.in_operators_place = true;
  return programs::run_mig_manager(started(given, process));
}

}  // namespace tranche::cli
