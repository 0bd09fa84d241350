#pragma once
// The configuration in force and where it came from: flags and variables over one of
// - a file, read again when it changes (also a mounted ConfigMap, which changes by renaming a link beside the file);
// - one of several named configurations, in a folder or a ConfigMap object, chosen for this node by its label
//   (config/choose.h), all of it followed;
// - what the node agent wrote down as in force, for programs that ask no API server.
// Content that cannot be used is shown with all its Problems, and what was in force stays, also over a restart where it
// is written down. Both programs plan from the same settings, the device plugin's. Loop thread only.
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "config/choose.h"
#include "config/chosen.h"
#include "config/live/cluster_configs.h"
#include "config/live/named_configs.h"
#include "config/resolve.h"
#include "kube/client/kube_link.h"
#include "os/files/watch.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"

namespace tranche::agent {

struct ConfigView {
  std::string path;       // a file, "ConfigMap gpu/configs[mps-two]"; "" = defaults, flags and variables only
  std::string name;       // among several, "" when there are not several, and of the empty configuration
  std::string chosen_by;  // "label", "default", "named", "single", "empty", "file", "defaults"; "" = nothing in force
  std::string label;      // the node label's value, where it counts
  std::string hash;       // of the content in force (config/chosen.h)
  config::Config config;
  config::PluginRun run;
  std::vector<Problem> problems;             // of the newest content, also when that was refused
  std::vector<config::Explained> explained;  // of what is in force
  bool in_force = false;                     // there is a configuration
  bool last_good = false;                    // the newest content was refused, an older one is in force
  friend bool operator==(const ConfigView&, const ConfigView&) = default;
};

// One reading, for moment commands. A file that cannot be read is a Problem.
ConfigView load_config(const config::GivenFlags& flags, const config::Environment& environment,
                       config::UnknownKeys unknown_keys, config::Program program = config::Program::kDevicePlugin);

// One line: the file, what is not a default and where that comes from, and the whole configuration as JSON.
void log_effective(const ConfigView& view);

// Beside --config-file; at most one of them is given.
struct ConfigPlaces {
  std::string dir;         // --config-dir
  std::string config_map;  // --config-map, "namespace/name"
  std::string written;     // where another program has written down what is in force
  std::string default_name;
  std::vector<std::string> fallbacks = {"named", "single"};
  std::string label = config::kConfigLabel;
  std::string node_name;
  std::string write_down;                       // where to write down what is in force; "" = nowhere
  Duration patience = std::chrono::seconds(5);  // for the label and the ConfigMap, before the first decision

  bool named() const { return !dir.empty() || !config_map.empty(); }
};

inline constexpr const char* kConfigInForce = "config-in-force.json";  // in the node agent's run directory

class ConfigSource {
 public:
  // Reads a file once. Problems in the command line itself are errors of the view.
  ConfigSource(config::GivenFlags flags, config::Environment environment, config::UnknownKeys unknown_keys,
               ConfigPlaces places = {});
  ~ConfigSource();

  const ConfigView& view() const { return view_; }
  // Nothing is in force and nothing will be without another command line or file: the program should end.
  bool hopeless() const { return !view_.in_force && (wrong_ || !waits()); }

  // Where several things decide, runs the loop until a configuration is in force or the loop is stopped by somebody
  // else: for the label and the ConfigMap it waits for as long as it has patience, and then for whatever can be put in
  // force. `link` may be nullptr for a file and for what is written down. An Error: what has to be followed cannot be.
  Status begin(host::Loop& loop, host::KubeLink* link);

  // Calls on_change after every reading that changed something. A directory that cannot be watched is an Error;
  // reload() still works then.
  Status follow(host::Loop& loop, std::function<void()> on_change);
  void reload();

  // Where the Node object is watched for its label: hands on what it is, whenever it is another, nullptr = there is
  // none. false: nobody watches it here.
  using OnNode = std::function<void(const nlohmann::json* node)>;
  bool hand_on_node(OnNode on_node);

 private:
  bool waits() const { return places_.named() || !places_.written.empty(); }
  ConfigView load(const std::string& text, const std::string& source) const;
  void read_file();
  void read_written();
  void read_last();  // what was written down in an earlier run
  void decide();
  void put(ConfigView next, const std::string& text);
  void refuse(std::vector<Problem> problems);
  void tell(ConfigView next);
  void write_down();
  Status watch_dir(const std::string& dir, const std::string& only);
  void look_soon();
  void look_again();
  NamedConfigs configs() const;

  config::GivenFlags flags_;
  config::Environment environment_;
  config::UnknownKeys unknown_keys_;
  ConfigPlaces places_;
  ConfigView view_;
  bool wrong_ = false;  // the command line
  std::string text_;    // in force
  std::optional<std::string> last_label_;
  std::optional<config::ChosenConfig> last_;     // written down in an earlier run
  std::optional<config::ChosenConfig> written_;  // by us

  host::Loop* loop_ = nullptr;
  bool beginning_ = false;
  bool patient_ = false;
  bool lost_ = false;                            // the watched folder was replaced
  std::unique_ptr<host::Timer> patience_timer_;  // these two since the loop is known
  std::unique_ptr<host::Timer> look_timer_;
  std::unique_ptr<ClusterConfigs> cluster_;
  std::unique_ptr<host::DirWatch> watch_;
  std::function<void()> on_change_;
};

}  // namespace tranche::agent
