#pragma once
// The GPU Operator's pods that hold GPUs on this node: taken away by the labels that place them while a change is made
// (nvidia.com/gpu.deploy.* from "true" to "paused-for-mig-change"), and put back. Labels that an administrator has set
// to a different value stay. Nothing is remembered: what is paused, the labels say, so a killed program's labels are
// put back by the next one. Loop thread only.
#include <functional>
#include <string>

#include "base/backoff.h"
#include "kube/client/kube_client.h"
#include "os/loop/timer.h"

namespace tranche::agent {

inline constexpr const char* kPausedOperand = "paused-for-mig-change";

class Operands {
 public:
  // in_namespace: of the operator's pods.
  Operands(host::Loop& loop, std::string node, std::string in_namespace);
  ~Operands();
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  void use(host::KubeClient& client);
  // gone: the pods have ended, or five minutes are over; a turn of its own.
  void pause(std::function<void()> gone);
  // validate: the operator's validators run again, as after each change.
  void resume(bool validate);

 private:
  void step();
  void on_node(const host::KubeAnswer& answer);
  void ask_pods();
  void on_pods(const host::KubeAnswer& answer);
  void validate();
  void later(const std::string& doing, const host::KubeAnswer& answer);
  std::string pods_path(const std::string& apps) const;

  host::Loop& loop_;
  std::string node_, namespace_;
  host::KubeClient* client_ = nullptr;
  host::KubeClient::Id call_ = 0;
  host::Timer timer_{loop_}, patience_{loop_};
  Backoff retries_;
  bool pausing_ = false;  // else: resuming, until `settled_`
  bool settled_ = true;
  bool again_ = false;  // pause() or resume() came while a call was under way
  bool validate_ = false;
  std::function<void()> gone_;
  std::string problem_;
};

}  // namespace tranche::agent
