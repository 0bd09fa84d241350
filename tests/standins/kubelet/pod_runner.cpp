#include "standins/kubelet/pod_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>

#include "base/text.h"
#include "standins/kubelet/schedule.h"

extern char** environ;

namespace tranche::sim {
namespace {

using std::chrono::steady_clock;
using State = ContainerRun::State;
using Phase = PodRun::Phase;

PodAsk ask_of(const PodRun& pod) {
  PodAsk ask{.uid = pod.uid, .pod_namespace = pod.spec.pod_namespace, .name = pod.spec.name, .containers = {}};
  for (const ContainerRun& run : pod.containers) {
    ask.containers.push_back(
        {.name = run.spec.name, .resources = run.spec.resources, .running = run.state == State::kRunning});
  }
  return ask;
}

std::string slots_of(const ContainerGrant& grant) {
  std::vector<std::string> parts;
  for (const auto& [resource, ids] : grant.slots) parts.push_back(fmt::format("{} {}", resource, join(ids, ",")));
  return join(parts, "; ");
}

}  // namespace

void say(const std::string& line) {
  std::fputs(("sim-kubelet: " + line + "\n").c_str(), stderr);
}

PodRunner::PodRunner(EventLoop& loop, Kubelet& kubelet, RunnerSettings settings)
    : loop_(loop), kubelet_(kubelet), settings_(std::move(settings)) {
  for (char** entry = environ; *entry; ++entry) image_env_.emplace_back(*entry);
  kubelet_.on_change([this] {
    if (!woken_.exchange(true)) loop_.post([this] { woken_ = false; });  // the end of the callback does the rest
  });
  loop_.after_each_turn([this] { catch_up(); });
}

PodRunner::~PodRunner() {
  kubelet_.on_change(nullptr);
  loop_.after_each_turn(nullptr);
  if (restarter_.joinable()) restarter_.join();
  kubelet_.stop();  // ends a call to a plugin in progress
  worker_.close();
  for (PodRun& pod : pods_) {
    for (ContainerRun& run : pod.containers) close_pipes(run);
  }
}

PodRun* PodRunner::find(const std::string& uid) {
  const auto found = std::ranges::find(pods_, uid, &PodRun::uid);
  return found == pods_.end() ? nullptr : &*found;
}

ContainerRun* PodRunner::find(PodRun& pod, const std::string& container) {
  const auto found =
      std::ranges::find(pod.containers, container, [](const ContainerRun& run) { return run.spec.name; });
  return found == pod.containers.end() ? nullptr : &*found;
}

// Identical in every run for the same pods.
std::string PodRunner::new_uid(const PodSpec& spec) {
  const std::string name = spec.pod_namespace + "/" + spec.name;
  const std::string hash = hex16(stable_hash(fmt::format("{}#{}", name, created_[name]++))) + hex16(stable_hash(name));
  return fmt::format("{}-{}-{}-{}-{}", hash.substr(0, 8), hash.substr(8, 4), hash.substr(12, 4), hash.substr(16, 4),
                     hash.substr(20, 12));
}

std::string PodRunner::apply(const std::vector<PodSpec>& specs) {
  std::string report;
  for (const PodSpec& spec : specs) {
    PodRun pod;
    pod.spec = spec;
    if (std::ranges::find(pods_, pod.full_name(), &PodRun::full_name) != pods_.end()) {
      report += fmt::format("pod {} unchanged\n", pod.full_name());
      continue;
    }
    withdrawn_.erase(spec.pod_namespace + "/" + spec.owner);
    pod.uid = new_uid(spec);
    for (const PodContainer& container : spec.containers) {
      pod.containers.emplace_back().spec = container;
    }
    report += fmt::format("pod {} created\n", pod.full_name());
    pods_.push_back(std::move(pod));
  }
  return report;
}

void PodRunner::schedule() {
  if (stopping_ || restarting_) return;
  Amounts allocatable;
  for (const ResourceView& view : kubelet_.views()) allocatable[view.resource] = view.allocatable;
  Amounts taken;
  for (const PodRun& pod : pods_) {
    if (!pod.bound || pod.ended()) continue;
    for (const auto& [resource, count] : asked_by(pod.spec)) taken[resource] += count;
  }
  for (PodRun& pod : pods_) {
    if (pod.bound || pod.ended() || pod.deleting) continue;
    const Amounts asked = asked_by(pod.spec);
    const std::string reason = why_not(asked, allocatable, taken);
    if (!reason.empty()) {
      pod.reason = "Unschedulable";
      pod.message = reason;
      continue;
    }
    pod.bound = true;
    pod.reason = "ContainerCreating";
    pod.message.clear();
    for (const auto& [resource, count] : asked) taken[resource] += count;
    worker_.add([this, ask = ask_of(pod), life = kubelet_life_] {
      loop_.post(
          [this, uid = ask.uid, life, admission = kubelet_.admit(ask)] { take_admission(uid, admission, life); });
    });
  }
}

void PodRunner::take_admission(const std::string& uid, const Admission& admission, unsigned life) {
  PodRun* pod = find(uid);
  if (!pod) return;
  if (!admission.admitted && life != kubelet_life_) {  // interrupted by a restart: the next kubelet admits it
    pod->bound = false;
    if (pod->deleting) terminate(*pod, Duration{});
    return;
  }
  if (!admission.admitted) {
    pod->phase = Phase::kFailed;
    pod->reason = admission.reason;
    pod->message = "Pod was rejected: " + admission.message;
    say(fmt::format("pod {} rejected: {}", pod->full_name(), admission.message));
    if (pod->deleting) settle(*pod);
    return;
  }
  pod->admitted = true;
  for (std::size_t i = 0; i < pod->containers.size(); ++i) {
    ContainerRun& run = pod->containers[i];
    run.grant = admission.containers[i];
    say(fmt::format("pod {} container {} admitted: {}", pod->full_name(), run.spec.name, slots_of(run.grant)));
    if (!pod->deleting) prepare(*pod, run);
  }
  if (pod->deleting) settle(*pod);
}

void PodRunner::terminate(PodRun& pod, Duration grace) {
  pod.deleting = true;
  if (pod.ended()) return;
  for (ContainerRun& run : pod.containers) {
    if (run.timer) loop_.cancel(*std::exchange(run.timer, std::nullopt));
    if (run.state == State::kWaiting) run.state = State::kTerminated;
    kill_group(run, grace.count() > 0 ? SIGTERM : SIGKILL);
  }
  if (!pod.bound) {
    pod.phase = Phase::kFailed;
    return;
  }
  if (pod.timer) loop_.cancel(*pod.timer);
  pod.timer = loop_.at(steady_clock::now() + grace, [this, uid = pod.uid] {
    if (PodRun* found = find(uid)) {
      for (const ContainerRun& run : found->containers) kill_group(run, SIGKILL);
    }
  });
  settle(pod);
}

std::string PodRunner::remove(const std::string& what) {
  const auto slash = what.find('/');
  std::string kind = slash == std::string::npos ? "" : what.substr(0, slash);
  if (kind == "deployment" || kind == "job") {
    kind.front() = kind == "job" ? 'J' : 'D';
    const std::string owner = kind + what.substr(slash);
    bool any = false;
    for (PodRun& pod : pods_) {
      if (pod.spec.owner != owner) continue;
      withdrawn_.insert(pod.spec.pod_namespace + "/" + owner);
      terminate(pod, std::chrono::seconds(pod.spec.grace_seconds));
      any = true;
    }
    return any ? "" : "there is no pod of " + owner;
  }
  const std::string full = slash == std::string::npos ? "default/" + what : what;
  const auto found = std::ranges::find(pods_, full, &PodRun::full_name);
  if (found == pods_.end()) return "there is no pod " + full;
  terminate(*found, std::chrono::seconds(found->spec.grace_seconds));
  return "";
}

void PodRunner::restart_kubelet(std::function<void(std::string)> when_done) {
  if (restarting_) return when_done("kubelet is restarting already");
  restarting_ = true;
  ++kubelet_life_;
  say("kubelet restarts");
  // Not on the worker, which may be waiting for a plugin: this is what ends such a wait.
  restarter_ = std::jthread([this, when_done = std::move(when_done)] {
    loop_.post([this, when_done, done = kubelet_.restart()] {
      restarting_ = false;
      if (!done) say("kubelet cannot start: " + to_string(done.error()));
      catch_up();
      when_done(done ? "" : to_string(done.error()));
    });
  });
}

void PodRunner::stop() {
  stopping_ = true;
  for (PodRun& pod : pods_) {
    const Duration grace = std::chrono::seconds(pod.spec.grace_seconds);
    terminate(pod, std::min(grace, settings_.stop_grace));
  }
}

void PodRunner::stop_hard() {
  stopping_ = true;
  for (PodRun& pod : pods_) terminate(pod, Duration{});
}

// A Deployment keeps its number of pods: a deleted one is replaced.
void PodRunner::replace(const PodSpec& spec) {
  if (stopping_ || !spec.owner.starts_with("Deployment/")) return;
  if (withdrawn_.contains(spec.pod_namespace + "/" + spec.owner)) return;
  apply({spec});
}

void PodRunner::catch_up() {
  for (std::size_t i = 0; i < pods_.size();) {
    if (!pods_[i].deleting || !pods_[i].ended() || stopping_) {
      ++i;
      continue;
    }
    const PodSpec spec = pods_[i].spec;
    say(fmt::format("pod {} deleted", pods_[i].full_name()));
    pods_.erase(pods_.begin() + static_cast<std::ptrdiff_t>(i));
    replace(spec);
  }
  schedule();
  const auto alive = [](const PodRun& pod) {
    return std::ranges::any_of(pod.containers, [](const ContainerRun& run) { return run.pid > 0; });
  };
  if (settings_.once && !stopping_ && std::ranges::all_of(pods_, &PodRun::ended)) stop();
  if (stopping_ && std::ranges::none_of(pods_, alive)) loop_.quit();
  if (settings_.state_file.empty()) return;
  std::string now = state();
  if (now == written_) return;
  const std::string beside = settings_.state_file + ".new";
  if (!(std::ofstream(beside) << now).flush() || std::rename(beside.c_str(), settings_.state_file.c_str()) != 0)
    say(to_string(error_from_errno(errno, "cannot write", settings_.state_file)));
  written_ = std::move(now);
}

std::string PodRunner::state() const {
  return state_json(kubelet_.views(), pods_, stopping_);
}

bool PodRunner::all_succeeded() const {
  return std::ranges::all_of(pods_, [](const PodRun& pod) { return pod.phase == Phase::kSucceeded; });
}

}  // namespace tranche::sim
