#pragma once
// The pods of this node, as the API server tells them: listed once, then watched (src/kube/reflector.h). Loop thread
// only.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "host/kube/list_watch.h"
#include "kube/pod_table.h"

namespace tranche::agent {

class PodWatch {
 public:
  // on_pods: right after each piece of news, never inside the constructor; it must not destroy this object. on_turn:
  // also when only the state of the watch has changed.
  PodWatch(host::Loop& loop, host::KubeClient& client, const std::string& node, std::uint64_t seed,
           std::function<void(const kube::PodChanges&)> on_pods, std::function<void()> on_turn);

  const kube::PodTable& pods() const { return table_; }
  const kube::Reflector& reflector() const { return watch_.reflector(); }
  std::optional<MonoTime> last_news() const { return last_news_; }  // a list or an event, bookmarks included

 private:
  Result<host::ListPage> on_page(std::string_view body, bool first);
  Result<kube::WatchEvent> on_line(std::string_view line);
  void tell(const kube::PodChanges& changes);

  host::Loop& loop_;
  std::function<void(const kube::PodChanges&)> on_pods_;
  kube::PodTable table_;
  std::vector<kube::PodSeen> listed_;  // the pages of a list that is not whole yet
  std::optional<MonoTime> last_news_;
  host::ListWatch watch_;  // last: it calls the rest
};

}  // namespace tranche::agent
