#pragma once
// Several configurations by name, and their location: the files of a folder (a mounted ConfigMap), or the keys of a
// ConfigMap object. Values; config/choose.h decides which of them applies.
#include <map>
#include <string>

#include "base/result.h"
#include "config/choose.h"

namespace tranche::agent {

struct NamedConfigs {
  std::string where;                                 // for people
  std::optional<std::string> why;                    // why they are not known
  bool pending = false;                              // not known yet, but they may be shortly
  std::map<std::string, Result<std::string>> texts;  // by name; the reason, if it cannot be read
  std::map<std::string, std::string> sources;        // by name: for the places of Problems

  config::NamedSet set() const;
  friend bool operator==(const NamedConfigs&, const NamedConfigs&) = default;
};

// The files of `dir` whose names do not begin with "..", the same as in NVIDIA's config manager. From a mounted
// ConfigMap, all are of the same version, even while kubelet replaces it.
NamedConfigs read_config_dir(const std::string& dir);

// The keys of a ConfigMap; `name` is "namespace/name".
NamedConfigs configs_of_map(const std::string& name, const std::map<std::string, std::string>& data);

}  // namespace tranche::agent
