// The directory below which the MPS sockets will live: every way in which one that looks fine fails later.
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/un.h>

#include <array>

#include "doctor/check/check.h"

namespace tranche::check {
namespace {

struct Remote {
  long magic;
  const char* name;
};
constexpr std::array kRemote = std::to_array<Remote>({{0x6969, "NFS"},
                                                      {0x65735546, "FUSE"},
                                                      {0xFF534D42, "CIFS"},
                                                      {0xFE534D42, "SMB"},
                                                      {0x00C36400, "Ceph"},
                                                      {0x01021997, "9p"},
                                                      {0x0BD00BD0, "Lustre"}});

// The deepest existing folder on the way to `path`.
std::string existing_part(const CheckOptions& options, std::string path) {
  while (path.size() > 1 && status_of(under_root(options, path)).type() == std::filesystem::file_type::not_found) {
    const std::size_t slash = path.rfind('/');
    path = slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
  }
  return path;
}

bool check_length(const CheckOptions& options, Findings& findings) {
  // <root>/pools/gpu-<8>/endpoints/<16>/control, and the socket address ends with a NUL.
  constexpr std::size_t kBelow = sizeof("/pools/gpu-01234567/endpoints/0123456789abcdef/control");
  constexpr std::size_t kLimit = sizeof(sockaddr_un::sun_path);
  if (options.mps_root.size() + kBelow <= kLimit) return true;
  findings.fail("mps.root", options.mps_root,
                "the path is " + std::to_string(options.mps_root.size() + kBelow - kLimit) +
                    " characters too long for the sockets below it",
                "choose a shorter one, such as /run/nvidia/mps");
  return false;
}

bool check_filesystem(const CheckOptions& options, const std::string& there, Findings& findings) {
  struct statfs status{};
  if (::statfs(under_root(options, there).c_str(), &status) != 0) return true;
  for (const Remote& remote : kRemote) {
    if (static_cast<long>(static_cast<unsigned>(status.f_type)) != remote.magic) continue;
    findings.fail("mps.root", there,
                  std::string("it lies on ") + remote.name + ": sockets and hard links need a local file system",
                  "choose a folder on tmpfs or a local disk, such as /run/nvidia/mps");
    return false;
  }
  return true;
}

// The server drops to its client's user: each folder must let others pass. And none may be theirs to change.
bool check_folders(const CheckOptions& options, const std::string& there, Findings& findings) {
  bool fine = true;
  for (std::size_t end = 0; end != std::string::npos && there != "/";) {
    end = there.find('/', end + 1);
    const std::string folder = there.substr(0, end);
    struct stat status{};
    if (::stat(under_root(options, folder).c_str(), &status) != 0) continue;
    if (!S_ISDIR(status.st_mode)) {
      findings.fail("mps.root", folder, "this is not a folder", "remove it, or choose another root");
      return false;
    }
    if ((status.st_mode & S_IXOTH) == 0) {
      findings.fail(
          "mps.root", folder,
          "other users cannot pass this folder: pods that do not run as root will hang or fail with error 805",
          "chmod o+x " + folder);
      fine = false;
    }
    const bool sticky = (status.st_mode & S_ISVTX) != 0;
    if ((status.st_mode & S_IWOTH) != 0 && (!sticky || folder == there)) {
      findings.fail("mps.root", folder, "world-writable: any user could replace the daemon's socket",
                    "chmod o-w " + folder + ", or choose another root");
      fine = false;
    }
  }
  return fine;
}

}  // namespace

void check_mps_root(const CheckOptions& options, Findings& findings) {
  if (!options.mps_root.starts_with('/'))
    return findings.fail("mps.root", options.mps_root, "it must be an absolute path",
                         "write for example /run/nvidia/mps");
  const std::string there = existing_part(options, options.mps_root);
  const bool length = check_length(options, findings);
  const bool filesystem = check_filesystem(options, there, findings);
  const bool folders = check_folders(options, there, findings);
  if (!length || !filesystem || !folders) return;
  findings.pass("mps.root", options.mps_root,
                there == options.mps_root ? "the MPS root is usable" : "the MPS root can be made");
}

}  // namespace tranche::check
