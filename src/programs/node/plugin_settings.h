#pragma once
// Where kubelet is and where our sockets go. Pure but for this process's id.
#include <string>

#include "config/resolve.h"
#include "kubelet/plugin_host.h"

namespace tranche::agent {

// Without --kubelet-socket, kubelet's socket is where ours go; with an empty one there is no registration (NVIDIA's
// rule).
host::PluginHostSettings plugin_settings(const std::string& plugin_dir, const config::PluginRun& run, MonoTime now);

}  // namespace tranche::agent
