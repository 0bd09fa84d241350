#pragma once
// Starting a container's process. The child is this same program, started with a hidden first argument: it ties its
// life to ours, makes the mounts if asked to, and becomes the container's command. Only the thread that lives as long
// as the process may start containers: the kernel ends a child with the thread that started it.
#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "standins/kubelet/container_words.h"
#include "standins/kubelet/kubelet.h"

namespace tranche::sim {

inline constexpr const char* kContainerInit = "--container-init";  // argv[1] of the child
inline constexpr int kStartErrorFd = 3;                            // where it says why it cannot start

struct Started {
  pid_t pid = 0;       // leader of a process group of its own
  int output_fd = -1;  // its standard output and error, for reading, non-blocking
  int error_fd = -1;   // ends without a word once the command runs, otherwise says why not
};

Result<Started> start_process(const ContainerWords& words, const ContainerGrant& grant, ContainerMode mode);

// What the child does: argc and argv of main, when argv[1] is kContainerInit. Returns only to exit.
int container_init(int argc, char** argv);

}  // namespace tranche::sim
