#include "kube/live/cluster_link.h"

#include "base/text.h"
#include "os/log/log.h"

namespace tranche::agent {

Cluster::Cluster(host::Loop& loop, host::KubeLink& link, std::string node_name, std::string startup_taint,
                 std::function<void(const kube::PodChanges&)> on_pods, std::function<void()> on_turn)
    : loop_(loop),
      link_(link),
      node_name_(std::move(node_name)),
      on_pods_(std::move(on_pods)),
      on_turn_(std::move(on_turn)),
      // So that nodes of a cluster that start together do not send requests at the same time.
      seed_(stable_hash(node_name_) ^ static_cast<std::uint64_t>(loop.now().time_since_epoch().count())) {
  kube::EventSettings settings;
  settings.node = node_name_;
  settings.seed = seed_;
  events_ = std::make_unique<EventSender>(loop, settings, on_turn_);
  condition_ = std::make_unique<ConditionController>(loop, node_name_, std::move(startup_taint), seed_, on_turn_);
  link_.when_settled([this] { start(); });
}

void Cluster::start() {
  starting_ = false;
  auto* client = link_.client();
  if (client == nullptr) {
    off_ = link_.closed_because();
  } else if (node_name_.empty()) {
    off_ = "the name of this node is not known (--node-name, $NODE_NAME)";
  }
  if (!off_.empty()) {
    events_.reset();  // what waits there is not sent any more
    condition_.reset();
    other_conditions_.clear();
    log::info("kube.off", {{"why", off_}});
    return on_turn_();
  }
  log::info("kube.on", {{"server", link_.server()}, {"node", node_name_}, {"source", link_.source()}});
  events_->use(*client);
  condition_->use(*client);
  for (const auto& [type, controller] : other_conditions_) controller->use(*client);
  watch_ = std::make_unique<PodWatch>(loop_, *client, node_name_, seed_, on_pods_, [this] {
    const auto& reflector = watch_->reflector();
    const std::string now = std::string(to_string(reflector.state())) + " " + reflector.reason();
    // A watch that resumes after its usual end is not logged.
    if (now != logged_ && reflector.state() == kube::Reflector::State::kWaiting)
      log::warning("kube.waiting", {{"why", reflector.reason()}});
    if (now != logged_ && reflector.state() == kube::Reflector::State::kWatching)
      log::info("kube.watching", {{"pods", watch_->pods().size()}});
    logged_ = now;
    on_turn_();
  });
}

void Cluster::emit(const kube::ObjectRef& about, const kube::Reason& reason, const std::string& message) {
  if (events_) events_->emit(about, reason, message);
}

void Cluster::emit_on_node(const kube::Reason& reason, const std::string& message) {
  if (!node_name_.empty()) emit(kube::ObjectRef::node(node_name_), reason, message);
}

void Cluster::condition(const kube::NodeCondition& wanted) {
  if (condition_) condition_->want(wanted);
}

void Cluster::other_condition(const kube::NodeCondition& wanted) {
  if (!off_.empty()) return;
  auto& controller = other_conditions_[wanted.type];
  if (!controller) {
    controller =
        std::make_unique<ConditionController>(loop_, node_name_, "", seed_ ^ stable_hash(wanted.type), on_turn_);
    if (auto* client = link_.client()) controller->use(*client);
  }
  controller->want(wanted);
}

bool Cluster::watching() const {
  return watch_ && watch_->reflector().known() && watch_->reflector().state() == kube::Reflector::State::kWatching;
}

const kube::PodTable& Cluster::pods() const {
  static const kube::PodTable kNone;
  return watch_ ? watch_->pods() : kNone;
}

ClusterReport Cluster::report() const {
  ClusterReport report;
  report.node = node_name_;
  report.server = link_.server();
  report.reason = off_;
  if (starting_) report.state = "starting";
  if (events_) report.events = events_->report();
  if (condition_) report.condition = condition_->report();
  if (const auto* client = link_.client()) report.requests = client->counts();
  if (!watch_) return report;
  report.state = to_string(watch_->reflector().state());
  report.reason = watch_->reflector().reason();
  report.last_event = watch_->last_event();
  report.pods = watch_->pods().size();
  report.watch_restarts = watch_->reflector().watch_restarts();
  return report;
}

}  // namespace tranche::agent
