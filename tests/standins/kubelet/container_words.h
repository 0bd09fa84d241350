#pragma once
// What a container's process is started with: the pod's words and the plugin's grant put together as kubelet does it.
// Environment: what the image would bring (here: our own environment), then the grant's, then the pod's, later ones
// winning, so a pod can override what the plugin said. Pure.
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

struct ContainerWords {
  std::vector<std::string> argv{};
  std::vector<std::string> env{};  // "NAME=value", each name once
};

ContainerWords container_words(const PodContainer& container, const ContainerGrant& grant,
                               const std::vector<std::string>& image_env, ContainerMode mode);

// $(NAME) becomes the variable's value where there is one, $$ becomes $.
std::string expand_variables(std::string_view text, const std::vector<std::pair<std::string, std::string>>& env);

// Every path in `text` that is a mount's container path, or lies below one, with the host path in its place.
std::string with_host_paths(std::string_view text, const std::vector<ContainerGrant::Mount>& mounts);

}  // namespace tranche::sim
