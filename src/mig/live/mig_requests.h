#pragma once
// What the MIG manager asks of the API server: evictions of pods, and its state as a label of the node. Loop thread
// only.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "kube/client/kube_client.h"
#include "os/loop/timer.h"

namespace tranche::agent {

bool succeeded(const host::KubeAnswer& answer);
std::string why_not(const host::KubeAnswer& answer);  // of one that did not succeed

// Asks for evictions (the Eviction API: the pods' grace period counts, and PodDisruptionBudgets hold). A refusal by a
// budget is asked again, later each time, as long as the pod is wanted gone.
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

// Writes the label nvidia.com/mig.config.state on the Node. Each value is written, in order; what fails is written
// again, later each time, unless a newer value replaces it. A value is written twice when the watch brings the former
// one late.
class StateLabel {
 public:
  // on_written: the newest value was written, or writing failed and is repeated later.
  StateLabel(host::Loop& loop, std::string node, std::function<void()> on_written);
  ~StateLabel();
  StateLabel(const StateLabel&) = delete;
  StateLabel& operator=(const StateLabel&) = delete;

  void use(host::KubeClient& client) { client_ = &client; }
  void is(const std::string& value);  // what the label is now, by the watch
  void want(const std::string& value);
  const std::string& written() const { return written_; }
  // Nothing under way: the wanted value is there, or has failed at least once.
  bool settled() const { return call_ == 0 && (written_ == wanted_ || !problem_.empty()); }

 private:
  void step();

  host::Loop& loop_;
  std::string node_;
  std::function<void()> on_written_;
  host::KubeClient* client_ = nullptr;
  host::KubeClient::Id call_ = 0;
  host::Timer timer_{loop_};
  Backoff backoff_;
  std::string wanted_, written_, problem_;
};

}  // namespace tranche::agent
