#include "agent/node/doors.h"

#include "host/files/files.h"

namespace tranche::agent {

Status make_door(const allocate::Paths& paths, const std::string& pool, const std::string& grant) {
  const std::string control = paths.pipe(pool) + "/control";
  // A door that was made before keeps its socket's inode alive, so an equal number is an equal socket. Two system calls
  // for what happens most: slots come round again, and so do their doors.
  if (host::same_file(control, paths.door(pool, grant) + "/control")) return {};
  auto doors = host::Dir::open(paths.doors(pool));
  if (!doors) return std::unexpected(within(std::move(doors).error(), "the MPS pool " + pool + " has no doors"));
  auto door = doors->make_subdir(grant, 0755);
  if (!door) return std::unexpected(within(std::move(door).error(), "cannot make the grant's door"));
  if (auto linked = door->hard_link(control, "control"); !linked)
    return std::unexpected(
        within(std::move(linked).error(), "cannot put the pool's control socket into the grant's door"));
  return {};
}

}  // namespace tranche::agent
