#pragma once
// A control daemon that runs already in a pool's pipe directory: ours from before a restart (to be adopted), or
// somebody else's (to be named, never touched). Read from the daemon's pid file and /proc. No threads.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/mps/pool_dirs.h"
#include "host/process/process.h"
#include "mps/tier.h"

namespace tranche::host {

// nullopt: nobody runs there. kConflict: somebody does whose environment is not what we would have given it.
Result<std::optional<ProcessRef>> find_leftover(const PoolDirs& dirs,
                                                const std::map<std::string, std::string>& environment);

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

}  // namespace tranche::host
