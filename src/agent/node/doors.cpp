#include "agent/node/doors.h"

#include "host/files/files.h"

namespace tranche::agent {

Status make_door(const allocate::Paths& paths, const std::string& pool, const std::string& grant) {
  auto doors = host::Dir::open(paths.doors(pool));
  if (!doors) return std::unexpected(within(std::move(doors).error(), "the MPS pool " + pool + " has no doors"));
  auto door = doors->make_subdir(grant, 0755);
  if (!door) return std::unexpected(within(std::move(door).error(), "cannot make the grant's door"));
  if (auto linked = door->hard_link(paths.pipe(pool) + "/control", "control"); !linked)
    return std::unexpected(
        within(std::move(linked).error(), "cannot put the pool's control socket into the grant's door"));
  return {};
}

}  // namespace tranche::agent
