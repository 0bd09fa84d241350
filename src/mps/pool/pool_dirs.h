#pragma once
// The directories of one pool under the MPS root, and what containers can reach of its servers. No threads.
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "base/result.h"
#include "grants/allocate/grant.h"

namespace tranche::mps {

// Which users can access `<mps-root>/pools`, also an existing directory. The daemon's own files are accessible to every
// user (measured: sockets and pid file 0666), and containers get their grant's directory by a mount, so no other user
// needs access. If one MPS server cannot serve all users, MPS starts servers as the clients' users, which have to reach
// the daemon: they can pass through the directory, but not list it.
Status set_reach(const std::string& mps_root, bool servers_of_users);

// Creates the pipe, log and endpoint directories. kInvalid: a socket's path would be longer than the kernel accepts;
// the daemon itself would not report that.
Status make_pool_dirs(const grants::Paths& paths, const std::string& pool);
// Removes the sockets of a killed daemon, which would block a new one. Call only when no daemon runs there.
Status remove_stale_sockets(const std::string& pipe);

// --- before a daemon starts ---------------------------------------------------------------------------------------

inline constexpr unsigned long kFewOpenFiles = 16384;  // fewer cause shared memory failures (NVIDIA's manual)

// The daemon itself reports none of this: the owner and mode of the pipe directory, whether clients can reach it, the
// limit of open files, and the SELinux label that containers need. A condition that would let another user take over
// the pool is an error; one that may cause failures later is a note for the operator. Corrects the mode of a directory
// that we own, and labels. `servers_of_users`: MPS servers run as their clients' users and need access through all
// parent directories.
Result<std::vector<std::string>> check_before_start(const std::string& pipe, const std::string& endpoints,
                                                    bool servers_of_users);

// Pure parts.
// kDenied: another user owns it and could replace the daemon's socket.
Status judge_owner(const std::string& path, uid_t owner, uid_t ours);
std::string judge_open_files(unsigned long limit);  // "" = enough
// "system_u:object_r:container_file_t:s0" from "system_u:object_r:var_run_t:s0"; "" = not a label.
std::string for_containers(const std::string& label);

// --- the memory that servers share with clients ----------------------------------------------------------------------

// Where the MPS servers of one pool keep the memory that they share with clients, and whether containers can get it.
// Newer drivers use an anonymous file (r580: `/memfd:mps.shm.0.488 (deleted)`, measured). Older ones are reported to
// use files in /dev/shm (`/dev/shm/cuda.shm.…`): then a client needs the server's /dev/shm, and containers get it if it
// is the folder below the MPS root. Each server is inspected until it maps something, at most a few times. The result
// outlives the server, because a driver does not change its method. Loop thread only.

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
