#include "host/process/exec_parts.h"

#include <fcntl.h>

#include <cerrno>

namespace tranche::host {

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (auto& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

Result<Fd> duplicate_from(int fd, int least) {
  Fd duplicate(::fcntl(fd, F_DUPFD_CLOEXEC, least));
  if (!duplicate) return std::unexpected(error_from_errno(errno, "cannot start a process", "fcntl"));
  return duplicate;
}

}  // namespace tranche::host
