#pragma once
// Whether a process is the first of its container (PID 1 of a pid namespace below the reader's), from
// /proc/<pid>/status. When it exits, the kernel kills all others of the namespace. Pure; fuzzed.
#include <string_view>

namespace tranche::guard {

bool is_first_of_namespace(std::string_view status);

}  // namespace tranche::guard
