#pragma once
// Asks kubelet (PodResources) which containers hold which devices. kubelet sends no events, so it is asked after a
// grant, when a pod ended, when a user reads the status, and now and then. Loop thread only; the question itself is
// asked on the worker.
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kube/pod.h"
#include "kubelet/pod_resources.h"
#include "os/loop/loop.h"
#include "os/worker/worker.h"

namespace tranche::node {

// Pods that kubelet does not list though they run. For seconds after its own start, kubelet answers and has not read
// the API server's pods yet: it lists no pod. What such a pod holds stays as it was, so that names, figures, and the
// stop of its clients before a deletion do not wait for kubelet. Pure; one thread.
class LatePods {
 public:
  // Adds to kubelet's answer what it had listed before for pods that are not in it, that the API server reports as
  // running still, and whose slots no other container holds now. True when there is one: kubelet will list it.
  // `pods` must be current: with what the API server reported long ago, a pod that is gone would hold its slots.
  bool complete(std::vector<kubelet::PodHolding>& listed, const std::vector<kubelet::PodHolding>& before,
                const kube::PodTable& pods);

 private:
  using Key = std::pair<std::string, std::string>;  // namespace, name
  std::map<Key, std::string> uids_;  // of the pods that were listed: one of the same name may be another pod
};

class Holdings {
 public:
  using OnListed = std::function<void(Result<std::vector<kubelet::PodHolding>>)>;
  // on_listed must end with settle().
  Holdings(os::Loop& loop, os::Worker& worker, std::string socket, OnListed on_listed);
  Holdings(const Holdings&) = delete;
  Holdings& operator=(const Holdings&) = delete;

  void ask();
  void ask_in(Duration delay);  // and not when it was due otherwise
  // When to ask next: `behind` while kubelet still lists pods that are gone, or not yet those that run, a little later
  // each time; `pods_reported` when the API server reports every pod that ends, so that asking is for safety
  // only.
  void settle(bool behind, bool pods_reported);
  // When the question was asked whose answer came last; what was granted later is not in it.
  MonoTime answer_of() const { return answer_of_; }

 private:
  os::Loop& loop_;
  os::Worker& worker_;
  std::string socket_;
  OnListed on_listed_;
  os::Timer timer_{loop_};
  MonoTime answer_of_{};
  bool asked_ = false;
  bool again_ = false;  // an answer is wanted to a question asked later than the one under way
  Duration behind_wait_{};
};

}  // namespace tranche::node
