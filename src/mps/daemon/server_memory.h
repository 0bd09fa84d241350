#pragma once
// Where the MPS servers of one pool keep the memory that they share with clients, and whether containers can get it.
// Newer drivers use an anonymous file (r580: `/memfd:mps.shm.0.488 (deleted)`, measured). Older ones are reported to
// use files in /dev/shm (`/dev/shm/cuda.shm.…`): then a client needs the server's /dev/shm, and containers get it if it
// is the folder below the MPS root. Each server is inspected until it maps something, at most a few times. The result
// outlives the server, because a driver does not change its method. Loop thread only.
#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/enum_names.h"

namespace tranche::mps {

enum class SharedMemory {
  kUnknown,    // neither kind is mapped (yet)
  kAnonymous,  // passed as a descriptor: clients need nothing
  kNamed,      // in /dev/shm: clients need the server's
};
ENUM_NAMES(SharedMemory::kNamed, "unknown", "anonymous", "/dev/shm")

// From /proc/<server>/maps. Pure; fuzzed.
SharedMemory shared_memory_in(std::string_view maps);

class ServerMemory {
 public:
  // `folder`: what containers can get as /dev/shm, as a path of this process.
  explicit ServerMemory(std::string folder) : folder_(std::move(folder)) {}

  bool look(pid_t server);  // one of them, which all use the same driver; 0: there is none. True: the result changed
  SharedMemory where() const { return where_; }
  // Containers need the folder, and the server uses it.
  bool is_to_be_given() const { return where_ == SharedMemory::kNamed && is_folder_; }
  // Why clients in containers cannot start, or how one of them can harm the node; "" = no known problem.
  std::string problem() const;

 private:
  bool is_bounded() const;
  std::string folder_;
  SharedMemory where_ = SharedMemory::kUnknown;
  bool is_folder_ = false;
  pid_t looked_at_ = 0;
  int looks_ = 0;
};

}  // namespace tranche::mps
