#pragma once
// Carries out the steps of kube::Reflector for one collection: lists, watches, waits, and passes on what arrives. It
// does not poll: between two watches, of five to ten minutes each, the server sends only changes. Loop thread only.
// Destroying it ends its requests immediately.
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "kube/client/kube_client.h"
#include "kube/object.h"
#include "kube/reflector.h"
#include "kube/watch_event.h"
#include "os/loop/loop.h"

namespace tranche::kube {

struct ListWatchHandler {
  // One page of a list; `first` begins a new list, which replaces the known objects once its last page has arrived.
  std::function<Result<ListHead>(std::string_view body, bool first)> on_page;
  std::function<Result<WatchEvent>(std::string_view line)> on_line;
  std::function<void()> on_turn;  // after each page or event, and when state() changed
};

class ListWatch {
 public:
  // `path`: "/api/v1/pods". Handlers must not destroy this object.
  ListWatch(os::Loop& loop, KubeClient& client, std::string path, ReflectorSettings settings, ListWatchHandler handler);
  ~ListWatch();
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
  std::unique_ptr<Lines> lines_;
  KubeClient::Id call_ = 0;
  os::Timer timer_{loop_};
};

}  // namespace tranche::kube
