#pragma once
// The pods of this node, as the API server reports them: listed once, then watched (src/kube/reflector.h). Input from
// the API server is bounded: pods of other nodes are ignored, and a list of more than kMostPods pods or kMostPages
// pages counts as failed. Loop thread only.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "kube/client/list_watch.h"
#include "kube/pod_table.h"

namespace tranche::agent {

class PodWatch {
 public:
  static constexpr std::size_t kMostPods = 2000;  // kubelet runs 110 by default, and some hundreds if configured
  static constexpr int kMostPages = 50;

  // on_pods: called with all changes that arrived together, never inside the constructor; it must not destroy this
  // object. on_turn: also if only the state of the watch has changed.
  PodWatch(host::Loop& loop, host::KubeClient& client, const std::string& node, std::uint64_t seed,
           std::function<void(const kube::PodChanges&)> on_pods, std::function<void()> on_turn);

  const kube::PodTable& pods() const { return table_; }
  const kube::Reflector& reflector() const { return watch_.reflector(); }
  std::optional<MonoTime> last_event() const { return last_event_; }  // a list or an event, bookmarks included

 private:
  Result<host::ListPage> on_page(std::string_view body, bool first);
  Result<kube::WatchEvent> on_line(std::string_view line);
  void apply(kube::PodChanges changes);
  void hand_on();
  bool concerns_us(const kube::PodSeen& pod) const;

  host::Loop& loop_;
  const std::string node_;
  std::function<void(const kube::PodChanges&)> on_pods_;
  kube::PodTable table_;
  std::vector<kube::PodSeen> listed_;  // the pages of an incomplete list
  int pages_ = 0;
  kube::PodChanges changes_;  // not passed on yet: a burst of events is one callback
  std::optional<MonoTime> last_event_;
  host::ListWatch watch_;  // last: it calls the rest
};

}  // namespace tranche::agent
