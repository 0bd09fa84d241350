#pragma once
// One object of the API server, known at every moment: listed once by its name, then watched, with all that ListWatch
// does about ends, cuts, forgotten versions and refusals. At rest nothing is asked. Loop thread only.
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "kube/client/list_watch.h"

namespace tranche::host {

struct WatchedObject {
  std::string collection;  // "/api/v1/nodes", "/api/v1/namespaces/gpu/configmaps"
  std::string name;
  std::string role;        // what gives the right to watch it, for whoever is refused
  std::uint64_t seed = 1;  // of waits and of the lengths of watches
};

class WatchObject {
 public:
  // on_object: what is there now, nullptr when there is none; also when a list tells the same again. on_turn: after
  // that, and when the state of the watch has changed. Neither is called inside the constructor; neither may destroy
  // this object.
  WatchObject(Loop& loop, KubeClient& client, WatchedObject what,
              std::function<void(const nlohmann::json* object)> on_object, std::function<void()> on_turn);

  const kube::Reflector& reflector() const { return watch_.reflector(); }
  // Why nothing is known of it yet; nothing once it has been told, whatever became of the connection since.
  std::optional<std::string> unknown_because() const;

 private:
  Result<ListPage> on_page(std::string_view body, bool first);
  Result<kube::WatchEvent> on_line(std::string_view line);

  std::string name_;
  std::function<void(const nlohmann::json*)> on_object_;
  bool listed_ = false;  // this list, of several pages perhaps, has had it
  ListWatch watch_;      // last: it calls the rest
};

}  // namespace tranche::host
