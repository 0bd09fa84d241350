#pragma once
// A control daemon that runs already in a pool's pipe directory: ours from before a restart (to be adopted), or
// somebody else's (to be named, never touched). Read from the daemon's pid file and /proc. No threads.
#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "host/mps/pool_dirs.h"
#include "host/process/process.h"

namespace tranche::host {

// nullopt: nobody runs there. kConflict: somebody does whose environment is not what we would have given it.
Result<std::optional<ProcessRef>> find_leftover(const PoolDirs& dirs,
                                                const std::map<std::string, std::string>& environment);

// /proc/<pid>/environ → its variables; a piece without "=" is skipped. Pure.
std::map<std::string, std::string> parse_environ(std::string_view text);

}  // namespace tranche::host
