#pragma once
// The configuration in force and where it came from: file + flags + variables, read again when the file changes (also a
// mounted ConfigMap, which changes by renaming a link beside the file) or on request. Content that cannot be used is
// refused with all its Problems, and what was in force stays. Loop thread only.
#include <functional>
#include <memory>
#include <string>

#include "agent/node/snapshot.h"
#include "config/resolve.h"
#include "host/files/watch.h"
#include "host/loop/loop.h"

namespace tranche::agent {

class ConfigSource {
 public:
  // Reads once. The view's problems may hold errors: then there is nothing in force and the program should end.
  static std::unique_ptr<ConfigSource> open(config::GivenFlags flags, config::Environment environment);

  const ConfigView& view() const { return view_; }

  // Calls on_change after every reading that changed the view. A directory that cannot be watched is told as an Error;
  // reload() still works then.
  Status follow(host::Loop& loop, std::function<void()> on_change);
  void reload();

 private:
  ConfigSource() = default;
  ConfigView read() const;

  std::string path_;
  config::GivenFlags flags_;
  config::Environment environment_;
  ConfigView view_;
  std::unique_ptr<host::DirWatch> watch_;
  std::function<void()> on_change_;
};

}  // namespace tranche::agent
