#include "programs/node/plugin_settings.h"

#include <unistd.h>

namespace tranche::agent {

host::PluginHostSettings plugin_settings(const std::string& plugin_dir, const config::PluginRun& run, MonoTime now) {
  host::PluginHostSettings settings;
  // Nodes that start together get different seeds, so their retries drift apart.
  settings.seed = static_cast<std::uint64_t>(now.time_since_epoch().count()) ^ static_cast<std::uint64_t>(::getpid());
  settings.plugin_dir = plugin_dir;
  settings.register_with_kubelet = !run.kubelet_socket.empty();
  if (run.kubelet_socket != config::PluginRun{}.kubelet_socket) settings.kubelet_socket = run.kubelet_socket;
  return settings;
}

}  // namespace tranche::agent
