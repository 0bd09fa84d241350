#include "host/mps/server_memory.h"

#include <fmt/format.h>

#include <filesystem>

#include "host/files/files.h"

namespace tranche::host {
namespace {

constexpr int kMostLooks = 8;                  // at one server that maps neither yet
constexpr std::size_t kLongestMaps = 8 << 20;  // of a process with a CUDA context

}  // namespace

bool ServerMemory::look(const std::vector<pid_t>& servers) {
  if (servers.empty()) return false;
  const pid_t server = servers.front();  // all are of one driver
  if (server != looked_at_) {
    looked_at_ = server;
    looks_ = 0;
  }
  if (looks_ == kMostLooks) return false;
  const auto maps = read_file(fmt::format("/proc/{}/maps", server), kLongestMaps);
  const auto found = maps ? mps::shared_memory_in(*maps) : mps::SharedMemory::kUnknown;
  looks_ = found == mps::SharedMemory::kUnknown ? looks_ + 1 : kMostLooks;
  if (found == mps::SharedMemory::kUnknown) return false;
  std::error_code ignored;
  const bool same = std::filesystem::equivalent(fmt::format("/proc/{}/root/dev/shm", server), folder_, ignored);
  const bool news = found != where_ || same != is_folder_;
  where_ = found;
  is_folder_ = same;
  return news;
}

std::string ServerMemory::problem() const {
  if (where_ != mps::SharedMemory::kNamed || is_folder_) return {};
  return fmt::format(
      "this driver's MPS server shares memory with its clients through files in /dev/shm, and containers do not see "
      "those: mount {} at /dev/shm of tranche mps",
      folder_);
}

}  // namespace tranche::host
