#pragma once
// Whether a process in a container is one of NVIDIA's programs that administrators run on GPU nodes (DCGM, fabric
// manager …). A process chooses its own name, and an image the names of its programs, so that neither decides alone:
// the process must also have CAP_SYS_ADMIN in the node's user namespace, with which it controls the node anyway: the
// caller checks that. Pure.
#include <string_view>

namespace tranche::guard {

bool has_host_daemons_name(std::string_view program);  // where /proc/<pid>/exe leads

}  // namespace tranche::guard
