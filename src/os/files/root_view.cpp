#include "os/files/root_view.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "os/files/files.h"

namespace tranche::os {
namespace {

constexpr int kMostLinks = 40;        // the kernel's own limit
constexpr std::size_t kDeepest = 64;  // directories held open at once; no driver has deeper ones

// To open what an O_PATH descriptor stands for.
std::string path_of(const Fd& fd) {
  return "/proc/self/fd/" + std::to_string(fd.get());
}

// Pushes the pieces of a path so that a stack returns them in order.
void push_pieces(std::vector<std::string>& pending, std::string_view path) {
  const auto pieces = split(path, '/');
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece)
    if (!piece->empty() && *piece != ".") pending.emplace_back(*piece);
}

std::optional<std::string> text_of_link(int fd) {
  char text[PATH_MAX];
  const ssize_t size = ::readlinkat(fd, "", text, sizeof text);
  if (size <= 0 || static_cast<std::size_t>(size) >= sizeof text) return std::nullopt;
  return std::string(text, static_cast<std::size_t>(size));
}

bool has_wildcard(std::string_view piece) {
  return piece.find_first_of("*?[") != std::string_view::npos;
}

}  // namespace

Result<RootView> RootView::open(const std::string& path) {
  const std::string real = path.empty() ? "/" : path;
  Fd root(::open(real.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) return fail_errno("cannot open as a directory", real);
  return RootView(std::move(root), real);
}

std::optional<RootView::Walked> RootView::walk(std::string_view path, bool follow_last) const {
  std::vector<Walked> steps;  // the root, and each name below it
  steps.push_back({"", Fd(::openat(root_.get(), ".", O_PATH | O_DIRECTORY | O_CLOEXEC)), S_IFDIR | 0755});
  std::vector<std::string> pending;
  push_pieces(pending, path);
  int links = 0;
  while (!pending.empty()) {
    const std::string piece = std::move(pending.back());
    pending.pop_back();
    if (piece == "..") {
      if (steps.size() > 1) steps.pop_back();  // the root's parent is the root
      continue;
    }
    Fd fd(::openat(steps.back().fd.get(), piece.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat status{};
    if (!fd || ::fstat(fd.get(), &status) != 0) return std::nullopt;
    if (S_ISLNK(status.st_mode) && (follow_last || !pending.empty())) {
      const auto text = text_of_link(fd.get());
      if (!text || ++links > kMostLinks) return std::nullopt;
      if (text->front() == '/') steps.resize(1);
      push_pieces(pending, *text);
      continue;
    }
    if (steps.size() > kDeepest) return std::nullopt;
    steps.push_back({steps.back().path + "/" + piece, std::move(fd), status.st_mode});
  }
  if (steps.size() == 1) steps.back().path = "/";
  return std::move(steps.back());
}

std::optional<RootView::Place> RootView::look(std::string_view path) const {
  const auto walked = walk(path, true);
  return walked ? std::optional(Place{walked->path, walked->mode}) : std::nullopt;
}

std::optional<std::string> RootView::link_text(std::string_view path) const {
  const auto walked = walk(path, false);
  return walked && S_ISLNK(walked->mode) ? text_of_link(walked->fd.get()) : std::nullopt;
}

std::vector<std::string> RootView::list(std::string_view directory) const {
  const auto walked = walk(directory, true);
  if (!walked || !S_ISDIR(walked->mode)) return {};
  return names_in(path_of(walked->fd));
}

std::vector<std::string> RootView::matching(const std::string& pattern) const {
  std::vector<std::string> found{""};
  for (const auto piece : split(pattern, '/')) {
    if (piece.empty()) continue;
    std::vector<std::string> next;
    for (const std::string& parent : found) {
      if (!has_wildcard(piece)) {
        next.push_back(parent + "/" + std::string(piece));
        continue;
      }
      for (const std::string& name : list(parent))
        if (::fnmatch(std::string(piece).c_str(), name.c_str(), FNM_PERIOD) == 0) next.push_back(parent + "/" + name);
    }
    found = std::move(next);
  }
  std::erase_if(found, [&](const std::string& path) { return path.empty() || !walk(path, false); });
  std::ranges::sort(found);
  return found;
}

Result<std::string> RootView::read(std::string_view path, std::size_t limit) const {
  const std::string shown = under_root(path_, path);
  const auto walked = walk(path, true);
  if (!walked) return fail(Kind::kNotFound, "is not there", shown);
  if (!S_ISREG(walked->mode)) return fail(Kind::kInvalid, "cannot read: it is not a file", shown);
  auto text = read_file(path_of(walked->fd), limit);
  if (!text) text.error().where = shown;
  return text;
}

}  // namespace tranche::os
