#include "kubelet/plugin_host.h"

#include <utility>

#include "kubelet/plugin.h"
#include "os/files/files.h"

namespace tranche::kubelet {
namespace {

constexpr Duration kOneStart = std::chrono::milliseconds(100);

PluginHostSettings complete(PluginHostSettings settings) {
  while (settings.plugin_dir.size() > 1 && settings.plugin_dir.ends_with('/')) settings.plugin_dir.pop_back();
  if (settings.kubelet_socket.empty()) settings.kubelet_socket = settings.plugin_dir + "/kubelet.sock";
  return settings;
}

}  // namespace

PluginHost::PluginHost(os::Loop& loop, PluginHostSettings settings, Answers& answers, std::function<void()> on_change)
    : loop_(loop),
      settings_(complete(std::move(settings))),
      answers_(answers),
      on_change_(std::move(on_change)),
      kubelet_name_(os::parts_of(settings_.kubelet_socket).name),
      audit_(loop),
      look_(loop, [this] { look_around(); }),
      changed_(loop, [this] { report(); }) {}

PluginHost::~PluginHost() = default;

Status PluginHost::open() {
  TRY_STATUS(watch_directories());
  kubelet_ = look_at_socket(settings_.kubelet_socket);
  schedule_audit();
  return {};
}

void PluginHost::close() {
  audit_.stop();
  plugin_watch_.reset();
  kubelet_watch_.reset();
  plugins_.clear();
}

void PluginHost::publish(const std::vector<plan::Advertised>& resources) {
  std::map<std::string, const plan::Advertised*> wanted;
  for (const plan::Advertised& resource : resources) wanted[resource.resource] = &resource;
  std::erase_if(plugins_, [&](const auto& plugin) { return !wanted.contains(plugin.first); });
  for (const auto& [name, advertised] : wanted) {
    std::unique_ptr<Plugin>& plugin = plugins_[name];
    const bool is_new = plugin == nullptr;
    if (is_new) {
      plugin = std::make_unique<Plugin>(loop_, settings_, answers_, name, [this] { changed_.raise(); });
    }
    plugin->offer(*advertised);
    if (is_new) plugin->look(kubelet_.has_value());
  }
  changed_.raise();
}

std::vector<PluginState> PluginHost::states() const {
  std::vector<PluginState> states;
  for (const auto& [name, plugin] : plugins_) states.push_back(plugin->state());
  return states;
}

Status PluginHost::watch_directories() {
  const std::string kubelet_directory = os::parts_of(settings_.kubelet_socket).directory;
  TRY(plugin_watch_, os::DirWatch::open(loop_, settings_.plugin_dir,
                                        [this, same = kubelet_directory == settings_.plugin_dir](
                                            const std::string& name) { heard(name, same); }));
  if (kubelet_directory == settings_.plugin_dir || !settings_.register_with_kubelet) return {};
  TRY(kubelet_watch_,
      os::DirWatch::open(loop_, kubelet_directory, [this](const std::string& name) { heard(name, true); }));
  return {};
}

// Only notes what to look at: kubelet's start is a burst of events, looked at once when it is over.
void PluginHost::heard(const std::string& name, bool from_kubelets_directory) {
  if (name.empty()) {
    watches_lost_ = true;
  } else if (from_kubelets_directory && name == kubelet_name_) {
    kubelet_touched_ = true;
  } else if (!is_one_of_our_sockets(name)) {
    return;
  }
  look_.raise();
}

bool PluginHost::is_one_of_our_sockets(const std::string& name) const {
  for (const auto& [resource, plugin] : plugins_) {
    if (plugin->socket_name() == name) return true;
  }
  return false;
}

void PluginHost::look_around() {
  // The audit tries again when they cannot be opened, and looks at every socket meanwhile.
  if (watches_lost_) watches_lost_ = !watch_directories();
  const std::optional<SocketFile> before = std::exchange(kubelet_, look_at_socket(settings_.kubelet_socket));
  // An event counts even when the file looks the same, because a new socket may have the old inode number within one
  // tick of the file system's clock; but one start causes several events, and counts once.
  const bool touched = std::exchange(kubelet_touched_, false);
  const bool started = kubelet_ && (kubelet_ != before || (touched && loop_.now() - kubelet_started_ > kOneStart));
  if (started) kubelet_started_ = loop_.now();
  for (const auto& [name, plugin] : plugins_) {
    if (started) plugin->kubelet_started();
  }
  for (const auto& [name, plugin] : plugins_) plugin->look(kubelet_.has_value());
}

void PluginHost::schedule_audit() {
  audit_.start(settings_.audit_every, [this] {
    look_around();
    schedule_audit();
  });
}

void PluginHost::report() {
  std::vector<PluginState> now = states();
  if (now == reported_) return;
  reported_ = std::move(now);
  if (on_change_) on_change_();
}

}  // namespace tranche::kubelet
