#pragma once
// Keeps a condition of this Node up to date, and removes a startup taint once the node is serving. Sends
// no requests while nothing changes: it writes if the condition differs from the last one written, at most once per
// second, and retries failures with back-off. Loop thread only.
#include <functional>
#include <optional>
#include <string>

#include "base/backoff.h"
#include "kube/client/kube_client.h"
#include "kube/node_condition.h"
#include "os/loop/loop.h"

namespace tranche::kube {

struct ConditionReport {
  std::string written;  // "Serving"; "" = nothing yet
  std::string problem;  // why the newest condition could not be written
  friend bool operator==(const ConditionReport&, const ConditionReport&) = default;
};

class ConditionController {
 public:
  // `startup_taint`: its key, "" = none. on_change: the report has changed; not called inside a call to this object.
  ConditionController(os::Loop& loop, std::string node, std::string startup_taint, std::uint64_t seed,
                      std::function<void()> on_change);
  ~ConditionController();
  ConditionController(const ConditionController&) = delete;
  ConditionController& operator=(const ConditionController&) = delete;

  void use(KubeClient& client);  // everything waits for this call
  void want(NodeCondition condition);
  const ConditionReport& report() const { return report_; }

 private:
  void step();
  void write(const NodeCondition& condition);
  void look_for_taint();
  void remove_taint(const std::string& patch);
  bool failed(const KubeAnswer& answer, const char* what);  // true: will be retried
  void wait(Duration duration);

  os::Loop& loop_;
  std::string node_;
  std::string taint_;
  std::function<void()> on_change_;
  Backoff backoff_;
  KubeClient* client_ = nullptr;
  KubeClient::Id call_ = 0;
  os::Timer timer_{loop_};
  std::optional<NodeCondition> wanted_;
  std::optional<NodeCondition> written_;
  bool settled_ = false;  // the first moments after a start are not reported
  WallTime changed_{};
  ConditionReport report_;
};

}  // namespace tranche::kube
