#pragma once
// The locations of kubelet's and the agent's sockets. Pure except for this process's id.
#include <string>

#include "config/resolve.h"
#include "kubelet/plugin_host.h"

namespace tranche::agent {

// Without --kubelet-socket, kubelet's socket is in the directory of the agent's; with an empty one there is no
// registration (NVIDIA's rule).
host::PluginHostSettings plugin_settings(const std::string& plugin_dir, const config::PluginRun& run, MonoTime now);

}  // namespace tranche::agent
