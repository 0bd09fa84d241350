#pragma once
// What the API server says about the configuration of this node: the value of the node's label and, where the
// configurations are not mounted, the ConfigMap that holds them. Each is watched (kube/client/watch_object.h); what was
// known once stays known while the server is away. Loop thread only.
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "config/choose.h"
#include "config/live/named_configs.h"
#include "kube/client/kube_link.h"
#include "kube/client/watch_object.h"

namespace tranche::agent {

struct ClusterConfigsAsked {
  std::string node_name;
  std::string label_key;
  std::string config_map;  // "namespace/name"; "" = not asked for
};

class ClusterConfigs {
 public:
  // on_change: one turn after news, never inside the constructor.
  ClusterConfigs(host::Loop& loop, host::KubeLink& link, ClusterConfigsAsked asked, std::function<void()> on_change);
  ClusterConfigs(const ClusterConfigs&) = delete;
  ClusterConfigs& operator=(const ClusterConfigs&) = delete;

  // Also hands on what the Node object is, whenever it is another; nullptr = there is none.
  void hand_on_node(std::function<void(const nlohmann::json* node)> on_node) { on_node_ = std::move(on_node); }

  config::LabelSeen label() const;
  bool label_pending() const;  // not known, and it may be in a moment
  NamedConfigs configs() const;

 private:
  void start();
  void watch_node(host::KubeClient& client);
  void watch_map(host::KubeClient& client);

  host::Loop& loop_;
  host::KubeLink& link_;
  ClusterConfigsAsked asked_;
  std::function<void()> on_change_;
  std::function<void(const nlohmann::json*)> on_node_;
  std::optional<std::string> off_;  // why nothing can be asked
  std::optional<std::string> label_;
  bool node_is_there_ = true;
  bool map_is_there_ = true;
  std::optional<NamedConfigs> map_;
  std::unique_ptr<host::WatchObject> node_watch_;
  std::unique_ptr<host::WatchObject> map_watch_;
};

}  // namespace tranche::agent
