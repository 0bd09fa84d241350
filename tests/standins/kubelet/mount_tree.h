#pragma once
// A container's view of files: a mount namespace of its own in which host paths appear at container paths. Missing
// mount points are created without changing the host: the nearest existing directory above is covered by a small tmpfs
// with the same entries. Changes the calling process permanently; single-threaded programs only.
#include <string>
#include <vector>

#include "base/result.h"

namespace tranche::sim {

struct BindMount {
  std::string host_path{};
  std::string container_path{};
  bool read_only = false;
};

Status enter_mount_namespace(const std::vector<BindMount>& mounts);

}  // namespace tranche::sim
