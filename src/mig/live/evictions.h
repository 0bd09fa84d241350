#pragma once
// Asks the API server to evict pods (the Eviction API: their grace period counts, and PodDisruptionBudgets hold). A
// refusal by a budget is asked again, later each time, as long as the pod is wanted gone. Loop thread only.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/backoff.h"
#include "kube/client/kube_client.h"
#include "os/loop/timer.h"

namespace tranche::agent {

class Evictions {
 public:
  struct Pod {
    std::string pod_namespace;
    std::string name;
    std::string uid;  // the eviction is of this pod and of no successor; "" = not known
  };
  // on_result: "evicted" or why not, one callback each.
  Evictions(host::Loop& loop, std::function<void(const Pod& pod, bool accepted, const std::string& why)> on_result);
  ~Evictions();
  Evictions(const Evictions&) = delete;
  Evictions& operator=(const Evictions&) = delete;

  void use(host::KubeClient& client) { client_ = &client; }
  void want(const std::vector<Pod>& pods);  // these and no others
  std::uint64_t accepted() const { return accepted_; }

 private:
  struct Entry {
    Pod pod;
    Backoff backoff;
    host::KubeClient::Id call = 0;
    bool accepted = false;
    std::unique_ptr<host::Timer> timer;
  };
  void ask(Entry& entry);

  host::Loop& loop_;
  std::function<void(const Pod&, bool, const std::string&)> on_result_;
  host::KubeClient* client_ = nullptr;
  std::map<std::string, Entry> entries_;  // by namespace/name/uid
  std::uint64_t accepted_ = 0;
};

}  // namespace tranche::agent
