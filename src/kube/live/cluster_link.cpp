#include "kube/live/cluster_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "base/time.h"
#include "kube/access.h"
#include "kube/client/list_watch.h"
#include "kube/object.h"
#include "os/log/log.h"

namespace tranche::kube {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostPods = 2000;    // kubelet runs 110 by default, and some hundreds if configured
constexpr std::size_t kMostMalformed = 8;  // logged of a list
constexpr Duration kBetweenWrites = 1s;
constexpr Duration kStarting = 3s;     // to open the driver and register with kubelet
constexpr Duration kForbidden = 5min;  // until an administrator may have granted the permission

}  // namespace

// The pods of this node, as the API server reports them: listed once, then watched (src/kube/reflector.h). Input from
// the API server is bounded: pods of other nodes are ignored, and a list of more than kMostPods pods counts as failed.
// Loop thread only.
class PodWatch {
 public:
  // on_pods: called with all changes that arrived together, never inside the constructor; it must not destroy this
  // object. on_turn: also if only the state of the watch has changed.
  PodWatch(os::Loop& loop, KubeClient& client, const std::string& node, std::uint64_t seed,
           std::function<void(const PodChanges&)> on_pods, std::function<void()> on_turn)
      : node_(node),
        on_pods_(std::move(on_pods)),
        watch_(loop, client, "/api/v1/pods",
               {.selector = "fieldSelector=" + percent_encoded("spec.nodeName=" + node), .seed = seed},
               {.on_object = [this](const auto& object, auto change) { return on_object(object, change); },
                .on_list =
                    [this](bool whole) {
                      malformed_ = 0;
                      auto listed = std::exchange(listed_, {});
                      if (whole) add(table_.replace(std::move(listed)));
                    },
                .on_turn =
                    [this, on_turn = std::move(on_turn)] {
                      if (!changes_.empty()) on_pods_(std::exchange(changes_, {}));
                      on_turn();
                    }}) {}

  const PodTable& pods() const { return table_; }
  const Reflector& reflector() const { return watch_.reflector(); }
  std::optional<MonoTime> last_event() const { return watch_.last_event(); }

 private:
  Status on_object(const nlohmann::json& object, std::optional<Change> change) {
    auto pod = read_pod(object);
    if (!pod && change) return std::unexpected(pod.error());
    if (!pod && ++malformed_ <= kMostMalformed) log::warning("kube.malformed", {{"what", pod.error()}});
    // A server, or a proxy in front of it, may ignore the selector.
    if (!pod || pod->node_name != node_) return {};
    if (listed_.size() >= kMostPods ||
        (change && table_.size() >= kMostPods && table_.find(pod->pod_namespace, pod->name) == nullptr))
      return fail(Kind::kInvalid, fmt::format("the API server reports more than {} pods of this node", kMostPods));
    if (change)
      add(table_.apply(*change, *std::move(pod)));
    else
      listed_.push_back(*std::move(pod));
    return {};
  }

  void add(PodChanges changes) { std::ranges::move(changes, std::back_inserter(changes_)); }

  const std::string node_;
  std::function<void(const PodChanges&)> on_pods_;
  PodTable table_;
  std::vector<PodSeen> listed_;  // the pages of an incomplete list
  std::size_t malformed_ = 0;    // of the present list
  PodChanges changes_;           // not passed on yet: a burst of events is one callback
  ListWatch watch_;              // last: it calls the rest
};

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
                 std::function<void(const PodChanges&)> on_pods, std::function<void()> on_turn)
    : loop_(loop),
      link_(link),
      node_name_(std::move(node_name)),
      startup_taint_(std::move(startup_taint)),
      on_pods_(std::move(on_pods)),
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
  watch_ = std::make_unique<PodWatch>(loop_, *client, node_name_, seed_, on_pods_, [this] {
    const auto& reflector = watch_->reflector();
    const std::string now = std::string(to_string(reflector.state())) + " " + reflector.reason();
    // A watch that resumes after its usual end is not logged.
    if (now != logged_ && reflector.state() == Reflector::State::kWaiting)
      log::warning("kube.waiting", {{"why", reflector.reason()}});
    if (now != logged_ && reflector.state() == Reflector::State::kWatching)
      log::info("kube.watching", {{"pods", watch_->pods().size()}});
    logged_ = now;
    on_turn_();
  });
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

const PodTable& Cluster::pods() const {
  static const PodTable kNone;
  return watch_ ? watch_->pods() : kNone;
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
  report.last_event = watch_->last_event();
  report.pods = watch_->pods().size();
  report.watch_restarts = watch_->reflector().watch_restarts();
  return report;
}

}  // namespace tranche::kube
