#include "config/live/cluster_configs.h"

#include <sys/stat.h>

#include "base/text.h"
#include "kube/object.h"
#include "os/files/files.h"

namespace tranche::config {
namespace {

constexpr const char* kRole = "deploy/rbac/config.yaml";
constexpr const char* kNoWayYet = "the way to the API server is being found";

std::optional<std::string> why_unknown(const std::optional<std::string>& off, const kube::WatchObject* watch) {
  if (off) return off;
  return watch == nullptr ? kNoWayYet : watch->unknown_because();
}

constexpr const char* kMounted = "..data";  // kubelet's link to the newest version of a mounted volume

bool is_folder(const os::Dir& dir, const std::string& name) {
  struct stat about{};
  return ::fstatat(dir.fd(), name.c_str(), &about, 0) == 0 && S_ISDIR(about.st_mode);
}

// An open directory stays at the same version when kubelet replaces the link.
Result<os::Dir> version_of(const std::string& path) {
  if (auto mounted = os::Dir::open(path + "/" + kMounted)) return mounted;
  return os::Dir::open(path);
}

}  // namespace

ClusterConfigs::ClusterConfigs(os::Loop& loop, kube::KubeLink& link, ClusterConfigsAsked asked,
                               std::function<void()> on_change)
    : loop_(loop), link_(link), asked_(std::move(asked)), on_change_(std::move(on_change)) {
  link_.when_settled([this] { start(); });
}

void ClusterConfigs::start() {
  auto* client = link_.client();
  if (client == nullptr) {
    off_ = link_.closed_because();
    return on_change_();
  }
  if (!asked_.node_name.empty()) watch_node(*client);
  if (!asked_.config_map.empty()) watch_map(*client);
  on_change_();
}

void ClusterConfigs::watch_node(kube::KubeClient& client) {
  // Seeds of their own, so that nodes that start together do not send requests at the same time.
  node_watch_ = std::make_unique<kube::WatchObject>(
      loop_, client,
      kube::WatchedObject{"/api/v1/nodes", asked_.node_name, kRole, stable_hash(asked_.node_name + " label")},
      [this](const nlohmann::json* node) {
        // Without its Node object the last label applies.
        node_is_there_ = node != nullptr;
        if (on_node_) on_node_(node);
        if (node == nullptr) return;
        const auto labels = kube::labels_of(*node);
        const auto found = labels.find(asked_.label_key);
        label_ = found == labels.end() ? "" : found->second;
      },
      on_change_);
}

void ClusterConfigs::watch_map(kube::KubeClient& client) {
  const auto name = kube::parse_object_name(asked_.config_map);
  if (!name) {
    off_ = name.error().what;
    return;
  }
  map_watch_ = std::make_unique<kube::WatchObject>(
      loop_, client,
      kube::WatchedObject{"/api/v1/namespaces/" + name->in_namespace + "/configmaps", name->name, kRole,
                          stable_hash(asked_.node_name + " map")},
      [this](const nlohmann::json* object) {
        map_is_there_ = object != nullptr;
        if (object != nullptr) map_ = configs_of_map(asked_.config_map, kube::data_of_config_map(*object));
      },
      on_change_);
}

LabelSeen ClusterConfigs::label() const {
  LabelSeen seen{asked_.label_key, asked_.node_name, {}, label_.value_or("")};
  if (asked_.node_name.empty()) {
    seen.why = "the name of this node is not known (--node-name, $NODE_NAME)";
  } else if (!node_is_there_) {
    seen.why = "the cluster has no node " + asked_.node_name;
  } else if (!label_) {
    seen.why = why_unknown(off_, node_watch_.get());
  }
  return seen;
}

bool ClusterConfigs::label_pending() const {
  return !label_ && !off_ && !asked_.node_name.empty() && node_is_there_;
}

NamedConfigs ClusterConfigs::configs() const {
  if (map_ && map_is_there_) return *map_;
  NamedConfigs none{.where = "ConfigMap " + asked_.config_map};
  none.why = map_is_there_ ? why_unknown(off_, map_watch_.get()).value_or("it is being read") : "it is not there";
  none.pending = map_is_there_ && !off_;
  return none;
}

NamedConfigs read_config_dir(const std::string& path) {
  NamedConfigs found{.where = path};
  const auto dir = version_of(path);
  const auto names = dir ? dir->list() : std::unexpected(dir.error());
  if (!names) {
    found.why = to_string(names.error());
    return found;
  }
  for (const auto& name : *names) {
    if (name.starts_with("..") || is_folder(*dir, name)) continue;
    found.texts.emplace(name, dir->read(name));
    found.sources.emplace(name, path + "/" + name);
  }
  return found;
}

NamedConfigs configs_of_map(const std::string& name, const std::map<std::string, std::string>& data) {
  NamedConfigs found{.where = "ConfigMap " + name};
  for (const auto& [key, text] : data) {
    found.texts.emplace(key, text);
    found.sources.emplace(key, found.where + "[" + key + "]");
  }
  return found;
}

}  // namespace tranche::config
