#include "os/files/kept.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

#include "base/text.h"
#include "os/files/below.h"

namespace tranche::os {
namespace {

// S_IFREG and so on, of a link itself; 0 = the name does not exist.
mode_t type_of(const Dir& folder, const std::string& name) {
  struct stat status{};
  return ::fstatat(folder.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 ? status.st_mode & S_IFMT : 0;
}

}  // namespace

std::string put_aside(const Dir& folder, const std::string& name, const std::string& why) {
  const std::string aside = name + kAsideSuffix;
  std::string what = folder.path() + "/" + name + " cannot be used (" + why + ") and ";
  Status moved = folder.remove_tree(aside);
  if (moved && ::renameat(folder.fd(), name.c_str(), folder.fd(), aside.c_str()) != 0)
    moved = fail_errno("cannot be renamed", aside);
  return what + (moved ? "was renamed to " + aside : "cannot be renamed: " + to_string(moved.error()));
}

Status write_kept(const Dir& folder, const std::string& name, std::string_view text, mode_t mode, Sync sync) {
  const auto written = folder.write_atomically(name, text, mode, sync);
  if (written || type_of(folder, name) != S_IFDIR) return written;
  (void)put_aside(folder, name, "it is a directory");
  return folder.write_atomically(name, text, mode, sync);
}

KeptFile read_kept(const Dir& folder, const std::string& name, std::size_t limit) {
  const auto type = type_of(folder, name);
  if (type == 0) return {};
  if (type != S_IFREG) return {{}, put_aside(folder, name, "it is not a regular file")};
  auto text = folder.read(name, limit);
  if (!text) return {{}, put_aside(folder, name, text.error().what)};
  if (text->empty() || text->back() == '\n') return {*std::move(text), {}};
  const auto end = text->rfind('\n');
  text->resize(end == std::string::npos ? 0 : end + 1);
  return {*std::move(text), folder.path() + "/" + name + " ends within a line, which is left out"};
}

void remove_temporaries(const Dir& folder, const std::function<bool(std::string_view)>& ours) {
  for (const auto& name : folder.list().value_or(std::vector<std::string>{}))
    if (const auto made_of = files::name_of_temporary(name); !made_of.empty() && ours(made_of))
      (void)folder.remove(name);
}

std::string boot_id() {
  return std::string(trimmed(read_file("/proc/sys/kernel/random/boot_id").value_or("")));
}

}  // namespace tranche::os
