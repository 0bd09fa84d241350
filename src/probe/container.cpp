#include "probe/container.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "os/loop/fd.h"

namespace tranche::probe {
namespace {

constexpr const char* kEndpointAt = "/run/tranche/mps";  // as in containers (docs/reference/paths.md)

Status failed(const char* doing, const std::string& where) {
  return fail_errno(doing, where);
}

Status put_endpoint(const std::string& endpoint) {
  if (::unshare(CLONE_NEWNS) != 0) return failed("cannot have a mount namespace of its own (CAP_SYS_ADMIN)", "");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return failed("cannot keep mounts to itself", "/");
  // Opened here: what was opened in the former namespace cannot be mounted in this one. And before what may hide it.
  const os::Fd from(::open(endpoint.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!from) return failed("cannot open the endpoint's directory", endpoint);
  if (::mount("tmpfs", kRunDirectory, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=0755") != 0)
    return failed("cannot mount over the run directory", kRunDirectory);
  if (::mkdir(kEndpointAt, 0755) != 0)
    return failed("cannot make the directory that the endpoint is mounted at", kEndpointAt);
  const std::string source = "/proc/self/fd/" + std::to_string(from.get());
  if (::mount(source.c_str(), kEndpointAt, nullptr, MS_BIND, nullptr) != 0)
    return failed("cannot mount the endpoint", endpoint);
  if (::mount(nullptr, kEndpointAt, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) != 0)
    return failed("cannot make the endpoint's mount read-only", kEndpointAt);
  ::setenv("CUDA_MPS_PIPE_DIRECTORY", kEndpointAt, 1);
  return {};
}

Status become_user(std::uint32_t user) {
  if (::setgroups(0, nullptr) != 0) return failed("cannot drop groups", "");
  if (::setresgid(user, user, user) != 0) return failed("cannot become the group", std::to_string(user));
  if (::setresuid(user, user, user) != 0) return failed("cannot become the user", std::to_string(user));
  return {};
}

}  // namespace

Status become_container(const Container& container) {
  if (!container.endpoint.empty()) TRY_STATUS(put_endpoint(container.endpoint));
  if (container.user) TRY_STATUS(become_user(*container.user));
  return {};
}

}  // namespace tranche::probe
