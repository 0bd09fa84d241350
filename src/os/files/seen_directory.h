#pragma once
// Which directory a process sees at a path, in a time that no tenant chooses. Its mount table would say so too, but the
// kernel builds the path of each mount's root directory, also of those that it then leaves out, because they are not
// below the root directory of the process: with 50 volume mounts of a directory that a tenant has moved 150,000 levels
// down, a table takes 0.8 s and has no text. A directory is compared by file system and number, since a process may
// have files of its own under any name. Any thread.
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "os/files/files.h"

namespace tranche::os {

struct DirectoryId {
  std::uint64_t device = 0;
  std::uint64_t number = 0;
  friend auto operator<=>(const DirectoryId&, const DirectoryId&) = default;
};

// `process`: its folder in /proc, or that of a thread. `path`: absolute. kNotFound: it sees no directory there, or a
// part of the path is a link. kUnavailable: the kernel does not have the path in its caches now, as it has that of each
// mount. From Linux 5.12 on, no file system is asked, because a tenant's own may never answer. kDenied: that needs
// SYS_PTRACE, or search permission for the directories.
Result<DirectoryId> directory_seen_by(const std::string& process, std::string_view path);

// The name in `parent` of this directory; absent: it is not there (any more).
std::optional<std::string> name_of_directory(const Dir& parent, const DirectoryId& directory);

}  // namespace tranche::os
