#include "os/files/rooted.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "base/text.h"

namespace tranche::host {
namespace {

constexpr int kMostLinks = 40;  // the kernel's limit

std::string joined(const std::string& root, const std::vector<std::string>& pieces) {
  std::string path = root;
  for (const std::string& piece : pieces) path += "/" + piece;
  return path;
}

// The remaining components, the next one last.
void put_in_front(std::vector<std::string>& to_go, std::string_view path) {
  const auto pieces = split(path, '/');
  for (auto it = pieces.rbegin(); it != pieces.rend(); ++it)
    if (!it->empty() && *it != ".") to_go.emplace_back(*it);
}

std::optional<std::string> target_of(const std::string& link) {
  char target[PATH_MAX];
  const ssize_t length = ::readlink(link.c_str(), target, sizeof(target));
  if (length <= 0 || length == static_cast<ssize_t>(sizeof(target))) return std::nullopt;
  return std::string(target, static_cast<std::size_t>(length));
}

}  // namespace

std::optional<std::string> path_in_root(const std::string& root, std::string_view path) {
  std::string base = root;
  while (!base.empty() && base.back() == '/') base.pop_back();
  std::vector<std::string> to_go;
  put_in_front(to_go, path);
  std::vector<std::string> gone;
  int links = 0;
  while (!to_go.empty()) {
    const std::string piece = std::move(to_go.back());
    to_go.pop_back();
    if (piece == "..") {
      if (!gone.empty()) gone.pop_back();
      continue;
    }
    gone.push_back(piece);
    const std::string here = joined(base, gone);
    struct stat status{};
    if (::lstat(here.c_str(), &status) != 0) return std::nullopt;
    if (!S_ISLNK(status.st_mode)) continue;
    const auto target = target_of(here);
    if (!target || ++links > kMostLinks) return std::nullopt;
    gone.pop_back();
    if (target->starts_with('/')) gone.clear();
    put_in_front(to_go, *target);
  }
  if (gone.empty()) return base.empty() ? "/" : base;
  return joined(base, gone);
}

}  // namespace tranche::host
