#include "kube/live/condition_controller.h"

#include "kube/api_status.h"
#include "os/log/log.h"

namespace tranche::kube {
namespace {

using namespace std::chrono_literals;

constexpr Duration kBetweenWrites = 1s;
constexpr Duration kStarting = 3s;     // to open the driver and register with kubelet
constexpr Duration kForbidden = 5min;  // until an administrator may have granted the permission

}  // namespace

ConditionController::ConditionController(os::Loop& loop, std::string node, std::string startup_taint,
                                         std::uint64_t seed, std::function<void()> on_change)
    : loop_(loop),
      node_(std::move(node)),
      taint_(std::move(startup_taint)),
      on_change_(std::move(on_change)),
      backoff_(1s, 5min, seed) {
  wait(kStarting);
}

ConditionController::~ConditionController() {
  if (client_ != nullptr) client_->cancel(call_);
}

void ConditionController::use(KubeClient& client) {
  client_ = &client;
  step();
}

void ConditionController::want(NodeCondition condition) {
  if (wanted_ == condition) return;
  wanted_ = std::move(condition);
  if (!settled_ && wanted_->ready) {  // no need to wait any longer
    settled_ = true;
    timer_.stop();
  }
  step();
}

void ConditionController::wait(Duration duration) {
  timer_.start(duration, [this] {
    settled_ = true;
    step();
  });
}

void ConditionController::step() {
  if (client_ == nullptr || !wanted_ || call_ != 0 || timer_.running()) return;
  if (wanted_ != written_) return write(*wanted_);
  if (!taint_.empty() && wanted_->ready) look_for_taint();
}

void ConditionController::write(const NodeCondition& condition) {
  if (!written_ || written_->ready != condition.ready) changed_ = loop_.wall_now();
  const std::string body = condition_patch(condition, changed_, loop_.wall_now());
  call_ = client_->strategic_patch(node_status_path(node_), body, [this, condition](const KubeAnswer& answer) {
    call_ = 0;
    if (failed(answer, "the node's condition is not written")) return;
    written_ = condition;
    report_ = {condition.reason, {}};
    wait(kBetweenWrites);
    on_change_();
  });
}

void ConditionController::look_for_taint() {
  call_ = client_->get(node_path(node_), [this](const KubeAnswer& answer) {
    call_ = 0;
    if (failed(answer, "the startup taint is not looked for")) return;
    const auto patch = patch_without_taint(answer.body, taint_);
    if (!patch) {
      log::warning("kube.taint", {{"taint", taint_}, {"why", patch.error()}});
      return wait(backoff_.next());
    }
    if (*patch) return remove_taint(**patch);
    taint_.clear();  // once: a taint that is added again is deliberate
  });
}

void ConditionController::remove_taint(const std::string& patch) {
  call_ = client_->patch(node_path(node_), patch, [this](const KubeAnswer& answer) {
    call_ = 0;
    if (failed(answer, "the startup taint is not removed")) return;
    log::info("kube.taint_removed", {{"taint", taint_}});
    taint_.clear();
  });
}

bool ConditionController::failed(const KubeAnswer& answer, const char* what) {
  if (succeeded(answer)) {
    backoff_.reset();
    return false;
  }
  const std::string problem = std::string(what) + ": " + why_not(answer);
  if (problem != report_.problem) log::warning("kube.node", {{"status", answer.status}, {"why", problem}});
  report_.problem = problem;
  wait(answer.status == http::kForbidden || answer.status == http::kNotFound ? kForbidden : backoff_.next());
  on_change_();
  return true;
}

}  // namespace tranche::kube
