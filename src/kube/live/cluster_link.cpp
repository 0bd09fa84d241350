#include "kube/live/cluster_link.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "base/time.h"
#include "kube/access.h"
#include "kube/object.h"
#include "os/log/log.h"

namespace tranche::kube {
namespace {

using namespace std::chrono_literals;

constexpr Duration kBetweenWrites = 1s;
constexpr Duration kStarting = 3s;     // to open the driver and register with kubelet
constexpr Duration kForbidden = 5min;  // until an administrator may have granted the permission

}  // namespace

// Keeps a condition of this Node up to date, and removes a startup taint once the node is serving. Sends no requests
// while nothing changes: it writes if the condition differs from the last one written, at most once per second, and
// retries failures with back-off. Loop thread only.
class ConditionController {
 public:
  // `startup_taint`: its key, "" = none. on_change: the report has changed; not called inside a call to this object.
  ConditionController(os::Loop& loop, KubeLink& link, std::string node, std::string startup_taint, std::uint64_t seed,
                      std::function<void()> on_change)
      : loop_(loop),
        link_(link),
        node_(std::move(node)),
        taint_(std::move(startup_taint)),
        on_change_(std::move(on_change)),
        backoff_(1s, 5min, seed) {
    wait(kStarting);
  }

  void want(NodeCondition condition) {
    if (wanted_ == condition) return;
    wanted_ = std::move(condition);
    if (!settled_ && wanted_->ready) {  // no need to wait any longer
      settled_ = true;
      timer_.stop();
    }
    step();
  }

  // Also when the link is open.
  void step() {
    if (link_.client() == nullptr || !wanted_ || request_.waits() || timer_.running()) return;
    if (wanted_ != written_) return write(*wanted_);
    if (!taint_.empty() && wanted_->ready) look_for_taint();
  }

  const ConditionReport& report() const { return report_; }

 private:
  void write(const NodeCondition& condition) {
    if (!written_ || written_->ready != condition.ready) changed_ = loop_.wall_now();
    const std::string body = condition_patch(condition, changed_, loop_.wall_now());
    request_ =
        link_.client()->strategic_patch(node_status_path(node_), body, [this, condition](const KubeAnswer& answer) {
          if (failed(answer, "the node's condition is not written")) return;
          written_ = condition;
          report_ = {condition.reason, {}};
          wait(kBetweenWrites);
          on_change_();
        });
  }

  void look_for_taint() {
    request_ = link_.client()->get(node_path(node_), [this](const KubeAnswer& answer) {
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

  void remove_taint(const std::string& patch) {
    request_ = link_.client()->patch(node_path(node_), patch, [this](const KubeAnswer& answer) {
      if (failed(answer, "the startup taint is not removed")) return;
      log::info("kube.taint_removed", {{"taint", taint_}});
      taint_.clear();
    });
  }

  // True: it failed, and will be retried.
  bool failed(const KubeAnswer& answer, const char* what) {
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

  void wait(Duration duration) {
    timer_.start(duration, [this] {
      settled_ = true;
      step();
    });
  }

  os::Loop& loop_;
  KubeLink& link_;
  std::string node_;
  std::string taint_;
  std::function<void()> on_change_;
  Backoff backoff_;
  PendingRequest request_;
  os::Timer timer_{loop_};
  std::optional<NodeCondition> wanted_;
  std::optional<NodeCondition> written_;
  bool settled_ = false;  // the first moments after a start are not reported
  WallTime changed_{};
  ConditionReport report_;
};

Cluster::Cluster(os::Loop& loop, KubeLink& link, std::string node_name, std::string startup_taint,
                 std::function<void(const std::vector<PodEnding>&)> on_endings, std::function<void()> on_turn)
    : loop_(loop),
      link_(link),
      node_name_(std::move(node_name)),
      startup_taint_(std::move(startup_taint)),
      on_endings_(std::move(on_endings)),
      on_turn_(std::move(on_turn)),
      // So that nodes of a cluster that start together do not send requests at the same time.
      seed_(stable_hash(node_name_) ^ static_cast<std::uint64_t>(loop.now().time_since_epoch().count())),
      events_({.node = node_name_, .seed = seed_}) {
  link_.when_settled([this] { start(); });
}

Cluster::~Cluster() = default;

void Cluster::start() {
  starting_ = false;
  auto* client = link_.client();
  if (client == nullptr) {
    off_ = link_.closed_because();
  } else if (node_name_.empty()) {
    off_ = "the name of this node is not known (--node-name, $NODE_NAME)";
  }
  if (!off_.empty()) {
    conditions_.clear();
    log::info("kube.off", {{"why", off_}});
    return on_turn_();
  }
  log::info("kube.on", {{"server", link_.server()}, {"node", node_name_}, {"source", link_.source()}});
  send_events();
  for (const auto& [type, controller] : conditions_) controller->step();
  watch_ = std::make_unique<ListWatch>(
      loop_, *client, "/api/v1/pods",
      ReflectorSettings{.selector = "fieldSelector=" + percent_encoded("spec.nodeName=" + node_name_), .seed = seed_},
      ListWatchHandler{.on_object = [this](const auto& object, auto change) { on_pod(object, change); },
                       .on_list =
                           [this](bool whole) {
                             auto listed = std::exchange(listed_, {});
                             if (whole)
                               std::ranges::move(pods_.replace(std::move(listed)), std::back_inserter(endings_));
                           },
                       .on_turn = [this] { on_watch(); }});
}

void Cluster::on_pod(const nlohmann::json& object, std::optional<Change> change) {
  auto pod = read_pod(object);
  if (pod.node_name != node_name_) return;  // a server, or a proxy in front of it, may ignore the selector
  if (change)
    std::ranges::move(pods_.apply(*change, std::move(pod)), std::back_inserter(endings_));
  else
    listed_.push_back(std::move(pod));
}

void Cluster::on_watch() {
  if (!endings_.empty()) on_endings_(std::exchange(endings_, {}));
  const auto& reflector = watch_->reflector();
  const std::string now = std::string(to_string(reflector.state())) + " " + reflector.reason();
  // A watch that resumes after its usual end is not logged.
  if (now != logged_ && reflector.state() == Reflector::State::kWaiting)
    log::warning("kube.waiting", {{"why", reflector.reason()}});
  if (now != logged_ && reflector.state() == Reflector::State::kWatching)
    log::info("kube.watching", {{"pods", pods_.size()}});
  logged_ = now;
  on_turn_();
}

void Cluster::emit(const ObjectRef& about, const Reason& reason, const std::string& message) {
  if (!off_.empty()) return;
  events_.emit(about, reason, message, loop_.now(), loop_.wall_now());
  send_events();
}

// One at a time, when they are due.
void Cluster::send_events() {
  if (starting_ || !off_.empty()) return;
  event_timer_.stop();
  if (const auto next = events_.take(loop_.now())) {
    auto* client = link_.client();
    const auto done = [this](const KubeAnswer& answer) {
      const std::string why = succeeded(answer) ? "" : why_not(answer);
      if (!succeeded(answer)) log::warning("kube.event_not_written", {{"status", answer.status}, {"why", why}});
      events_.done(answer.status, why, loop_.now());
      send_events();
      on_turn_();
    };
    event_request_ =
        next->create ? client->create(next->path, next->body, done) : client->patch(next->path, next->body, done);
  } else if (const auto due = events_.next(loop_.now())) {
    event_timer_.start(std::max(*due - loop_.now(), Duration::zero()), [this] { send_events(); });
  }
}

void Cluster::emit_on_node(const Reason& reason, const std::string& message) {
  if (!node_name_.empty()) emit(ObjectRef::node(node_name_), reason, message);
}

void Cluster::condition(const NodeCondition& wanted) {
  if (!off_.empty()) return;
  auto& controller = conditions_[wanted.type];
  if (!controller) {
    controller = std::make_unique<ConditionController>(loop_, link_, node_name_,
                                                       wanted.type == kReadyCondition ? startup_taint_ : "",
                                                       seed_ ^ stable_hash(wanted.type), on_turn_);
  }
  controller->want(wanted);
}

bool Cluster::watching() const {
  return watch_ && watch_->reflector().known() && watch_->reflector().state() == Reflector::State::kWatching;
}

ClusterReport Cluster::report() const {
  ClusterReport report;
  report.node = node_name_;
  report.server = link_.server();
  report.reason = off_;
  if (starting_) report.state = "starting";
  if (off_.empty()) report.events = events_.report();
  if (const auto ready = conditions_.find(kReadyCondition); ready != conditions_.end())
    report.condition = ready->second->report();
  if (const auto* client = link_.client()) report.requests = client->counts();
  if (!watch_) return report;
  report.state = to_string(watch_->reflector().state());
  report.reason = watch_->reflector().reason();
  report.pods = pods_.size();
  report.watch_restarts = watch_->reflector().watch_restarts();
  return report;
}

}  // namespace tranche::kube
