#pragma once
// Writes the label nvidia.com/mig.config.state on the Node. Each value is written, in order; what fails is written
// again, later each time, unless a newer value replaces it. A value is written twice when the watch brings the former
// one late. Loop thread only.
#include <functional>
#include <optional>
#include <string>

#include "base/backoff.h"
#include "kube/client/kube_client.h"
#include "os/loop/timer.h"

namespace tranche::agent {

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
