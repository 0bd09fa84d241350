#pragma once
// Paths as a program would see them whose root directory is somewhere else: another system's files, mounted here.
// No thread affinity.
#include <optional>
#include <string>
#include <string_view>

namespace tranche::host {

// Where `path` leads for a program whose root directory is `root`: links on the way and at the end are followed as they
// would be there, so that an absolute one starts at `root` again and none leads out. Nothing when it is not there.
// `root` itself is taken as it stands; "" means "/". Only a look: what is opened by the answer may have changed
// meanwhile, so this is for trees whose owner is trusted, such as the driver's.
std::optional<std::string> path_in_root(const std::string& root, std::string_view path);

}  // namespace tranche::host
