#pragma once
// What the MIG manager asks of the API server: evictions of pods, its state as a label of the node, and, in the place
// of the GPU Operator's manager, that the operator's pods let go of the GPUs. Loop thread only.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "kube/client/kube_client.h"
#include "os/loop/loop.h"

namespace tranche::mig {

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
  Evictions(os::Loop& loop, std::function<void(const Pod& pod, bool accepted, const std::string& why)> on_result);
  ~Evictions();
  Evictions(const Evictions&) = delete;
  Evictions& operator=(const Evictions&) = delete;

  void use(kube::KubeClient& client) { client_ = &client; }
  void want(const std::vector<Pod>& pods);  // these and no others
  std::uint64_t accepted() const { return accepted_; }

 private:
  struct Entry {
    Pod pod;
    Backoff backoff;
    kube::KubeClient::Id call = 0;
    bool accepted = false;
    std::unique_ptr<os::Timer> timer;
  };
  void ask(Entry& entry);

  os::Loop& loop_;
  std::function<void(const Pod&, bool, const std::string&)> on_result_;
  kube::KubeClient* client_ = nullptr;
  std::map<std::string, Entry> entries_;  // by namespace/name/uid
  std::uint64_t accepted_ = 0;
};

// Writes the label nvidia.com/mig.config.state on the Node. Each value is written, in order; what fails is written
// again, later each time, unless a newer value replaces it. A value is written twice when the watch brings the former
// one late.
class StateLabel {
 public:
  // on_written: the newest value was written, or writing failed and is repeated later.
  StateLabel(os::Loop& loop, std::string node, std::function<void()> on_written);
  ~StateLabel();
  StateLabel(const StateLabel&) = delete;
  StateLabel& operator=(const StateLabel&) = delete;

  void use(kube::KubeClient& client) { client_ = &client; }
  void is(const std::string& value);  // what the label is now, by the watch
  void want(const std::string& value);
  const std::string& written() const { return written_; }
  // Nothing under way: the wanted value is there, or has failed at least once.
  bool settled() const { return call_ == 0 && (written_ == wanted_ || !problem_.empty()); }

 private:
  void step();

  os::Loop& loop_;
  std::string node_;
  std::function<void()> on_written_;
  kube::KubeClient* client_ = nullptr;
  kube::KubeClient::Id call_ = 0;
  os::Timer timer_{loop_};
  Backoff backoff_;
  std::string wanted_, written_, problem_;
};

// The GPU Operator's pods that hold GPUs on this node: taken away by the labels that place them while a change is made
// (nvidia.com/gpu.deploy.* from "true" to "paused-for-mig-change"), and put back. Labels that an administrator has set
// to a different value stay. The labels themselves show which pods are paused, so the next program restores those of a
// killed one.
class Operands {
 public:
  // in_namespace: of the operator's pods.
  Operands(os::Loop& loop, std::string node, std::string in_namespace);
  ~Operands();
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  void use(kube::KubeClient& client);
  // gone: the pods have ended, or five minutes are over; a callback of its own.
  void pause(std::function<void()> gone);
  // validate: the operator's validators run again, as after each change.
  void resume(bool validate);

 private:
  void step();
  void on_node(const kube::KubeAnswer& answer);
  void ask_pods();
  void on_pods(const kube::KubeAnswer& answer);
  void validate();
  void later(const std::string& doing, const kube::KubeAnswer& answer);
  std::string pods_path(const std::string& apps) const;

  os::Loop& loop_;
  std::string node_, namespace_;
  kube::KubeClient* client_ = nullptr;
  kube::KubeClient::Id call_ = 0;
  os::Timer timer_{loop_}, patience_{loop_};
  Backoff retries_;
  bool pausing_ = false;  // else: resuming, until `settled_`
  bool settled_ = true;
  bool again_ = false;  // pause() or resume() came while a call was under way
  bool validate_ = false;
  std::function<void()> gone_;
  std::string problem_;
};

}  // namespace tranche::mig
