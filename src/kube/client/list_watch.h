#pragma once
// Carries out what kube::Reflector says for one collection: lists, watches, waits, and hands on what comes. It polls
// nothing: between two watches, five to ten minutes each, only what changes in the cluster is sent. Loop thread only.
// Destroying it ends what is under way at once.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "kube/client/kube_client.h"
#include "kube/lines.h"
#include "kube/reflector.h"
#include "kube/watch_event.h"
#include "os/loop/timer.h"

namespace tranche::host {

struct ListPage {
  std::string resource_version;
  std::string next;  // the token for the next page, "" on the last
};

struct ListWatchHandler {
  // One page of a list; `first` begins a new list, which replaces all that was known when its last page is there.
  std::function<Result<ListPage>(std::string_view body, bool first)> on_page;
  std::function<Result<kube::WatchEvent>(std::string_view line)> on_line;
  std::function<void()> on_turn;  // after each piece of news, and when state() changed
};

class ListWatch {
 public:
  // `path`: "/api/v1/pods". Handlers must not destroy this object.
  ListWatch(Loop& loop, KubeClient& client, std::string path, kube::ReflectorSettings settings,
            ListWatchHandler handler);
  ~ListWatch();
  ListWatch(const ListWatch&) = delete;
  ListWatch& operator=(const ListWatch&) = delete;

  const kube::Reflector& reflector() const { return reflector_; }

 private:
  void step();
  void list(const std::string& query, bool first);
  void watch(const std::string& query, Duration lasts);
  void on_bytes(std::string_view bytes);
  void failed(kube::ApiStatus status);

  Loop& loop_;
  KubeClient& client_;
  std::string path_;
  kube::Reflector reflector_;
  ListWatchHandler handler_;
  std::unique_ptr<kube::Lines> lines_;
  KubeClient::Id call_ = 0;
  Timer timer_{loop_};
};

}  // namespace tranche::host
