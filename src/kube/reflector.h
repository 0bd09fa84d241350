#pragma once
// Keeps a collection of the API server up to date with few requests: list it once, page by page, then watch it from the
// list's version; if the server has dropped that version (410 Gone, "Expired"), list again; after any other failure,
// continue from the last version after a growing, jittered wait. Decides the next step and receives the results: no
// connection, no clock, no objects. Kubernetes' API conventions, "Efficient detection of changes" and "Retrieving large
// results sets in chunks". Pure. One thread.
#include <cstdint>
#include <optional>
#include <string>

#include "base/enum_names.h"
#include "base/time.h"
#include "kube/object.h"

namespace tranche::kube {

struct ReflectorSettings {
  std::string selector;  // "fieldSelector=spec.nodeName%3Dn1", encoded; "" = everything
  std::uint32_t page = 500;
  Duration first_wait = std::chrono::milliseconds(100);
  Duration most_wait = std::chrono::seconds(30);
  Duration denied_wait = std::chrono::minutes(5);     // forbidden stays forbidden until an administrator changes a role
  Duration shortest_watch = std::chrono::minutes(5);  // the server ends a watch after this to twice this time
  std::uint64_t seed = 1;
  std::string role = "deploy/rbac/node.yaml";  // the role that permits the requests
};

class Reflector {
 public:
  enum class Do { kNothing, kList, kWatch };
  struct Step {
    Do what = Do::kNothing;
    std::string query;        // "limit=500&resourceVersion=0"
    Duration lasts{};         // kWatch: the requested duration
    bool first_page = false;  // kList: of a new list; discard earlier pages
  };
  enum class State { kStarting, kListing, kWatching, kWaiting };

  explicit Reflector(ReflectorSettings settings);

  // The step to start now; kNothing while one is in progress or waiting. Call again after every result and at wake().
  Step next(MonoTime now);
  std::optional<MonoTime> wake() const { return wait_until_; }

  void on_page(const std::string& resource_version, const std::string& continue_token);
  void on_event(const std::string& resource_version);  // an object's or a bookmark's
  void on_watch_end(MonoTime now);                     // the server ended it, as requested
  // A list or watch that was refused or interrupted, or a watch that returned an error.
  void on_failed(const ApiStatus& status, MonoTime now);

  State state() const { return state_; }
  const std::string& reason() const { return reason_; }             // why it is waiting
  bool known() const { return known_; }                             // a complete list has been read once
  std::uint64_t watch_restarts() const { return watch_restarts_; }  // of watches, for any reason

 private:
  void wait(Duration least, std::string reason, MonoTime now);
  Step list_step();
  Step watch_step(MonoTime now);

  ReflectorSettings settings_;
  Backoff backoff_;
  Backoff spread_;  // draws the lengths of watches
  State state_ = State::kStarting;
  bool under_way_ = false;
  bool watch_next_ = false;     // there is a version to watch from
  bool seen_in_watch_ = false;  // the present watch brought something
  bool known_ = false;
  MonoTime watch_began_{};
  std::string version_ = "0";  // of the newest known state; "0" = any version in the server's memory, "" = the newest
  std::string continue_;
  std::optional<MonoTime> wait_until_;
  std::string reason_;
  std::uint64_t watches_ = 0;
  std::uint64_t watch_restarts_ = 0;
};

ENUM_NAMES(Reflector::State::kWaiting, "starting", "listing", "watching", "waiting")

}  // namespace tranche::kube
