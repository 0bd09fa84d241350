#include "probe/mps_sign.h"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/text.h"

namespace tranche::probe {
namespace {

constexpr const char* kDefaultPipeDirectory = "/tmp/nvidia-mps";

std::string peer_of(int fd) {
  sockaddr_un peer{};
  socklen_t size = sizeof(peer);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 || peer.sun_family != AF_UNIX) return {};
  if (size <= offsetof(sockaddr_un, sun_path)) return {};
  std::string path(peer.sun_path, size - offsetof(sockaddr_un, sun_path));
  const bool abstract = !path.empty() && path.front() == '\0';
  path.erase(std::remove(path.begin(), path.end(), '\0'), path.end());
  return abstract ? "@" + path : path;
}

std::vector<std::string> named_peers() {
  std::vector<std::string> peers;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  if (!folder) return peers;
  while (const dirent* entry = ::readdir(folder.get())) {
    const auto fd = parse_unsigned(entry->d_name);
    if (!fd || *fd > 1'000'000) continue;
    if (std::string peer = peer_of(static_cast<int>(*fd)); !peer.empty()) peers.push_back(std::move(peer));
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

}  // namespace

MpsSign look_for_mps() {
  MpsSign sign;
  const char* directory = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  sign.pipe_directory = directory != nullptr && *directory != '\0' ? directory : kDefaultPipeDirectory;
  struct stat status{};
  const std::string control = sign.pipe_directory + "/control";
  sign.control_socket = ::stat(control.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
  sign.peers = named_peers();
  // The daemon may know its directory by another path than its client does (a mount, a door): the name must do.
  sign.connected = std::ranges::any_of(sign.peers, [](const std::string& peer) {
    return peer.ends_with("/control") || peer.find("nvidia-mps") != std::string::npos ||
           peer.find("/mps/") != std::string::npos;
  });
  for (const char* name :
       {"CUDA_VISIBLE_DEVICES", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
        "CUDA_MPS_CLIENT_PRIORITY", "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING"}) {
    if (const char* value = std::getenv(name); value != nullptr)
      sign.settings.push_back(std::string(name) + "=" + value);
  }
  return sign;
}

}  // namespace tranche::probe
