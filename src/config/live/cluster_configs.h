#pragma once
// The configuration of this node as reported by the API server: the value of the node's label and, if the
// configurations are not mounted, the ConfigMap with them. Each is watched (kube/client/list_watch.h); known values
// are kept while the server is unreachable. Loop thread only.
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "config/choose.h"
#include "kube/client/kube_link.h"
#include "kube/client/list_watch.h"

namespace tranche::config {

// The files of `dir` whose names do not begin with "..", the same as in NVIDIA's config manager. From a mounted
// ConfigMap, all are of the same version, even while kubelet replaces it.
NamedConfigs read_config_dir(const std::string& dir);

// The keys of a ConfigMap; `name` is "namespace/name".
NamedConfigs configs_of_map(const std::string& name, const std::map<std::string, std::string>& data);

struct ClusterConfigsAsked {
  std::string node_name;
  std::string label_key;
  std::string config_map;  // "namespace/name"; "" = not watched
};

class ClusterConfigs {
 public:
  // on_change: runs after each change, never inside the constructor.
  ClusterConfigs(os::Loop& loop, kube::KubeLink& link, ClusterConfigsAsked asked, std::function<void()> on_change);
  ClusterConfigs(const ClusterConfigs&) = delete;
  ClusterConfigs& operator=(const ClusterConfigs&) = delete;

  // Also passes on the Node object whenever it changes; nullptr = there is none.
  void hand_on_node(std::function<void(const nlohmann::json* node)> on_node) { on_node_ = std::move(on_node); }

  LabelSeen label() const;
  bool label_pending() const;  // not known yet, but it may be shortly
  NamedConfigs configs() const;

 private:
  void start();
  void watch_node(kube::KubeClient& client);
  void watch_map(kube::KubeClient& client);

  os::Loop& loop_;
  kube::KubeLink& link_;
  ClusterConfigsAsked asked_;
  std::function<void()> on_change_;
  std::function<void(const nlohmann::json*)> on_node_;
  std::optional<std::string> off_;  // why nothing is watched
  std::optional<std::string> label_;
  bool node_is_there_ = true;
  bool map_is_there_ = true;
  std::optional<NamedConfigs> map_;
  std::unique_ptr<kube::WatchObject> node_watch_;
  std::unique_ptr<kube::WatchObject> map_watch_;
};

}  // namespace tranche::config
