// What follows from the options of `tranche mps` alone.
#include "agent/mps/mps_program.h"

namespace tranche::agent {

ConfigPlaces config_places(const MpsOptions& options) {
  ConfigPlaces places;
  places.written = options.config_of_node;
  return places;
}

std::string mps_root_of(const MpsOptions& options, const config::Flags& flags) {
  if (!options.mps_root_here.empty()) return options.mps_root_here;
  return flags.mps_root.empty() ? std::string(config::kDefaultMpsRoot) : flags.mps_root;
}

host::DaemonHome daemon_home(const MpsOptions& options, const config::Flags& flags, const std::string& mps_root_here) {
  return {.host = options.daemons_on_host,
          .host_pid = options.host_pid,
          .mps_root = flags.mps_root.empty() ? mps_root_here : flags.mps_root,
          .driver_root = flags.nvidia_driver_root,
          .driver_root_here =
              options.driver_root_here.empty() ? flags.plugin.container_driver_root : options.driver_root_here,
          .cgroup = options.daemon_cgroup};
}

}  // namespace tranche::agent
