#pragma once
// Where the MPS servers of one pool keep what they share with their clients (mps/daemon/shared_memory.h), and whether
// containers can be given it. Older drivers are reported to use files in /dev/shm: then a client needs the server's
// /dev/shm, which containers get when it is the folder below the MPS root that is there for this. Each server is looked
// at until it maps something, a few times at most, and then never again; what was found outlives it, for a driver does
// not change its mind. Loop thread only.
#include <sys/types.h>

#include <string>
#include <vector>

#include "mps/daemon/shared_memory.h"

namespace tranche::host {

class ServerMemory {
 public:
  // `folder`: what containers can be given as /dev/shm, as this process names it.
  explicit ServerMemory(std::string folder) : folder_(std::move(folder)) {}

  bool look(const std::vector<pid_t>& servers);  // true: it knows something else now
  mps::SharedMemory where() const { return where_; }
  // Containers need the folder, and it is the server's.
  bool is_to_be_given() const { return where_ == mps::SharedMemory::kNamed && is_folder_; }
  // Why clients in containers will not start, or what one of them can do to the node; "" = nothing is known.
  std::string problem() const;

 private:
  bool is_bounded() const;
  std::string folder_;
  mps::SharedMemory where_ = mps::SharedMemory::kUnknown;
  bool is_folder_ = false;
  pid_t looked_at_ = 0;
  int looks_ = 0;
};

}  // namespace tranche::host
