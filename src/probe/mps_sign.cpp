#include "probe/probe.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cstdlib>

#include "base/text.h"
#include "os/files/files.h"

namespace tranche::probe {
namespace {

constexpr const char* kDefaultPipeDirectory = "/tmp/nvidia-mps";

// What a connected SOCK_SEQPACKET socket leads to; "" for everything else.
std::string peer_of(int fd) {
  int type = 0;
  socklen_t type_size = sizeof(type);
  if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) != 0 || type != SOCK_SEQPACKET) return {};
  sockaddr_un peer{};
  socklen_t size = sizeof(peer);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 || peer.sun_family != AF_UNIX) return {};
  if (size <= offsetof(sockaddr_un, sun_path)) return "(unnamed)";
  std::string path(peer.sun_path, size - offsetof(sockaddr_un, sun_path));
  const bool abstract = path.front() == '\0';
  path.erase(std::remove(path.begin(), path.end(), '\0'), path.end());
  return abstract ? "@" + path : path;
}

}  // namespace

std::map<unsigned long, std::string> local_connections() {
  std::map<unsigned long, std::string> by_inode;
  for (const std::string& name : os::names_in("/proc/self/fd")) {
    const auto number = parse_unsigned(name);
    if (!number || *number > 1'000'000) continue;
    const int fd = static_cast<int>(*number);
    struct stat status{};
    if (std::string peer = peer_of(fd); !peer.empty() && ::fstat(fd, &status) == 0)
      by_inode[status.st_ino] = std::move(peer);
  }
  return by_inode;
}

MpsSign look_for_mps(const std::map<unsigned long, std::string>& before) {
  MpsSign sign;
  const char* directory = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  sign.pipe_directory = directory != nullptr && *directory != '\0' ? directory : kDefaultPipeDirectory;
  struct stat status{};
  const std::string control = sign.pipe_directory + "/control";
  sign.control_socket = ::stat(control.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
  for (auto& [inode, peer] : local_connections()) {
    if (!before.contains(inode)) sign.peers.push_back(std::move(peer));
  }
  sign.connected = !sign.peers.empty();
  for (const char* name :
       {"CUDA_VISIBLE_DEVICES", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
        "CUDA_MPS_CLIENT_PRIORITY", "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING"}) {
    if (const char* value = std::getenv(name); value != nullptr)
      sign.settings.push_back(std::string(name) + "=" + value);
  }
  return sign;
}

}  // namespace tranche::probe
