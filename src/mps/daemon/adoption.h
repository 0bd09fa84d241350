#pragma once
// A control daemon that runs already in a pool's pipe directory: ours from before a restart (to be adopted), or a
// foreign one (to be named, never touched). Found by its pid file, by who listens at its socket, or in /proc, so that
// none of the three alone decides. Only a process of our own user is a daemon of ours, and none of a container but the
// one that listens at the socket: a file can be damaged, and a tenant may run the same program under the same
// environment. No threads.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "mps/daemon/daemon_home.h"
#include "mps/daemon/tier.h"
#include "mps/pool/pool_dirs.h"
#include "os/process/process.h"

namespace tranche::host {

struct ExpectedDaemon {
  std::string program;  // the configured control program, as this process names it
  DaemonHome home;
  std::map<std::string, std::string> environment;  // as we would have given it
};

struct Leftover {
  ProcessRef ref;
  std::string note;  // what is wrong with the traces of it; "" = nothing
};

// nullopt: none runs there. kConflict: one does whose program or environment is not what we would have started.
Result<std::optional<Leftover>> find_leftover(const PoolDirs& dirs, const ExpectedDaemon& expected);

// The tier that the daemon of a pool runs in, as its options say; nullopt: none runs there.
std::optional<mps::Tier> tier_of_leftover(const allocate::Paths& paths, const std::string& pool);

// A daemon that runs under an MPS root, whoever plans it: for ending what was left there.
struct LeftPool {
  std::string id;
  pid_t pid = 0;
  std::vector<std::string> devices;  // of its CUDA_VISIBLE_DEVICES
};
// By id. Pools without a live daemon are passed over; a root that is not there has none.
Result<std::vector<LeftPool>> find_left_pools(const std::string& mps_root);

// /proc/<pid>/environ → its variables; a piece without "=" is skipped. Pure.
std::map<std::string, std::string> parse_environ(std::string_view text);
// All four user ids of /proc/<pid>/status are `uid`. Pure.
bool is_of_user(std::string_view status, unsigned uid);

}  // namespace tranche::host
