#include "node/dra/slice_publisher.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.h"
#include "base/text.h"
#include "dra/slices.h"
#include "kube/access.h"
#include "kube/object.h"
#include "os/log/log.h"

namespace tranche::node {
namespace {

using namespace std::chrono_literals;
using What = dra::SliceWrite::What;

constexpr Duration kFirstRetry = 100ms;
constexpr Duration kMostRetry = 5min;
constexpr Duration kMostRestoring = 30s;
constexpr Duration kQuietAfter = 1min;  // without a foreign change for so long, the next one is restored at once
constexpr const char* kRole = "deploy/rbac/dra.yaml";

std::string path_of(const std::string& name) {
  return std::string(dra::kSlicesPath) + "/" + kube::percent_encoded(name);
}

}  // namespace

SlicePublisher::SlicePublisher(os::Loop& loop, kube::KubeLink& link, std::string node, std::function<void()> on_change)
    : loop_(loop),
      link_(link),
      node_(std::move(node)),
      seed_(stable_hash(node_ + " slices")),
      on_change_(std::move(on_change)),
      backoff_(kFirstRetry, kMostRetry, seed_),
      restoring_(kFirstRetry, kMostRestoring, seed_) {
  link_.when_settled([this] { step_soon(); });
}

void SlicePublisher::want(SliceWish wish) {
  ever_wanted_ = ever_wanted_ || !wish.driver.empty();
  if (wish == wish_ || !wish.known) return;
  if (wish.devices.notes != wish_.devices.notes)
    for (const auto& note : wish.devices.notes) log::warning("dra.left_out", {{"why", note}});
  wish_ = std::move(wish);
  settled_ = false;
  step_soon();
}

// Callbacks of the watch must not end the watch, and callers expect no callback.
void SlicePublisher::step_soon() {
  if (!soon_.running()) soon_.start(Duration::zero(), [this] { step(); });
}

void SlicePublisher::step() {
  if (link_.client() == nullptr || node_.empty() || request_.waits() || retry_.running()) return;
  follow_driver();
  if (!watch_) return settled();
  if (!watch_->reflector().known()) return on_change_();  // on_turn() steps again
  const bool going = driver_ != wish_.driver;
  if (!going && !features_) return probe();
  if (going) {
    ledger_.want({});
  } else {
    auto slices = dra::slices_of(wish_.devices.list, {driver_, node_, *features_});
    if (slices.notes != now_.withheld)
      for (const auto& note : slices.notes) log::warning("dra.withheld", {{"driver", driver_}, {"why", note}});
    now_.withheld = std::move(slices.notes);
    now_.devices = wish_.devices.list.size();
    ledger_.want(std::move(slices.list));
  }
  const auto next = ledger_.next();
  if (next) return next->what != What::kDelete && node_uid_.empty() ? find_node() : write(*next);
  if (!going) return settled();
  watch_.reset();
  driver_.clear();
  step_soon();
}

// The watch of a driver goes only when its slices are gone.
void SlicePublisher::follow_driver() {
  if (!driver_.empty() || wish_.driver.empty()) return;
  driver_ = wish_.driver;
  ledger_ = {};
  features_.reset();
  const std::string ours = "spec.driver=" + driver_ + ",spec.nodeName=" + node_;
  watch_ = std::make_unique<kube::ListWatch>(
      loop_, *link_.client(), dra::kSlicesPath,
      kube::ReflectorSettings{.selector = "fieldSelector=" + kube::percent_encoded(ours), .seed = seed_, .role = kRole},
      kube::ListWatchHandler{.on_object = [this](const auto& object, auto change) { on_object(object, change); },
                             .on_list = [this](bool whole) { on_list(whole); },
                             .on_turn = [this] { step_soon(); }});
}

void SlicePublisher::settled() {
  const bool changed = !settled_ || !now_.problem.empty();
  backoff_.reset();
  conflict_ = false;
  mismatch_ = false;
  now_.problem.clear();
  if (watch_ && !settled_)
    log::info("dra.published", {{"driver", driver_},
                                {"slices", ledger_.stored().size()},
                                {"generation", ledger_.generation()},
                                {"devices", now_.devices}});
  if (!watch_) {
    now_.withheld.clear();
    now_.devices = 0;
  }
  settled_ = true;
  if (changed) on_change_();
}

void SlicePublisher::on_list(bool whole) {
  auto listed = std::exchange(listed_, {});
  if (!whole) return;
  ledger_.replace(std::move(listed));
  features_.reset();  // a server that forgot where we were may be a newer one
  node_uid_.clear();
}

void SlicePublisher::on_object(const nlohmann::json& object, std::optional<kube::Change> change) {
  auto slice = dra::read_slice(object);
  if (slice.driver != driver_ || slice.node != node_) return;  // a server, or a proxy, may not honour the selector
  if (!change) return listed_.push_back(std::move(slice));
  const auto stored = ledger_.stored().find(slice.name);
  const bool known = stored != ledger_.stored().end();
  const bool by_others = change == kube::Change::kDeleted ? known : !known || stored->second.version != slice.version;
  if (change == kube::Change::kDeleted && known) node_uid_.clear();  // perhaps with its owner
  ledger_.apply(*change, slice);
  if (by_others && ledger_.next()) disturbed();
}

// Several changes before the next restoration are one. One that comes while we write is our own, or as good as that.
void SlicePublisher::disturbed() {
  if (!std::exchange(settled_, false)) return;
  if (!disturbed_at_ || loop_.now() - *disturbed_at_ > kQuietAfter)
    restoring_.reset();
  else
    retry_.start(restoring_.next(), [this] { step(); });
  disturbed_at_ = loop_.now();
}

void SlicePublisher::probe() {
  request_ = link_.client()->create(std::string(dra::kSlicesPath) + "?dryRun=All",
                                    dra::probe_body({driver_, node_, {}}), [this](const Answer& answer) {
                                      if (failed(answer, "what the API server keeps of a ResourceSlice is not known"))
                                        return;
                                      features_ = dra::features_of(json_of(answer.body));
                                      settled_ = false;
                                      step();
                                    });
}

void SlicePublisher::find_node() {
  request_ = link_.client()->get(kube::node_path(node_), [this](const Answer& answer) {
    if (failed(answer, "the owner of the ResourceSlices, this Node, is not known")) return;
    node_uid_ = text_at(map_at(json_of(answer.body), "metadata"), "uid");
    if (node_uid_.empty()) {
      failed({0, {}, "the API server sent a Node without a uid"}, "the owner of the ResourceSlices is not known");
      return;
    }
    step();
  });
}

void SlicePublisher::write(const dra::SliceWrite& write) {
  const auto done = [this, write](const Answer& answer) { on_written(write, answer); };
  settled_ = false;
  if (write.what == What::kDelete)
    request_ = link_.client()->remove(path_of(write.name), done);
  else if (write.what == What::kCreate)
    request_ = link_.client()->create(dra::kSlicesPath, dra::body_of(write, node_, node_uid_), done);
  else
    request_ = link_.client()->replace(path_of(write.name), dra::body_of(write, node_, node_uid_), done);
}

void SlicePublisher::on_written(const dra::SliceWrite& write, const Answer& answer) {
  const bool deleted = write.what == What::kDelete;
  const bool gone = deleted && answer.status == kube::http::kNotFound;
  if (!gone && failed(answer, deleted ? "a ResourceSlice is not deleted" : "a ResourceSlice is not written")) return;
  const auto stored = deleted ? std::nullopt : std::optional(dra::read_slice(json_of(answer.body)));
  ledger_.written(write, stored);
  if (stored && stored->spec != write.wanted) {  // it keeps less than it did; servers that differ may alternate
    features_.reset();
    if (std::exchange(mismatch_, true)) retry_.start(backoff_.next(), [this] { step(); });
  }
  ++now_.writes;
  step();
}

bool SlicePublisher::failed(const Answer& answer, const char* what) {
  if (kube::succeeded(answer)) return false;
  std::string why = kube::why_not(answer);
  Duration least{};
  if (answer.status == kube::http::kForbidden) {
    why += std::string("; give this service account the role in ") + kRole;
    least = kMostRetry;
  }
  if (answer.status == kube::http::kNotFound) node_uid_.clear();
  const std::string problem = std::string(what) + ": " + why;
  retry_.start(std::max(least, backoff_.next()), [this] { step(); });
  // A first conflict comes from a second writer, or from our own write that the watch has not shown yet.
  if (answer.status == kube::http::kConflict && !std::exchange(conflict_, true)) return true;
  if (problem != now_.problem)
    log::warning("dra.not_published", {{"driver", driver_}, {"status", answer.status}, {"why", problem}});
  now_.problem = problem;
  on_change_();
  return true;
}

SliceReport SlicePublisher::report() const {
  SliceReport report = now_;
  report.driver = driver_.empty() ? wish_.driver : driver_;
  report.slices = ledger_.stored().size();
  report.generation = ledger_.generation();
  report.notes = wish_.devices.notes;
  if (!wish_.driver.empty() && (node_.empty() || !link_.closed_because().empty())) {
    report.state = "failing";
    report.problem =
        node_.empty() ? "the name of this node is not known (--node-name, $NODE_NAME)" : link_.closed_because();
  } else if (wish_.driver.empty() && driver_.empty()) {
    return report;
  } else if (link_.client() == nullptr || !watch_ || !watch_->reflector().known()) {
    report.state = "waiting";
    report.problem = watch_ ? watch_->reflector().reason() : "there is no API server to publish to";
  } else if (!now_.problem.empty()) {
    report.state = "failing";
  } else if (driver_ != wish_.driver) {
    report.state = "removing";
  } else {
    report.state = settled_ ? "published" : "publishing";
  }
  return report;
}

std::optional<kube::NodeCondition> SlicePublisher::condition(const std::string& not_partitioned) const {
  if (!ever_wanted_) return std::nullopt;
  const SliceReport now = report();
  if (now.state == "publishing") return std::nullopt;  // a moment, and not an event of the node
  const auto say = [](bool ready, std::string reason, std::string message) {
    return kube::NodeCondition{ready, std::move(reason), std::move(message), std::string(kube::kDraCondition)};
  };
  if (now.state == "off") return say(false, "Off", "dra.devices is none: no ResourceSlices are published");
  if (now.state != "published") return say(false, "NotPublished", now.problem.empty() ? now.state : now.problem);
  if (!now.withheld.empty()) return say(true, "Withheld", now.withheld.front());
  std::string message = std::to_string(now.devices) + " devices of driver " + now.driver;
  if (!not_partitioned.empty()) message += "; no GPU is partitioned on demand: " + not_partitioned;
  return say(true, "Published", std::move(message));
}

}  // namespace tranche::node
