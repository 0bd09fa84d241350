#pragma once
// Private to os/files: checks that a path stays below a directory, and shared steps of reading and removing.
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/loop/fd.h"

namespace tranche::os::files {

Status check_below(std::string_view relative);  // not empty, not absolute, no ".." and no NUL

std::string joined(const std::string& directory, std::string_view relative);  // for messages

// The directory that holds the last component of `relative`, reached without following links, and that component.
struct Parent {
  Fd held;  // not set when the parent is `directory` itself
  int fd = -1;
  std::string name;
};
Result<Parent> parent_of(int directory, const std::string& directory_path, std::string_view relative);

// A unique name next to `name`: hidden, so that readers of the directory skip it.
std::string temporary_name(const std::string& name);
// The name that a temporary one was made of; "": it is not a temporary name of ours.
std::string_view name_of_temporary(std::string_view temporary);

// The names in the directory `fd`, sorted; closes it. -1: the error is in errno.
Result<std::vector<std::string>> names_of(int fd, const std::string& path);
Result<std::string> read_all(int fd, std::size_t limit, const std::string& path);
Status write_all(int fd, std::string_view content, const std::string& path);

// Entering a mount would remove another owner's files. Kernels before 5.8 do not report mounts; there, the device
// number distinguishes most of them.
bool is_mount_point(int parent, const char* name);
// Removes `name` in the directory `parent` and everything below it.
Status remove_below(int parent, const std::string& name, const std::string& path, int depth = 0);

}  // namespace tranche::os::files
