#include "mps/relay/open_pipes.h"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <string_view>

namespace tranche::host {

bool add_open_pipes(int pid, std::set<std::string>& pipes) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(fmt::format("/proc/{}/fd", pid).c_str()), ::closedir);
  if (!folder) return false;
  bool any = false;
  while (const dirent* entry = ::readdir(folder.get())) {
    char link[64];
    const auto length = ::readlinkat(::dirfd(folder.get()), entry->d_name, link, sizeof link);
    if (length <= 0 || static_cast<std::size_t>(length) >= sizeof link) continue;
    any = true;
    const std::string_view name(link, static_cast<std::size_t>(length));
    if (name.starts_with("pipe:")) pipes.emplace(name);
  }
  return any;  // the descriptors of a process that exits at this moment are gone one after the other
}

}  // namespace tranche::host
