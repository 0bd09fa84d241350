#pragma once
// One object of the API server, kept up to date: listed once by its name, then watched. ListWatch handles ends, broken
// connections, expired versions and refusals. No requests while nothing changes. Loop thread only.
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "kube/client/list_watch.h"

namespace tranche::kube {

struct WatchedObject {
  std::string collection;  // "/api/v1/nodes", "/api/v1/namespaces/gpu/configmaps"
  std::string name;
  std::string role;        // the role that permits the watch, for the message on a refusal
  std::uint64_t seed = 1;  // of back-off waits and of the lengths of watches
};

class WatchObject {
 public:
  // on_object: the present object, nullptr if there is none; also if a new list returns the same object. on_turn: after
  // that, and when the state of the watch has changed. Neither is called inside the constructor; neither may destroy
  // this object.
  WatchObject(os::Loop& loop, KubeClient& client, WatchedObject what,
              std::function<void(const nlohmann::json* object)> on_object, std::function<void()> on_turn);

  const Reflector& reflector() const { return watch_.reflector(); }
  // Why the object is not known yet; absent once it was reported, whatever became of the connection since.
  std::optional<std::string> unknown_because() const;

 private:
  Result<ListHead> on_page(std::string_view body, bool first);
  Result<WatchEvent> on_line(std::string_view line);

  std::string name_;
  std::function<void(const nlohmann::json*)> on_object_;
  bool listed_ = false;  // the present list, perhaps of several pages, contained it
  ListWatch watch_;      // last: it calls the rest
};

}  // namespace tranche::kube
