#include "mig/live/mig_manager.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.h"
#include "base/text.h"
#include "kube/object.h"
#include "os/log/log.h"

namespace tranche::mig {
namespace {

using namespace std::chrono_literals;

constexpr Duration kAnswerPatience = 4s;  // for kubelet, the API server, a scan
constexpr Duration kLookAgain = 5min;     // without any change

std::string gpu_name(unsigned index) {
  return "GPU " + std::to_string(index);
}

// The devices that a change removes: MIG devices, and the whole GPU if its mode changes.
std::vector<std::string> devices_of(const GpuPlan& plan) {
  auto devices = plan.leaves();
  if (plan.mode_changes()) devices.push_back(plan.now.uuid);
  return devices;
}

}  // namespace

// Asks for evictions (the Eviction API: the pods' grace period counts, and PodDisruptionBudgets hold). A refusal by a
// budget is asked again, later each time, as long as the pod is wanted gone. With a UID the eviction is of this pod and
// of no successor.
class Evictions {
 public:
  // on_result: "evicted" or why not, one callback each.
  Evictions(os::Loop& loop, std::function<void(const Holder& pod, bool accepted, const std::string& why)> on_result)
      : loop_(loop), on_result_(std::move(on_result)) {}

  void use(kube::KubeClient& client) { client_ = &client; }
  std::uint64_t accepted() const { return accepted_; }

  // These and no others.
  void want(const std::vector<Holder>& pods) {
    std::map<std::string, Holder> wanted;
    for (const Holder& pod : pods) wanted.try_emplace(key_of(pod), pod);
    std::erase_if(entries_, [&](const auto& item) { return !wanted.contains(item.first); });
    for (const auto& [key, pod] : wanted)
      if (auto& entry = entries_[key]; !entry) {
        entry.reset(new Entry{pod, {1s, 30s, stable_hash(key)}, {}, os::Timer(loop_)});
        ask(*entry);
      }
  }

 private:
  struct Entry {
    Holder pod;
    Backoff backoff;
    kube::PendingRequest request;
    os::Timer timer;
  };

  static std::string key_of(const Holder& pod) { return pod.pod_namespace + "/" + pod.pod + "/" + pod.uid; }

  void ask(Entry& entry) {
    if (client_ == nullptr) return;
    const Holder& pod = entry.pod;
    nlohmann::json body{{"apiVersion", "policy/v1"},
                        {"kind", "Eviction"},
                        {"metadata", {{"name", pod.pod}, {"namespace", pod.pod_namespace}}}};
    if (!pod.uid.empty()) body["deleteOptions"] = {{"preconditions", {{"uid", pod.uid}}}};
    const std::string path = "/api/v1/namespaces/" + pod.pod_namespace + "/pods/" + pod.pod + "/eviction";
    entry.request = client_->create(path, json_text(body), [this, &entry](const kube::KubeAnswer& answer) {
      if (kube::succeeded(answer)) ++accepted_;
      const bool accepted = kube::succeeded(answer) || answer.status == kube::http::kNotFound;
      if (!accepted) {
        const Duration asked_for = kube::status_of_body(answer.status, answer.body).retry_after;
        entry.timer.start(std::max(entry.backoff.next(), asked_for), [this, &entry] { ask(entry); });
      }
      on_result_(Holder(entry.pod), accepted, accepted ? "" : kube::why_not(answer));
    });
  }

  os::Loop& loop_;
  std::function<void(const Holder&, bool, const std::string&)> on_result_;
  kube::KubeClient* client_ = nullptr;
  std::map<std::string, std::unique_ptr<Entry>> entries_;  // by namespace/name/uid
  std::uint64_t accepted_ = 0;
};

// Writes the label nvidia.com/mig.config.state on the Node. Each value is written, in order; what fails is written
// again, later each time, unless a newer value replaces it. A value is written twice when the watch brings the former
// one late.
class StateLabel {
 public:
  // on_written: the newest value was written, or writing failed and is repeated later.
  StateLabel(os::Loop& loop, std::string node, std::function<void()> on_written)
      : node_(std::move(node)),
        on_written_(std::move(on_written)),
        timer_(loop),
        backoff_(200ms, 1min, stable_hash(node_ + " mig")) {}

  void use(kube::KubeClient& client) { client_ = &client; }

  // What the label is now, by the watch.
  void is(const std::string& value) {
    if (request_.waits()) return;  // older than what is being written
    written_ = value;
    step();
  }

  void want(const std::string& value) {
    if (wanted_ != value) problem_.clear();
    wanted_ = value;
    step();
  }

  const std::string& written() const { return written_; }
  // Nothing under way: the wanted value is there, or has failed at least once.
  bool settled() const { return !request_.waits() && (written_ == wanted_ || !problem_.empty()); }

 private:
  void step() {
    if (client_ == nullptr || request_.waits() || timer_.running() || wanted_.empty() || wanted_ == written_) return;
    const nlohmann::json patch{{"metadata", {{"labels", {{kMigStateLabel, wanted_}}}}}};
    request_ = client_->patch(kube::node_path(node_), json_text(patch),
                              [this, value = wanted_](const kube::KubeAnswer& answer) {
                                if (kube::succeeded(answer)) {
                                  backoff_.reset();
                                  problem_.clear();
                                  written_ = value;
                                  log::info("mig.state", {{"label", kMigStateLabel}, {"value", value}});
                                } else {
                                  const std::string why = kube::why_not(answer);
                                  if (why != problem_)
                                    log::warning("mig.state_not_written", {{"value", value}, {"why", why}});
                                  problem_ = why.empty() ? "no answer" : why;
                                  timer_.start(backoff_.next(), [this] { step(); });
                                }
                                step();
                                on_written_();
                              });
  }

  std::string node_;
  std::function<void()> on_written_;
  kube::KubeClient* client_ = nullptr;
  kube::PendingRequest request_;
  os::Timer timer_;
  Backoff backoff_;
  std::string wanted_, written_, problem_;
};

MigManager::MigManager(os::Loop& loop, os::Worker& worker, kube::KubeLink& link, MigSettings settings,
                       Callbacks callbacks)
    : loop_(loop),
      link_(link),
      settings_(std::move(settings)),
      callbacks_(std::move(callbacks)),
      choice_(loop, worker, settings_.options, settings_.node_name,
              {.changed = [this] { on_change(true); },
               .unreachable =
                   [this](const std::string& why) {
                     if (report_.message != why) state("starting", "Starting", why);
                   },
               .state_label = [this](const std::string& value) { state_label_->is(value); }}),
      waits_(1s, 30s, stable_hash(settings_.node_name + " mig waits")),
      // Under the GPU Operator each try pauses its pods.
      retries_(settings_.options.in_operators_place ? 1min : 5s, settings_.options.in_operators_place ? 30min : 5min,
               stable_hash(settings_.node_name + " mig retries")),
      state_label_(std::make_unique<StateLabel>(loop, settings_.node_name,
                                                [this] {
                                                  report_.written = state_label_->written();
                                                  if (phase_ == Phase::kWriting && state_label_->settled()) idle();
                                                  callbacks_.changed();
                                                })),
      evictions_(std::make_unique<Evictions>(
          loop,
          [this](const Holder& pod, bool accepted, const std::string& why) {
            report_.evictions = evictions_->accepted();
            log::info("mig.eviction",
                      {{"pod", pod.pod_namespace + "/" + pod.pod}, {"accepted", accepted}, {"why", why}});
            callbacks_.emit_on_pod(
                pod, kube::kMigEviction,
                accepted ? "evicted: it holds a MIG device that is removed for the configuration " + report_.config
                         : "cannot be evicted yet: " + why);
            callbacks_.changed();
          })),
      driver_(loop, [this] { on_change(false); }) {
  report_.state = "starting";
  report_.reason = "Starting";
  report_.message = "the node's label is being read";
  link_.when_settled([this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) start();
  });
}

MigManager::~MigManager() {
  if (phase_ == Phase::kResetting) resetter_->leave_behind();
}

void MigManager::start() {
  auto* client = link_.client();
  if (client == nullptr || settings_.node_name.empty()) {
    state("off", "NoCluster",
          client == nullptr ? "the node's label cannot be read: " + link_.closed_because()
                            : "the name of this node is not known (--node-name, $NODE_NAME)");
    return;
  }
  state_label_->use(*client);
  evictions_->use(*client);
  choice_.use(*client);
}

void MigManager::use_is(MigUse use) {
  const bool answered = use.asked > use_.asked;
  const bool other = use.users != use_.users || use.unknown != use_.unknown;
  use_ = std::move(use);
  driver_.use_is(use_);
  if (phase_ == Phase::kAsking && answered && use_.asked >= withdrawn_at_) return idle();
  if (other && report_.state == "pending") on_change(false);
}

void MigManager::on_inventory() {
  if (phase_ == Phase::kScanning) return idle();
  // After a failure the next try has its own time: our own undoing is a scan, too. A reset is what is waited for.
  if (phase_ == Phase::kIdle && (loop_.now() >= not_before_ || report_.reason == "NeedsReset")) step();
}

// asked_anew: what was refused before may be possible now.
void MigManager::on_change(bool asked_anew) {
  if (asked_anew) {
    retries_.reset();
    reset_tried_.clear();
  }
  waits_.reset();
  not_before_ = {};
  step();
}

void MigManager::idle() {
  patience_.stop();
  phase_ = Phase::kIdle;
  step();
}

// For an answer, and not for long.
void MigManager::wait_in(Phase phase) {
  phase_ = phase;
  patience_.start(kAnswerPatience, [this] { idle(); });
}

void MigManager::again_in(Duration delay) {
  not_before_ = loop_.now() + delay;
  timer_.start(delay, [this] {
    not_before_ = {};
    step();
  });
}

void MigManager::step() {
  if (phase_ != Phase::kIdle) {
    again_ = true;
    return;
  }
  if (!choice_.known()) return;
  if (choice_.other_manager()) {
    withdraw({});
    evictions_->want({});
    return state(
        "off", "OtherManager",
        std::string("the GPU Operator runs its own MIG manager on this node (label ") + kMigOperatorLabel + "=true)");
  }
  again_ = false;
  phase_ = Phase::kReading;
  driver_.read(callbacks_.driver(), [this](MigDriver::Reading reading) { on_read(std::move(reading)); });
}

void MigManager::on_read(MigDriver::Reading reading) {
  phase_ = Phase::kIdle;
  if (again_) return step();  // something is new since
  waiting_devices_.clear();
  if (reading.problem != read_problem_ && !reading.problem.empty())
    log::warning("mig.unreadable", {{"why", reading.problem}});
  read_problem_ = reading.problem;
  const std::string name = choice_.name();
  if (name != report_.config) {
    report_.config = name;
    changed_gpus_.clear();
    begun_ = false;
    reported_waiting_.clear();
    blocked_since_.clear();
    began_ = loop_.now();
  }
  report_.source = choice_.source();
  if (!reading.problem.empty()) {
    // Without a driver nothing is asked of anybody yet: it may come in a moment.
    if (name.empty()) return state("idle", "NoConfig", reading.problem);
    state("pending", "NoDriver", reading.problem);
    return again_in(retries_.next());
  }
  report_.gpus.clear();
  for (auto& gpu : reading.gpus) {
    add_users(gpu, [this](const std::string& uuid) { return holders_in(use_, uuid); });
    MigGpuReport one;
    one.index = gpu.index;
    one.uuid = gpu.uuid;
    for (const auto& instance : gpu.instances) ++one.instances[profile_name(gpu.profiles, instance.profile_id)];
    one.now = gpu.capable ? layout_text(gpu) : "no MIG";
    report_.gpus.push_back(std::move(one));
  }
  if (name.empty()) {
    withdraw({});
    return state("idle", "NoConfig",
                 std::string("the node has no label ") + kMigConfigLabel + " and there is no default configuration");
  }
  std::string why;
  const Configuration* wanted = choice_.find(reading.gpus, why);
  if (wanted == nullptr) return failed("BadConfig", why);
  decide(reading, *wanted);
}

void MigManager::decide(const MigDriver::Reading& reading, const Configuration& wanted) {
  const Plan whole = make_plan(wanted, reading.gpus);
  if (const auto errors = texts_of(whole.problems, Severity::kError); !errors.empty())
    return failed("NotPossible", errors);
  if (auto warnings = texts_of(whole.problems, Severity::kWarning); warnings != warned_) {
    warned_ = std::move(warnings);
    if (!warned_.empty()) log::warning("mig.config_warnings", {{"config", report_.config}, {"what", warned_}});
  }

  std::map<std::string, std::string> devices;
  silent_ = join(reading.silent, "; ");
  std::vector<const GpuPlan*> blocked;
  std::vector<MigDriver::Work> work;
  bool all = true;
  for (const auto& plan : whole.gpus) {
    if (!plan.matched) continue;
    const std::string& uuid = plan.now.uuid;
    if (plan.as_wanted) {
      blocked_since_.erase(uuid);
      continue;
    }
    all = false;
    const auto report = std::ranges::find(report_.gpus, uuid, &MigGpuReport::uuid);
    report->target = layout_text(plan.after);
    const std::string reason = "the MIG manager repartitions " + gpu_name(plan.now.index) + " for the configuration " +
                               report_.config + "; this device has to go";
    std::map<std::string, std::string> here;
    for (const auto& device : devices_of(plan)) here[device] = reason;
    devices.insert(here.begin(), here.end());
    if (!plan.blockers.empty()) {
      waiting_devices_.merge(here);
      blocked.push_back(&plan);
      for (const auto& blocker : plan.blockers)
        for (const auto& holder : blocker.holders) report->waits_for.push_back(holder.who);
      blocked_since_.try_emplace(uuid, loop_.now());
    } else {
      blocked_since_.erase(uuid);
      work.push_back({plan.after});
    }
  }
  if (all && silent_.empty()) return succeed();
  if (all) {
    report_changed();
    return failed("GpuSilent",
                  silent_ + "; the other GPUs are partitioned as the configuration " + report_.config + " asks");
  }

  if (report_.state == "success") began_ = loop_.now();  // as after a reboot
  if (report_.state != "failed" || !begun_) {
    state("pending", "Applying", "the GPUs are being partitioned for the configuration " + report_.config);
    state_label_->want("pending");
  }
  if (!state_label_->settled()) {  // watchers of the label see "pending" before anything changes
    return wait_in(Phase::kWriting);
  }
  if (withdraw(std::move(devices)) || (!withdrawn_.empty() && use_.asked < withdrawn_at_)) {
    wait_in(Phase::kAsking);
    return callbacks_.ask_use();
  }
  evict(blocked);
  if (!work.empty() && callbacks_.make_way && !way_is_made_) {
    phase_ = Phase::kMakingWay;
    return callbacks_.make_way([this] {
      if (phase_ != Phase::kMakingWay) return;
      way_is_made_ = true;
      idle();
    });
  }
  if (!work.empty()) return apply(std::move(work));
  wait_for(blocked);
}

// true: devices are withdrawn that were not before, and kubelet may just have given one of them away.
bool MigManager::withdraw(std::map<std::string, std::string> devices) {
  if (devices == withdrawn_) return false;
  const bool more = std::ranges::any_of(devices, [&](const auto& one) { return !withdrawn_.contains(one.first); });
  withdrawn_ = std::move(devices);
  if (more) withdrawn_at_ = loop_.now();
  callbacks_.changed();
  return more;
}

void MigManager::wait_for(const std::vector<const GpuPlan*>& blocked) {
  std::vector<std::string> sentences;
  for (const auto* plan : blocked)
    for (const auto& blocker : plan->blockers) {
      sentences.push_back(gpu_name(plan->now.index) + ": " + blocker.what + " is used by " + list_of(blocker.holders));
      if (!plan->fits_beside.empty()) sentences.back() += "; beside it " + plan->fits_beside;
    }
  if (!silent_.empty()) sentences.push_back(silent_);
  if (report_waiting("waits: " + join(sentences, "; ")))
    log::info("mig.waiting", {{"config", report_.config}, {"for", join(sentences, "; ")}});
  callbacks_.ask_use();  // kubelet may list an ended pod for a moment longer than the API server
  again_in(waits_.next());
}

// False: it has been reported.
bool MigManager::report_waiting(const std::string& message) {
  state("pending", "Waiting", message);
  if (std::exchange(reported_waiting_, message) == message) return false;
  callbacks_.emit_on_node(kube::kMigWaiting, message);
  return true;
}

void MigManager::evict(const std::vector<const GpuPlan*>& blocked) {
  std::vector<Holder> pods;
  const Duration after = settings_.options.evict_after;
  if (after > Duration::zero() && use_.unknown.empty()) {
    for (const auto* plan : blocked) {
      if (loop_.now() - blocked_since_[plan->now.uuid] < after) continue;
      for (const auto& device : devices_of(*plan)) {
        const auto users = use_.users.find(device);
        if (users == use_.users.end()) continue;
        for (const Holder& user : users->second)
          if (!user.pod.empty()) pods.push_back(user);
      }
    }
  }
  evictions_->want(pods);
}

void MigManager::apply(std::vector<MigDriver::Work> work) {
  phase_ = Phase::kApplying;
  begun_ = true;
  for (const auto& one : work)
    log::info("mig.applying",
              {{"gpu", one.target.uuid}, {"config", report_.config}, {"target", layout_text(one.target)}});
  driver_.apply(callbacks_.driver(), std::move(work),
                [this](const std::vector<MigDriver::Done>& all) { on_applied(all); });
}

void MigManager::on_applied(const std::vector<MigDriver::Done>& all) {
  std::vector<std::string> problems;
  const GpuState* reset_wanted = nullptr;
  std::string in_use;
  for (const auto& [work, outcome, none] : all) {  // none: no partitions
    const std::string gpu = gpu_name(work.target.index);
    log::info("mig.applied", {{"gpu", work.target.uuid},
                              {"steps", join(outcome.steps, "; ")},
                              {"now", layout_text(outcome.now)},
                              {"why", outcome.why}});
    switch (outcome.what) {
      case MigOutcome::What::kDone:
        ++report_.changes;
        changed_gpus_.push_back(gpu + ": " + layout_text(work.target));
        break;
      case MigOutcome::What::kFailed:
        ++report_.failures;
        problems.push_back(gpu + ": " + outcome.why +
                           (outcome.left.empty() ? "" : "; it is partitioned into: " + outcome.left));
        break;
      case MigOutcome::What::kNeedsReset:
        reset_wanted = &work.target;
        break;
      case MigOutcome::What::kInUse:
        in_use = gpu + ": " + outcome.why;
        break;
      case MigOutcome::What::kStopped:
        break;
    }
  }
  if (!problems.empty()) {
    callbacks_.rescan();
    return failed("Failed", join(problems, "; "));
  }
  if (reset_wanted != nullptr) return reset(*reset_wanted);
  if (!in_use.empty()) {
    phase_ = Phase::kIdle;
    (void)report_waiting(in_use);
    callbacks_.rescan();
    return again_in(callbacks_.make_way ? retries_.next() : waits_.next());
  }
  wait_in(Phase::kScanning);
  callbacks_.rescan();
}

void MigManager::reset(const GpuState& gpu) {
  const std::string what = gpu_name(gpu.index) + " needs a reset for its MIG mode";
  const std::string remedy =
      "; when nothing uses it, run `nvidia-smi --gpu-reset -i " + gpu.uuid + "` on the node, or restart the node";
  if (!settings_.options.may_reset) return failed("NeedsReset", what + remedy);
  if (!reset_tried_.insert(gpu.uuid).second)
    return failed("NeedsReset", what + ", and one has not changed it" + remedy);
  state("pending", "NeedsReset", what);
  log::info("mig.reset", {{"gpu", gpu.uuid}});
  phase_ = Phase::kResetting;
  callbacks_.driver_is_ours(false);
  resetter_ = os::Worker::start();
  resetter_->run(loop_, [this, uuid = gpu.uuid, what, remedy, root = callbacks_.driver().driver_root,
                         environment = settings_.environment] {
    return [this, uuid, what, remedy, status = reset_gpu(root, uuid, environment)] {
      callbacks_.driver_is_ours(true);
      if (!status) return failed("NeedsReset", what + ", which failed: " + to_string(status.error()) + remedy);
      log::info("mig.reset_done", {{"gpu", uuid}});
      idle();
    };
  });
}

void MigManager::succeed() {
  if (!changed_gpus_.empty()) report_.last_change = loop_.now() - began_;
  evictions_->want({});
  blocked_since_.clear();
  retries_.reset();
  waits_.reset();
  report_changed();
  begun_ = false;
  reported_waiting_.clear();
  state_label_->want("success");
  withdraw({});
  state("success", "AsLabelled", "the GPUs are partitioned as the configuration " + report_.config + " asks");
  again_in(kLookAgain);
  not_before_ = {};  // whatever changes the GPUs is put right at once
}

void MigManager::report_changed() {
  if (changed_gpus_.empty()) return;
  callbacks_.emit_on_node(kube::kMigChanged, report_.config + ": " + join(changed_gpus_, "; "));
  changed_gpus_.clear();
}

// Devices that the change of one GPU waits for get no new pods, whatever becomes of other GPUs.
void MigManager::failed(const std::string& reason, std::string message) {
  phase_ = Phase::kIdle;
  evictions_->want({});
  withdraw(waiting_devices_);
  if (report_.state != "failed" || report_.message != message) {
    log::error("mig.failed", {{"config", report_.config}, {"why", message}});
    callbacks_.emit_on_node(kube::kMigFailed, report_.config + ": " + message);
  }
  state_label_->want("failed");
  state("failed", reason.c_str(), std::move(message));
  again_in(retries_.next());
}

void MigManager::state(const char* state, const char* reason, std::string message) {
  if (std::string_view(state) != "pending" || std::string_view(reason) == "Waiting") way_is_made_ = false;
  report_.state = state;
  report_.reason = reason;
  report_.message = std::move(message);
  callbacks_.changed();
}

kube::NodeCondition MigManager::condition() const {
  return {.ready = report_.state == "success" || report_.state == "idle" || report_.state == "off",
          .reason = report_.reason,
          .message = report_.message,
          .type = std::string(kube::kMigCondition)};
}

}  // namespace tranche::mig
