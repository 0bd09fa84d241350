#pragma once
// Several configurations by name, and where they are: the files of a folder (a mounted ConfigMap), or the keys of a
// ConfigMap object. Values; which of them is in force is decided by config/choose.h.
#include <map>
#include <string>

#include "base/result.h"
#include "config/choose.h"

namespace tranche::agent {

struct NamedConfigs {
  std::string where;                                 // for people
  std::optional<std::string> why;                    // not known, with the reason
  bool pending = false;                              // and it may be known in a moment
  std::map<std::string, Result<std::string>> texts;  // by name; one that cannot be read has its reason
  std::map<std::string, std::string> sources;        // by name: for the places of Problems

  config::NamedSet set() const;
  friend bool operator==(const NamedConfigs&, const NamedConfigs&) = default;
};

// The files of `dir` whose names do not begin with "..", as NVIDIA's config manager takes them. Of a mounted ConfigMap
// all come from the same version of it, also while kubelet is replacing that.
NamedConfigs read_config_dir(const std::string& dir);

// The keys of a ConfigMap; `name` is "namespace/name".
NamedConfigs configs_of_map(const std::string& name, const std::map<std::string, std::string>& data);

}  // namespace tranche::agent
