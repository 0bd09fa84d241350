#pragma once
// Finds what to end for a client that has exited and whose channels something keeps (mps/relay/client_table.h): its
// server has the client, with its memory and its places, until that ends. At the first attempt these are the processes
// of the client's pod that have its channels: forks of the client, or processes that received its descriptors. If none
// is found, or the client is still there afterwards (a descriptor that lies in a socket's queue belongs to no process
// that can be found), it is the first process of the client's container; from the third attempt on, the first process
// of each container of the pod. Never a process of another pod or of the node, whatever descriptors it has. If the
// control group of the client is not kubelet's, its pod is not known, and these are processes of its container only.
//
// The clients that the kernel kills with a first process are not in the answer: client_ending.h, KilledWith.
#include <functional>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "mps/pool/client_ending.h"
#include "mps/relay/client_table.h"
#include "os/loop/loop.h"
#include "os/process/process.h"

namespace tranche::mps {

struct FirstProcess {
  std::string container;  // containers.h, container_of()
  os::ProcessRef process;
};

struct FoundHeirs {
  Heirs of;                         // of each remnant
  std::vector<FirstProcess> first;  // those of them that are the first of their container, and end all of it
};

struct HeirsAsked {
  std::vector<Remnant> remnants;
  std::set<int> own;  // processes that have the channels by right: servers, daemon
};
// If the container of a remnant is not known, nothing is found. A container whose processes are all younger than the
// client may be a later one of the same name, because the kernel gives numbers of namespaces again: it is not ended as
// a whole. Reads all of /proc, which takes tens of milliseconds on a busy node. Any thread.
FoundHeirs find_heirs(const HeirsAsked& asked);

// Containers whose first process is being terminated: the kernel kills all others of the container with it. Until it
// has exited, the container has no new clients at any endpoint. Loop thread only.
class EndingContainers {
 public:
  explicit EndingContainers(os::Loop& loop) : loop_(loop) {}
  EndingContainers(const EndingContainers&) = delete;
  EndingContainers& operator=(const EndingContainers&) = delete;

  // These are first processes, although the kernel does not show it: containers that share the pid namespace of their
  // pod or of the node. Until the next call.
  void note(std::vector<FirstProcess> first) { noted_ = std::move(first); }
  // Closes the container if the process is its first. The container; "": it is not, or it has exited.
  std::string close_with(const os::ProcessRef& process);
  // The exit of this first process ends the other process of its container: false for a process outside of the pid
  // namespace that a process of the container has created below its own.
  static bool ends(const os::ProcessRef& first, int pid);
  // Why this process may not connect; "" if its container is not closed.
  std::string refuses(int pid) const;

 private:
  struct Closed {
    std::string container;
    std::unique_ptr<os::Process> first;
  };
  std::string container_with(const os::ProcessRef& process) const;

  void exited(os::ProcessRef process);

  os::Loop& loop_;
  std::vector<FirstProcess> noted_;
  std::list<Closed> closed_;
};

}  // namespace tranche::mps
