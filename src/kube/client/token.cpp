#include "kube/client/token.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "os/files/files.h"

namespace tranche::kube {
namespace {

constexpr std::size_t kLongest = 64 << 10;

}  // namespace

Result<std::string> Token::get() {
  if (path_.empty()) return text_;
  struct stat now{};
  if (::stat(path_.c_str(), &now) != 0)
    return std::unexpected(error_from_errno(errno, "cannot read the token for the API server", path_));
  const bool same = known_ && now.st_ino == inode_ && now.st_dev == device_ && now.st_size == size_ &&
                    now.st_mtim.tv_sec == changed_.tv_sec && now.st_mtim.tv_nsec == changed_.tv_nsec;
  if (same) return text_;
  auto content = os::read_file(path_, kLongest);
  if (!content) return std::unexpected(within(std::move(content).error(), "cannot read the token for the API server"));
  const auto token = trimmed(*content);
  // A line end in the token would start another header.
  if (token.empty() || std::ranges::any_of(token, [](char c) { return c <= ' ' || c > '~'; }))
    return fail(Kind::kInvalid, "the token for the API server is empty or has characters that no token has", path_);
  text_ = token;
  known_ = true;
  inode_ = now.st_ino;
  device_ = now.st_dev;
  size_ = now.st_size;
  changed_ = now.st_mtim;
  return text_;
}

}  // namespace tranche::kube
