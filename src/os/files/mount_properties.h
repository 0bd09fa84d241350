#pragma once
// The properties of the mount that a directory is on. Any thread.
#include <string>

#include "base/result.h"

namespace tranche::host {

struct MountProperties {
  bool no_exec = false;
  bool read_only = false;
  // It is in the writable layer of this process's container: invisible to other containers and to the node.
  bool own_layer = false;
};
Result<MountProperties> mount_properties(const std::string& path);

}  // namespace tranche::host
