#pragma once
// Reads named configurations; config/choose.h decides which of them applies.
#include <map>
#include <string>

#include "config/choose.h"

namespace tranche::config {

// The files of `dir` whose names do not begin with "..", the same as in NVIDIA's config manager. From a mounted
// ConfigMap, all are of the same version, even while kubelet replaces it.
NamedConfigs read_config_dir(const std::string& dir);

// The keys of a ConfigMap; `name` is "namespace/name".
NamedConfigs configs_of_map(const std::string& name, const std::map<std::string, std::string>& data);

}  // namespace tranche::config
