#pragma once
// Where paths below a root are on the host. Private to cdi. Pure.
#include <string>
#include <string_view>

#include "cdi/make_specs.h"

namespace tranche::cdi {

// `path` below `root`: "/run/driver/usr/lib64/x"; "" and "/" are the root of the host.
std::string below(std::string_view root, std::string_view path);

struct HostRoots {
  std::string driver;
  std::string devices;  // without the trailing "/dev" that NVIDIA's flag may have
};
HostRoots host_roots(const Settings& settings);

}  // namespace tranche::cdi
