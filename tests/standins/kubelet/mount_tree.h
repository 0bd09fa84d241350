#pragma once
// A container's view of files: a mount namespace of its own in which host paths appear at container paths. Mount points
// that do not exist are made without touching the host: the nearest existing directory above them is covered by a small
// tmpfs that shows the same entries. Changes the calling process for good; single-threaded programs only.
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
