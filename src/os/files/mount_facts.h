#pragma once
// What the mount that a folder lies on allows. Any thread.
#include <string>

#include "base/result.h"

namespace tranche::host {

struct MountFacts {
  bool no_exec = false;
  bool read_only = false;
  // In the writable layer of this process' container: other containers and the node see nothing of it.
  bool own_layer = false;
};
Result<MountFacts> mount_facts(const std::string& path);

}  // namespace tranche::host
