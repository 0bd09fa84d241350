#pragma once
// The configuration in force for `tranche mps`: file + flags + variables, read again when the file changes or on
// request. Content with an error is shown with all its Problems, and what was in force stays. Loop thread only.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/resolve.h"
#include "host/files/watch.h"
#include "host/loop/loop.h"

namespace tranche::agent {

struct MpsConfig {
  std::string path;  // "" = defaults, flags and variables only
  config::Config config;
  std::vector<Problem> problems;  // of the newest content, also when that was refused
  bool last_good = false;         // the newest content was refused, an older one is in force
};

class MpsConfigFile {
 public:
  MpsConfigFile(config::GivenFlags flags, config::Environment environment);  // reads once
  const MpsConfig& now() const { return now_; }
  // Calls on_change after every reading that changed something.
  Status follow(host::Loop& loop, std::function<void()> on_change);
  void reload();

 private:
  MpsConfig read() const;
  config::GivenFlags flags_;
  config::Environment environment_;
  std::string path_;
  MpsConfig now_;
  std::unique_ptr<host::DirWatch> watch_;
  std::function<void()> on_change_;
};

}  // namespace tranche::agent
