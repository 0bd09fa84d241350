#pragma once
// Carries out the steps of kube::Reflector for one collection: lists, watches, waits, and passes on what arrives. It
// does not poll: between two watches, of five to ten minutes each, the server sends only changes. Loop thread only.
// Destroying it ends its requests immediately.
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"
#include "kube/client/kube_client.h"
#include "kube/object.h"
#include "kube/reflector.h"
#include "os/loop/loop.h"

namespace tranche::kube {

struct ListWatchHandler {
  // An object of a list, or of an event with what changed.
  std::function<void(const nlohmann::json& object, std::optional<Change> change)> on_object;
  // Before the first object of a list, and when it is whole: it replaces the known objects then.
  std::function<void(bool whole)> on_list = [](bool) {};
  std::function<void()> on_turn;  // after each page or event, and when state() changed
};

class ListWatch {
 public:
  // `path`: "/api/v1/pods". Handlers must not destroy this object.
  ListWatch(os::Loop& loop, KubeClient& client, std::string path, ReflectorSettings settings, ListWatchHandler handler);
  ListWatch(const ListWatch&) = delete;
  ListWatch& operator=(const ListWatch&) = delete;

  const Reflector& reflector() const { return reflector_; }

 private:
  void step();
  void list(const std::string& query, bool first);
  void watch(const std::string& query, Duration lasts);
  void on_bytes(std::string_view bytes);
  void failed(ApiStatus status);

  os::Loop& loop_;
  KubeClient& client_;
  std::string path_;
  Reflector reflector_;
  ListWatchHandler handler_;
  int pages_ = 0;  // of the present list
  std::optional<LineReader> lines_;
  PendingRequest request_;
  os::Timer timer_{loop_};
};

struct WatchedObject {
  std::string collection;  // "/api/v1/nodes", "/api/v1/namespaces/gpu/configmaps"
  std::string name;
  std::string role;        // the role that permits the watch, for the message on a refusal
  std::uint64_t seed = 1;  // of back-off waits and of the lengths of watches
};

// One object of the API server, kept up to date: listed once by its name, then watched. ListWatch handles ends, broken
// connections, expired versions and refusals. No requests while nothing changes. Loop thread only.
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
  std::optional<nlohmann::json> listed_;  // by the present list, which is not whole yet
  ListWatch watch_;                       // last: it calls the rest
};

}  // namespace tranche::kube
