#pragma once
// The values of --cdi-feature-flags and --cdi-disable-hooks. NVIDIA's programs ignore an unknown value; here it is a
// Problem (a warning: specs are written nevertheless). Pure.
#include <set>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "base/problem.h"
#include "config/model.h"

namespace tranche::cdi {

enum class HookName {
  kCreateSymlinks,
  kEnableCudaCompat,
  kUpdateLdcache,
  kDisableDeviceNodeModification,
  kUpdateApplicationProfile,
  kChmod,  // known, and never written: off in NVIDIA's programs as well
};
ENUM_NAMES(HookName::kChmod, "create-symlinks", "enable-cuda-compat", "update-ldcache",
           "disable-device-node-modification", "update-application-profile", "chmod")

struct Features {
  bool explicit_driver_libraries = false;
  bool no_ipc_sockets = false;
  std::set<HookName> disabled_hooks;
  std::vector<Problem> problems;
  friend bool operator==(const Features&, const Features&) = default;
};
Features read_features(const config::PluginRun& run);

}  // namespace tranche::cdi
