#pragma once
// Containers whose first process is being terminated: the kernel kills all others of the container with it. Until it
// has exited, the container has no new clients at any endpoint. Loop thread only.
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "os/loop/loop.h"
#include "os/process/process.h"

namespace tranche::agent {

struct FirstProcess {
  std::string container;  // mps/endpoints/containers.h, container_of()
  host::ProcessRef process;
};

class EndingContainers {
 public:
  explicit EndingContainers(host::Loop& loop) : loop_(loop) {}
  EndingContainers(const EndingContainers&) = delete;
  EndingContainers& operator=(const EndingContainers&) = delete;

  // These are first processes, although the kernel does not show it: containers that share the pid namespace of their
  // pod or of the node. Until the next call.
  void note(std::vector<FirstProcess> first) { noted_ = std::move(first); }
  // Closes the container if the process is its first. The container; "": it is not, or it has exited.
  std::string close_with(const host::ProcessRef& process);
  // The exit of this first process ends the other process of its container: false for a process outside of the pid
  // namespace that a process of the container has created below its own.
  static bool ends(const host::ProcessRef& first, int pid);
  // Why this process may not connect; "" if its container is not closed.
  std::string refuses(int pid) const;

 private:
  struct Closed {
    std::string container;
    std::unique_ptr<host::Process> first;
  };
  std::string container_with(const host::ProcessRef& process) const;

  void exited(host::ProcessRef process);

  host::Loop& loop_;
  std::vector<FirstProcess> noted_;
  std::list<Closed> closed_;
};

}  // namespace tranche::agent
