#pragma once
// The configuration in force and where it came from: file + flags + variables, read again when the file changes (also a
// mounted ConfigMap, which changes by renaming a link beside the file) or on request. Content that cannot be used is
// shown with all its Problems, and what was in force stays. Both programs plan from the same settings, the device
// plugin's. Loop thread only.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/resolve.h"
#include "host/files/watch.h"
#include "host/loop/loop.h"

namespace tranche::agent {

struct ConfigView {
  std::string path;  // "" = defaults, flags and variables only
  config::Config config;
  config::PluginRun run;
  std::vector<Problem> problems;             // of the newest content, also when that was refused
  std::vector<config::Explained> explained;  // of what is in force
  bool last_good = false;                    // the newest content was refused, an older one is in force
  friend bool operator==(const ConfigView&, const ConfigView&) = default;
};

// One reading, for moment commands. A file that cannot be read is a Problem.
ConfigView load_config(const config::GivenFlags& flags, const config::Environment& environment,
                       config::UnknownKeys unknown_keys);

// One line: the file, what is not a default and where that comes from, and the whole configuration as JSON.
void log_effective(const ConfigView& view);

class ConfigSource {
 public:
  // Reads once. The view's problems may hold errors: then there is nothing in force and the program should end.
  ConfigSource(config::GivenFlags flags, config::Environment environment,
               config::UnknownKeys unknown_keys = config::UnknownKeys::kWarned);

  const ConfigView& view() const { return view_; }

  // Calls on_change after every reading that changed something. A directory that cannot be watched is an Error;
  // reload() still works then.
  Status follow(host::Loop& loop, std::function<void()> on_change);
  void reload();

 private:
  config::GivenFlags flags_;
  config::Environment environment_;
  config::UnknownKeys unknown_keys_;
  ConfigView view_;
  std::unique_ptr<host::DirWatch> watch_;
  std::function<void()> on_change_;
};

}  // namespace tranche::agent
