#pragma once
// Resolves paths as a program with a different root directory would: for another system's files that are mounted here.
// No thread affinity.
#include <optional>
#include <string>
#include <string_view>

namespace tranche::host {

// The path here of `path` for a program whose root directory is `root`: resolves links as that program would, so that
// an absolute link starts at `root` again and none leads out. Absent if it does not exist. `root` itself is not
// resolved; "" means "/". The file may change before the result is opened, so use this only for trees whose owner is
// trusted, such as the driver's.
std::optional<std::string> path_in_root(const std::string& root, std::string_view path);

}  // namespace tranche::host
