#pragma once
// The pipes that a process has open, from /proc/<pid>/fd, without opening them. Needs CAP_SYS_PTRACE for processes of
// others. Any thread; a process with a thousand descriptors takes about a millisecond.
#include <set>
#include <string>

namespace tranche::host {

// Adds their names, "pipe:[1137]". false: its descriptors cannot be read, as of a process that has exited.
bool add_open_pipes(int pid, std::set<std::string>& pipes);

}  // namespace tranche::host
