#include "mps/pool/pool_dirs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>

namespace tranche::host {
namespace {

constexpr std::size_t kLongestSocketPath = sizeof(sockaddr_un::sun_path) - 1;
constexpr const char* kLongestName = "control_privileged";

}  // namespace

Result<PoolDirs> PoolDirs::make(const allocate::Paths& paths, const std::string& pool) {
  const std::string longest = paths.pipe(pool) + "/" + kLongestName;
  if (longest.size() > kLongestSocketPath) {
    return fail(
        Kind::kInvalid,
        fmt::format("the path of the daemon's socket would have {} characters and may have {}; choose a shorter "
                    "MPS root",
                    longest.size(), kLongestSocketPath),
        longest);
  }
  TRY(Dir pipe, Dir::create(paths.pipe(pool), 0755));
  TRY(Dir log, Dir::create(paths.log(pool), 0755));
  TRY(Dir endpoints, Dir::create(paths.endpoints(pool), 0755));
  return PoolDirs(std::move(pipe), std::move(log), std::move(endpoints));
}

Status set_reach(const std::string& mps_root, Reach reach) {
  const mode_t mode = reach == Reach::kOwner ? 0700 : 0711;
  TRY(const Dir root, Dir::create(mps_root, 0755));
  TRY(const Dir pools, root.make_subdir("pools", mode));
  // An existing directory may be from a version that let every user enter.
  const Fd fd(::openat(pools.fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd && ::fchmod(fd.get(), mode) == 0) return {};
  return std::unexpected(error_from_errno(errno, "cannot close the pools' directory to other users", pools.path()));
}

// Removes whatever is at their names: the daemon creates them.
Status PoolDirs::remove_stale_sockets() const {
  for (const char* name : {"control", kLongestName, "log", kPidFile, "control_lock"})
    TRY_STATUS(pipe_.remove_tree(name));
  return {};
}

Status PoolDirs::relink_endpoints() const {
  TRY(const auto grants, endpoints_.list());
  Status first;
  for (const auto& grant : grants) {
    const auto linked = endpoints_.hard_link(control_socket(), grant + "/control");
    if (!linked && first) first = std::unexpected(within(linked.error(), "endpoint " + grant));
  }
  return first;
}

Result<std::string> PoolDirs::read_pid_file() const {
  return pipe_.read(kPidFile, 64);
}

}  // namespace tranche::host
