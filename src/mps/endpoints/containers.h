#pragma once
// Containers as the kernel reports them. Reads /proc of processes that may end meanwhile and that tenants own: nothing
// counts that a tenant can choose. Needs the host's process ids and CAP_SYS_PTRACE. No threads.
#include <optional>
#include <string>

#include "os/process/process.h"
#include "termination/live/survival.h"

namespace tranche::agent {

// Names the container of a process, the same for all of its processes and for no others, also from nested namespaces
// that a tenant makes (bubblewrap, apptainer, `unshare`): its pod and container of the control group, below kubelet's;
// where there is none, the outermost pid namespace below ours; where that is ours, the mount namespace of its topmost
// ancestor that has neither our mounts nor the node's. "": in no container, or it has ended or may not be looked at.
std::string container_of(int pid);
// The same for several processes of one request. Absent: the request has used up its looks at ancestors.
std::optional<std::string> container_of(int pid, host::Ancestors& ancestors);
// The uid of the pod by the control group; "" where there is none.
std::string pod_of(int pid);
// Has our mounts or the node's: it is in no container but perhaps our own.
bool is_of_the_node(int pid);
// The process of a container that started first: its init, with whose end the whole container ends. `member`: any
// process of the container. Looks through all of /proc.
std::optional<host::ProcessRef> oldest_of(const std::string& container, int member);
// The grant whose endpoint, below this MPS root and in this pool, is in the process's mount table: for clients from
// before our start.
std::optional<std::string> grant_by_mounts(int pid, const std::string& mps_root, const std::string& pool);

}  // namespace tranche::agent
