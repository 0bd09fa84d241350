#pragma once
// Symbolic links that others look through: replaced in one step, so that nobody ever finds none. Any thread.
#include <string>

#include "base/result.h"

namespace tranche::host {

// `path` becomes a link to `target`, whatever file or link was there before; kConflict when it is a folder.
Status put_link(const std::string& target, const std::string& path);

// Where the link at `path` leads, as it is written; kNotFound when there is none, kInvalid when that is no link.
Result<std::string> read_link(const std::string& path);

// Whether both names lead to one file in the end.
bool lead_to_one_file(const std::string& a, const std::string& b);

}  // namespace tranche::host
