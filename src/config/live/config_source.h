#pragma once
// The configuration in effect and its origin: flags and variables over one of
// - a file, read again when it changes (also in a mounted ConfigMap, where a link beside the file is renamed);
// - one of several named configurations, in a folder or a ConfigMap object, chosen for this node by its label
// (config/choose.h), all of it watched;
// - the node agent's record of the configuration in effect, for programs that do not use the API server.
// Content that cannot be used is shown with all its Problems, and the previous configuration stays in effect, also over
// a restart if it is recorded. Both programs plan from the same settings, the device plugin's. Loop thread only; after
// follow() contents are parsed in a thread of its own, and the newest one wins.
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "config/choose.h"
#include "config/resolve.h"
#include "kube/client/kube_client.h"
#include "kube/client/list_watch.h"
#include "os/files/watch.h"
#include "os/loop/loop.h"
#include "os/worker/worker.h"

namespace tranche::config {

// The files of `dir` whose names do not begin with "..", the same as in NVIDIA's config manager. From a mounted
// ConfigMap, all are of the same version, even while kubelet replaces it.
NamedConfigs read_config_dir(const std::string& dir);

// The keys of a ConfigMap; `name` is "namespace/name".
NamedConfigs configs_of_map(const std::string& name, const std::map<std::string, std::string>& data);

// Alternatives to --config-file; at most one of them may be given.
struct ConfigPlaces {
  std::string dir;         // --config-dir
  std::string config_map;  // --config-map, "namespace/name"
  std::string written;     // where another program has recorded the configuration in effect
  ChoiceRules rules = {.default_name = {}, .fallbacks = {"named", "single"}};
  std::string label = kConfigLabel;
  std::string node_name;
  std::string write_down;                       // where to record the configuration in effect; "" = do not
  Duration patience = std::chrono::seconds(5);  // for the label and the ConfigMap, before the first decision

  bool named() const { return !dir.empty() || !config_map.empty(); }
};

// The configuration of this node as reported by the API server: the value of the node's label and, if the
// configurations are not mounted, the ConfigMap with them. Each is watched (kube/client/list_watch.h); known values are
// kept while the server is unreachable.
class ClusterConfigs {
 public:
  // Of `places`: the node's name, its label, and the ConfigMap. on_change: runs after each change, never inside the
  // constructor.
  ClusterConfigs(os::Loop& loop, kube::KubeLink& link, ConfigPlaces places, std::function<void()> on_change);
  ClusterConfigs(const ClusterConfigs&) = delete;
  ClusterConfigs& operator=(const ClusterConfigs&) = delete;

  // Also passes on the Node object whenever it changes; nullptr = there is none.
  void hand_on_node(std::function<void(const nlohmann::json* node)> on_node) { on_node_ = std::move(on_node); }

  LabelSeen label() const;
  NamedConfigs configs() const;

 private:
  void start();

  os::Loop& loop_;
  kube::KubeLink& link_;
  ConfigPlaces places_;
  std::function<void()> on_change_;
  std::function<void(const nlohmann::json*)> on_node_;
  std::optional<std::string> off_;            // why nothing is watched
  std::optional<Result<std::string>> label_;  // absent: not known yet; an Error: there is no such node
  std::optional<NamedConfigs> map_;
  std::unique_ptr<kube::WatchObject> node_watch_;
  std::unique_ptr<kube::WatchObject> map_watch_;
};

// The configuration, its content and `explained` are those in effect; `problems` are of the newest content, even if it
// was refused.
struct ConfigView : Resolved, ChosenConfig {
  std::string hash{};      // of the content (config/choose.h)
  bool in_force = false;   // a configuration is in effect
  bool last_good = false;  // the newest content was refused, an older one is in effect
  friend bool operator==(const ConfigView&, const ConfigView&) = default;
};

// Reads once, for one-shot commands. A file that cannot be read is a Problem.
ConfigView load_config(const Invocation& invocation, Program program = Program::kDevicePlugin);

void log_problems(const std::vector<Problem>& problems);
// Its problems, and one line: the file, the settings that are not defaults and their origin, and the whole
// configuration as JSON.
void log_view(const ConfigView& view);

inline constexpr const char* kConfigInForce = "config-in-force.json";  // in the node agent's run directory

class ConfigSource {
 public:
  // Reads a file once. Problems in the command line itself are errors of the view.
  explicit ConfigSource(Invocation invocation, ConfigPlaces places = {});
  ~ConfigSource();

  const ConfigView& view() const { return view_; }
  // No configuration is in effect, and none will be without another command line or file: the program should end.
  bool hopeless() const { return !view_.in_force && (wrong_ || !waits()); }

  // If there are several inputs, runs the loop until a configuration is in effect or the loop is stopped: waits up to
  // `patience` for the label and the ConfigMap, and then for any usable configuration. `link` may be nullptr for a file
  // and for a recorded configuration. An Error: a source that must be watched cannot be.
  Status begin(os::Loop& loop, kube::KubeLink* link);

  // Logs every change, and calls on_change after it. Where a directory cannot be watched, which is logged, reload()
  // still works.
  void follow(os::Loop& loop, std::function<void()> on_change);
  void reload();

  // If the Node object is watched for its label, passes it on whenever it changes, nullptr = there is none. false: it
  // is not watched here.
  using OnNode = std::function<void(const nlohmann::json* node)>;
  bool hand_on_node(OnNode on_node);

 private:
  bool waits() const { return places_.named() || !places_.written.empty(); }
  // Puts it in effect or refuses it once it is parsed; `found`: Problems of the choice, which come before its own.
  void load_newest(ChosenConfig newest, std::vector<Problem> found);
  void take(ConfigView next, const std::vector<Problem>& found);
  void read_file();
  void read_written();
  void read_last();  // the record of an earlier run
  void decide();
  void put(ConfigView next);
  void refuse(std::vector<Problem> problems);
  void publish(ConfigView next);
  void write_down();
  Status watch_place();
  void look_soon();
  void look_again();

  Invocation invocation_;
  ConfigPlaces places_;
  ConfigView view_;
  bool wrong_ = false;  // the command line
  std::optional<std::string> last_label_;
  std::optional<ChosenConfig> last_;  // recorded in an earlier run
  std::string written_;               // the record that this program wrote

  os::Loop* loop_ = nullptr;
  bool beginning_ = false;
  bool lost_ = false;                    // the watched folder was replaced
  std::unique_ptr<os::Timer> patience_;  // these two are set once the loop is known
  std::unique_ptr<os::Timer> look_timer_;
  std::unique_ptr<ClusterConfigs> cluster_;
  std::unique_ptr<os::DirWatch> watch_;
  std::function<void()> on_change_;
  std::atomic<std::uint64_t> newest_ = 0;  // the number of the content that the worker parses; a later one replaces it
  std::unique_ptr<os::Worker> worker_;     // last, so that it is joined first; reads the constants above
};

}  // namespace tranche::config
