#pragma once
// Asks kubelet (PodResources) which containers hold which devices. kubelet sends no events, so it is asked after a
// grant, when a pod ended, when a user reads the status, and now and then. Loop thread only; the question itself is
// asked on the worker.
#include <functional>
#include <string>
#include <vector>

#include "kubelet/pod_resources.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"
#include "os/worker/worker.h"

namespace tranche::agent {

class Holdings {
 public:
  using OnListed = std::function<void(Result<std::vector<host::PodHolding>>)>;
  // on_listed must end with settle().
  Holdings(host::Loop& loop, host::Worker& worker, std::string socket, OnListed on_listed);
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
  host::Loop& loop_;
  host::Worker& worker_;
  std::string socket_;
  OnListed on_listed_;
  host::Timer timer_{loop_};
  MonoTime answer_of_{};
  bool asked_ = false;
  bool again_ = false;  // an answer is wanted to a question asked later than the one under way
  Duration behind_wait_{};
};

}  // namespace tranche::agent
