#pragma once
// Symbolic links that other programs read: replaced atomically, so that a reader always finds one. Any thread.
#include <string>

#include "base/result.h"

namespace tranche::os {

// Makes `path` a link to `target` and replaces a file or link there; kConflict if it is a directory.
Status put_link(const std::string& target, const std::string& path);

// The target of the link at `path`, as written; kNotFound if nothing is there, kInvalid if it is not a link.
Result<std::string> read_link(const std::string& path);

// Whether both names resolve to the same file.
bool lead_to_one_file(const std::string& a, const std::string& b);

}  // namespace tranche::os
