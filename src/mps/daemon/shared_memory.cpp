#include "mps/daemon/shared_memory.h"

#include <algorithm>

#include "base/enum_names.h"

namespace tranche::mps {
namespace {

// The sixth field of a line: `start-end perms offset dev inode   path`.
std::string_view path_of(std::string_view line) {
  for (int field = 0; field < 5; ++field) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    line.remove_prefix(std::min(line.find(' '), line.size()));
  }
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  return line;
}

}  // namespace

std::string_view to_string(SharedMemory where) {
  return enum_name<SharedMemory::kNamed>(where, {"unknown", "anonymous", "/dev/shm"});
}

SharedMemory shared_memory_in(std::string_view maps) {
  SharedMemory found = SharedMemory::kUnknown;
  while (!maps.empty()) {
    const std::size_t end = std::min(maps.find('\n'), maps.size());
    const std::string_view path = path_of(maps.substr(0, end));
    maps.remove_prefix(std::min(end + 1, maps.size()));
    if (path.starts_with("/dev/shm/cuda.shm.")) return SharedMemory::kNamed;  // one such file is enough to need it
    if (path.starts_with("/memfd:mps.shm.")) found = SharedMemory::kAnonymous;
  }
  return found;
}

}  // namespace tranche::mps
