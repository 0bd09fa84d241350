#pragma once
// Finds a control daemon that already runs in a pool's pipe directory: ours from before a restart (to adopt), or a
// foreign one (reported, never touched). It looks at the process that listens on the socket, and in /proc, so that no
// single source decides: the kernel may not know the listener, and a tenant may run the same program with the same
// environment. The daemon's pid file is not used: it can be damaged. Only a process of our own user counts as ours; a
// process in a container counts only if it listens on the socket, and otherwise nothing of its memory is read, which a
// tenant could block. No threads.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "mps/daemon/daemon_home.h"
#include "os/process/process.h"

namespace tranche::mps {

struct ExpectedDaemon {
  std::string program;  // the configured control program, as this process names it
  DaemonHome home;
  std::map<std::string, std::string> environment;  // the environment that we start it with
};

// nullopt: no daemon runs there. kConflict: one runs with a different program or environment than ours.
Result<std::optional<os::ProcessRef>> find_adoptable(const std::string& pipe, const ExpectedDaemon& expected);

// A daemon that runs under an MPS root, planned or not: for stopping what an earlier run left.
struct LeftPool {
  std::string id;
  pid_t pid = 0;
  std::vector<std::string> devices;  // from its CUDA_VISIBLE_DEVICES
};
// Sorted by id. Pools without a live daemon are omitted; a missing root has no pools.
Result<std::vector<LeftPool>> find_left_pools(const std::string& mps_root);

// Parses /proc/<pid>/environ; a piece without "=" is skipped. Pure.
std::map<std::string, std::string> parse_environ(std::string_view text);
// Whether all four user ids of /proc/<pid>/status are `uid`. Pure.
bool is_of_user(std::string_view status, unsigned uid);

}  // namespace tranche::mps
