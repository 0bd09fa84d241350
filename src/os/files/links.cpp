#include "os/files/links.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

namespace tranche::os {

Status put_link(const std::string& target, const std::string& path) {
  // A name of this process alone; a file of a killed process with our pid may be replaced.
  const std::string beside = path + "." + std::to_string(::getpid()) + ".new";
  ::unlink(beside.c_str());
  if (::symlink(target.c_str(), beside.c_str()) != 0)
    return std::unexpected(error_from_errno(errno, "cannot make a link", beside));
  if (::rename(beside.c_str(), path.c_str()) == 0) return {};
  const int err = errno;
  ::unlink(beside.c_str());
  Error error = error_from_errno(err, "cannot put a link in place", path);
  if (err == EISDIR || err == ENOTEMPTY || err == EEXIST) error.kind = Kind::kConflict;
  return std::unexpected(std::move(error));
}

Result<std::string> read_link(const std::string& path) {
  std::array<char, PATH_MAX> buffer{};
  const ssize_t length = ::readlink(path.c_str(), buffer.data(), buffer.size());
  if (length < 0) return std::unexpected(error_from_errno(errno, "cannot read a link", path));
  return std::string(buffer.data(), static_cast<std::size_t>(length));
}

bool lead_to_one_file(const std::string& a, const std::string& b) {
  struct stat one{}, two{};
  return ::stat(a.c_str(), &one) == 0 && ::stat(b.c_str(), &two) == 0 && one.st_dev == two.st_dev &&
         one.st_ino == two.st_ino;
}

}  // namespace tranche::os
