#include "standins/kubelet/mount_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <set>

namespace tranche::sim {
namespace {

namespace fs = std::filesystem;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  // A path to the descriptor's file, even if another file system has been mounted over it since.
  std::string path() const { return fmt::format("/proc/self/fd/{}", fd_); }

 private:
  int fd_;
};

std::unexpected<Error> failed(const std::string& doing, const std::string& where) {
  return std::unexpected(error_from_errno(errno, doing, where));
}

Status bind_mount(const std::string& from, const std::string& to) {
  if (::mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) return failed("cannot mount on", to);
  return {};
}

Status make_read_only(const std::string& target) {
  struct statvfs now{};
  if (::statvfs(target.c_str(), &now) != 0) return failed("cannot examine", target);
  // Flags of an inherited mount must be repeated: the kernel does not permit a remount to drop them.
  unsigned long flags = MS_BIND | MS_REMOUNT | MS_RDONLY;
  if (now.f_flag & ST_NOSUID) flags |= MS_NOSUID;
  if (now.f_flag & ST_NODEV) flags |= MS_NODEV;
  if (now.f_flag & ST_NOEXEC) flags |= MS_NOEXEC;
  if (now.f_flag & ST_NOATIME) flags |= MS_NOATIME;
  if (now.f_flag & ST_RELATIME) flags |= MS_RELATIME;
  if (::mount(nullptr, target.c_str(), nullptr, flags, nullptr) != 0) return failed("cannot make read-only", target);
  return {};
}

Status make_point(const std::string& path, bool directory) {
  if (directory) {
    if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return failed("cannot create", path);
    return {};
  }
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  return file.open() ? Status{} : failed("cannot create", path);
}

Status copy_link(const Descriptor& link, const std::string& target) {
  std::array<char, 4096> text{};
  const ssize_t length = ::readlinkat(link.get(), "", text.data(), text.size() - 1);
  if (length < 0 || ::symlink(text.data(), target.c_str()) != 0) return failed("cannot create", target);
  return {};
}

class MountTree {
 public:
  Status add(const BindMount& mount, const Descriptor& source);

 private:
  Status make_missing(const std::string& path, bool directory);
  Status cover(const std::string& directory);

  std::set<dev_t> ours_;  // tmpfs mounts of this object: directories may be created in them
};

// Covers `directory` with a tmpfs that shows the same entries.
Status MountTree::cover(const std::string& directory) {
  const bool root = directory == "/";
  const Descriptor original(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!original.open()) return failed("cannot open", directory);
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::fdopendir(::dup(original.get())), ::closedir);
  if (!listing) return failed("cannot list", directory);
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  // A new root is built elsewhere and moved; any directory works, because the original stays open.
  const std::string stage = root ? "/tmp" : directory;
  std::vector<Descriptor> entries;  // opened before the stage hides one of them
  for (const std::string& name : names) {
    entries.emplace_back(::openat(original.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  }
  if (::mount("tmpfs", stage.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m") != 0) {
    return failed("cannot mount a tmpfs on", stage);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    struct stat status{};
    if (!entries[i].open() || ::fstat(entries[i].get(), &status) != 0) continue;
    const std::string target = stage + "/" + names[i];
    if (S_ISLNK(status.st_mode)) {
      TRY_STATUS(copy_link(entries[i], target));
      continue;
    }
    TRY_STATUS(make_point(target, S_ISDIR(status.st_mode)));
    TRY_STATUS(bind_mount(entries[i].path(), target));
  }
  if (root) {
    if (::chdir(stage.c_str()) != 0 || ::mount(".", "/", nullptr, MS_MOVE, nullptr) != 0 || ::chroot(".") != 0) {
      return failed("cannot replace", "/");
    }
  }
  struct stat covered{};
  if (::stat(directory.c_str(), &covered) != 0) return failed("cannot examine", directory);
  ours_.insert(covered.st_dev);
  return {};
}

Status MountTree::make_missing(const std::string& path, bool directory) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode) == directory) return {};
    return fail(Kind::kConflict,
                directory ? "a file stands where a directory is to be mounted"
                          : "a directory stands where a file is to be mounted",
                path);
  }
  const fs::path parent = fs::path(path).parent_path();
  if (::stat(parent.c_str(), &status) != 0) TRY_STATUS(make_missing(parent, true));
  if (::stat(parent.c_str(), &status) != 0) return failed("cannot examine", parent);
  if (!ours_.contains(status.st_dev)) {
    std::error_code problem;
    const fs::path real = fs::canonical(parent, problem);
    if (problem) return fail(Kind::kNotFound, "cannot resolve", parent);
    TRY_STATUS(cover(real));
  }
  return make_point(path, directory);
}

Status MountTree::add(const BindMount& mount, const Descriptor& source) {
  struct stat status{};
  if (::fstat(source.get(), &status) != 0) return failed("cannot examine", mount.host_path);
  const std::string target = fs::path(mount.container_path).lexically_normal();
  TRY_STATUS(make_missing(target, S_ISDIR(status.st_mode)));
  TRY_STATUS(bind_mount(source.path(), target));
  return mount.read_only ? make_read_only(target) : Status{};
}

}  // namespace

Status enter_mount_namespace(const std::vector<BindMount>& mounts) {
  if (::unshare(CLONE_NEWNS) != 0) return failed("cannot make", "a mount namespace");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return failed("cannot make private", "/");
  std::vector<std::pair<BindMount, Descriptor>> sources;
  for (const BindMount& mount : mounts) {
    if (!mount.container_path.starts_with('/')) {
      return fail(Kind::kInvalid, "a container path must be absolute", mount.container_path);
    }
    if (mount.host_path == mount.container_path && !mount.read_only) continue;  // visible already
    Descriptor source(::open(mount.host_path.c_str(), O_PATH | O_CLOEXEC));
    if (!source.open()) {
      return failed(fmt::format("cannot mount on {}: cannot open the host path", mount.container_path),
                    mount.host_path);
    }
    sources.emplace_back(mount, std::move(source));
  }
  // Outer paths first, as runtimes do, so that an inner mount is not hidden.
  std::ranges::stable_sort(sources, {},
                           [](const auto& entry) { return std::ranges::count(entry.first.container_path, '/'); });
  std::error_code ignored;
  const fs::path here = fs::current_path(ignored);
  MountTree tree;
  for (const auto& [mount, source] : sources) TRY_STATUS(tree.add(mount, source));
  if (here.empty() || ::chdir(here.c_str()) != 0) (void)!::chdir("/");
  return {};
}

}  // namespace tranche::sim
