#include "mps/daemon/server_memory.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <utility>

#include "base/text.h"
#include "os/files/files.h"

namespace tranche::mps {
SharedMemory shared_memory_in(std::string_view maps) {
  SharedMemory found = SharedMemory::kUnknown;
  for (const auto line : lines_of(maps)) {
    const auto fields = words_of(line);  // start-end perms offset dev inode path
    const auto path = fields.size() > 5 ? fields[5] : std::string_view();
    if (path.starts_with("/dev/shm/cuda.shm.")) return SharedMemory::kNamed;  // one such file is enough to need it
    if (path.starts_with("/memfd:mps.shm.")) found = SharedMemory::kAnonymous;
  }
  return found;
}

namespace {

constexpr int kMostLooks = 8;                  // at one server that has mapped neither kind
constexpr std::size_t kLongestMaps = 8 << 20;  // of a process with a CUDA context

}  // namespace

bool ServerMemory::look(pid_t server) {
  if (server == 0) return false;
  if (std::exchange(looked_at_, server) != server) looks_ = 0;
  if (looks_ == kMostLooks) return false;
  const auto maps = os::read_file(fmt::format("/proc/{}/maps", server), kLongestMaps);
  const auto found = maps ? shared_memory_in(*maps) : SharedMemory::kUnknown;
  looks_ = found == SharedMemory::kUnknown ? looks_ + 1 : kMostLooks;
  if (found == SharedMemory::kUnknown) return false;
  std::error_code ignored;
  const bool same = std::filesystem::equivalent(fmt::format("/proc/{}/root/dev/shm", server), folder_, ignored);
  const bool changed = found != where_ || same != is_folder_;
  where_ = found;
  is_folder_ = same;
  return changed;
}

// Containers can write there without limit unless it is a file system of its own with a fixed size.
bool ServerMemory::is_bounded() const {
  struct stat folder{};
  struct stat above{};
  return ::stat(folder_.c_str(), &folder) != 0 || ::stat((folder_ + "/..").c_str(), &above) != 0 ||
         folder.st_dev != above.st_dev;
}

std::string ServerMemory::problem() const {
  if (where_ != SharedMemory::kNamed) return {};
  if (is_folder_ && is_bounded()) return {};
  if (is_folder_)
    return fmt::format(
        "containers get {} as their /dev/shm, and it is no file system of its own: one container can fill the node's; "
        "mount one with a size there, for example: mount -t tmpfs -o size=1g,mode=1777 tmpfs {}",
        folder_, folder_);
  return fmt::format(
      "this driver's MPS server shares memory with its clients through files in /dev/shm, and containers do not see "
      "those: mount {} at /dev/shm of tranche mps",
      folder_);
}

}  // namespace tranche::mps
