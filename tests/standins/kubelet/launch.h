#pragma once
// Starts a container's process. The child is this program with a hidden first argument: it binds its life to the
// parent's, makes the mounts if requested, and executes the container's command. Only a thread that lives as long as
// the process may start containers: the kernel ends a child with the thread that started it.
#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "standins/kubelet/container_command.h"
#include "standins/kubelet/kubelet.h"

namespace tranche::sim {

inline constexpr const char* kContainerInit = "--container-init";  // argv[1] of the child
inline constexpr int kStartErrorFd = 3;                            // where it reports why it cannot start

struct Started {
  pid_t pid = 0;       // leader of a process group of its own
  int output_fd = -1;  // its standard output and error, for reading, non-blocking
  int error_fd = -1;   // at end-of-file the command is running; otherwise contains the error
};

Result<Started> start_process(const ContainerCommand& command, const ContainerGrant& grant, ContainerMode mode);

// The child's main program: argc and argv of main, if argv[1] is kContainerInit. Returns only to exit.
int container_init(int argc, char** argv);

}  // namespace tranche::sim
