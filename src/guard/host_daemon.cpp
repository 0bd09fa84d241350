#include "guard/host_daemon.h"

#include <algorithm>
#include <array>

namespace tranche::guard {

bool has_host_daemons_name(std::string_view program) {
  constexpr std::array<std::string_view, 6> kNames{"nvidia-persistenced", "nv-hostengine",        "dcgm",
                                                   "nv-fabricmanager",    "nvidia-fabricmanager", "nvidia-cuda-mps-"};
  const auto name = program.substr(program.rfind('/') + 1);  // npos + 1 is 0
  return std::ranges::any_of(kNames, [name](std::string_view known) { return name.starts_with(known); });
}

}  // namespace tranche::guard
