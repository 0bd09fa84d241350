#pragma once
// The environment, arguments and mounts of a container's process: the pod's values and the plugin's grant combined as
// in kubelet. Environment: the image's (here: this process's), then the grant's, then the pod's. Later values win, so a
// pod can override the plugin's. Pure.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "standins/kubelet/kubelet.h"
#include "standins/kubelet/pods.h"

namespace tranche::sim {

enum class ContainerMode {
  kProcess,     // an ordinary child: container paths of mounts are replaced by host paths in variables and arguments
  kNamespaces,  // a mount namespace with the real mounts: paths are the container's
};

struct ContainerCommand {
  std::vector<std::string> argv{};
  std::vector<std::string> env{};  // "NAME=value", each name once
};

ContainerCommand container_command(const PodContainer& container, const ContainerGrant& grant,
                                   const std::vector<std::string>& image_env, ContainerMode mode);

// Replaces $(NAME) by the variable's value if there is one, and $$ by $.
std::string expand_variables(std::string_view text, const std::vector<std::pair<std::string, std::string>>& env);

// Replaces every path in `text` that is a mount's container path, or below one, by the host path.
std::string with_host_paths(std::string_view text, const std::vector<ContainerGrant::Mount>& mounts);

}  // namespace tranche::sim
