// The containers of the pods: from a grant to a process, its output, its exit and its restart.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "standins/kubelet/pod_runner.h"

namespace tranche::sim {
namespace {

using std::chrono::steady_clock;
using State = ContainerRun::State;
using Phase = PodRun::Phase;

constexpr std::size_t kLongestLine = 16384;
constexpr Duration kCalmAfter = std::chrono::minutes(10);  // a run of this length resets the back-off, as in kubelet

bool restarts(RestartPolicy policy, int code) {
  return policy == RestartPolicy::kAlways || (policy == RestartPolicy::kOnFailure && code != 0);
}

int code_of(const siginfo_t& info) {
  return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

}  // namespace

void PodRunner::prepare(PodRun& pod, ContainerRun& run) {
  run.state = State::kStarting;
  run.timer.reset();
  worker_.add([this, uid = pod.uid, name = run.spec.name] {
    loop_.post([this, uid, name, grant = kubelet_.start_container(uid, name)] {
      PodRun* found = find(uid);
      ContainerRun* container = found ? find(*found, name) : nullptr;
      if (container) start(*found, *container, grant);
    });
  });
}

void PodRunner::start(PodRun& pod, ContainerRun& run, const Result<ContainerGrant>& grant) {
  if (pod.deleting || stopping_) {
    run.state = State::kTerminated;
    settle(pod);
    return;
  }
  if (!grant) {  // kubelet retries whatever the restart policy: the container does not exist yet
    run.state = State::kWaiting;
    run.reason = "CreateContainerConfigError";
    run.message = to_string(grant.error());
    say(fmt::format("pod {} container {}: {}", pod.full_name(), run.spec.name, run.message));
    wait_and_restart(pod, run);
    return;
  }
  run.grant = *grant;
  run.start_error.clear();
  run.started = steady_clock::now();
  const auto command = container_command(run.spec, run.grant, image_env_, settings_.mode);
  const auto started = start_process(command, run.grant, settings_.mode);
  if (!started) {
    run.start_error = to_string(started.error());
    container_ended(pod, run, 128);
    return;
  }
  run.state = State::kRunning;
  run.reason.clear();
  run.message.clear();
  run.pid = started->pid;
  run.output_fd = started->output_fd;
  run.error_fd = started->error_fd;
  loop_.watch(run.output_fd, [this, uid = pod.uid, name = run.spec.name] { read_output(uid, name); });
  loop_.watch(run.error_fd, [this, uid = pod.uid, name = run.spec.name] { read_start_error(uid, name); });
  settle(pod);
}

void PodRunner::take_line(ContainerRun& run, std::string line) {
  if (is_json_object(line)) run.last_json = line;
  run.output.push_back(std::move(line));
  while (run.output.size() > settings_.output_lines) run.output.pop_front();
}

void PodRunner::read_output(const std::string& uid, const std::string& container) {
  PodRun* pod = find(uid);
  ContainerRun* run = pod ? find(*pod, container) : nullptr;
  if (!run || run->output_fd < 0) return;
  std::array<char, 16384> buffer;
  ssize_t got = 0;
  for (int turn = 0; turn < 64 && (got = ::read(run->output_fd, buffer.data(), buffer.size())) > 0; ++turn) {
    run->unfinished_line.append(buffer.data(), static_cast<std::size_t>(got));
    std::size_t begin = 0;
    for (auto end = run->unfinished_line.find('\n'); end != std::string::npos;
         end = run->unfinished_line.find('\n', begin)) {
      take_line(*run, run->unfinished_line.substr(begin, end - begin));
      begin = end + 1;
    }
    run->unfinished_line.erase(0, begin);
    if (run->unfinished_line.size() > kLongestLine) take_line(*run, std::exchange(run->unfinished_line, {}));
  }
  if (got == 0) {
    loop_.forget(run->output_fd);
    ::close(std::exchange(run->output_fd, -1));
  }
}

void PodRunner::read_start_error(const std::string& uid, const std::string& container) {
  PodRun* pod = find(uid);
  ContainerRun* run = pod ? find(*pod, container) : nullptr;
  if (!run || run->error_fd < 0) return;
  std::array<char, 4096> buffer;
  ssize_t got = 0;
  while ((got = ::read(run->error_fd, buffer.data(), buffer.size())) > 0) {
    run->start_error.append(buffer.data(), static_cast<std::size_t>(got));
  }
  if (got == 0) {
    loop_.forget(run->error_fd);
    ::close(std::exchange(run->error_fd, -1));
  }
}

void PodRunner::close_pipes(ContainerRun& run) {
  for (int* fd : {&run.output_fd, &run.error_fd}) {
    if (*fd < 0) continue;
    loop_.forget(*fd);
    ::close(std::exchange(*fd, -1));
  }
}

void PodRunner::kill_group(const ContainerRun& run, int signal) {
  if (run.pid > 0) ::kill(-run.pid, signal);
}

void PodRunner::reap() {
  while (true) {
    siginfo_t info{};
    // Examined before it is reaped: until then, its pid and process group cannot be reused.
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    PodRun* pod = nullptr;
    ContainerRun* run = nullptr;
    for (PodRun& candidate : pods_) {
      for (ContainerRun& container : candidate.containers) {
        if (container.pid == info.si_pid) pod = &candidate, run = &container;
      }
    }
    if (run) kill_group(*run, SIGKILL);  // a container ends with its first process
    siginfo_t collected{};
    ::waitid(P_PID, static_cast<id_t>(info.si_pid), &collected, WEXITED | WNOHANG);
    if (!run) continue;  // an orphaned grandchild that this process adopted
    read_start_error(pod->uid, run->spec.name);
    read_output(pod->uid, run->spec.name);
    container_ended(*pod, *run, code_of(info));
  }
}

void PodRunner::container_ended(PodRun& pod, ContainerRun& run, int code) {
  close_pipes(run);
  if (!run.unfinished_line.empty()) take_line(run, std::exchange(run.unfinished_line, {}));
  run.pid = 0;
  run.exit = code;
  run.state = State::kTerminated;
  run.reason = !run.start_error.empty() ? "StartError" : code == 0 ? "Completed" : "Error";
  run.message = run.start_error;
  say(fmt::format("pod {} container {} ended with {}{}{}", pod.full_name(), run.spec.name, code,
                  run.message.empty() ? "" : ": ", run.message));
  if (!pod.deleting && !stopping_ && restarts(pod.spec.restart, code)) {
    if (steady_clock::now() - run.started > kCalmAfter) run.back_off = {};
    wait_and_restart(pod, run);
  }
  settle(pod);
}

// The first restart is immediate, the second after the back-off, each further one after twice as long.
void PodRunner::wait_and_restart(PodRun& pod, ContainerRun& run) {
  const Duration wait = run.back_off;
  run.back_off = std::min(wait.count() == 0 ? settings_.back_off : wait * 2, settings_.longest_back_off);
  if (run.state == State::kTerminated) {
    ++run.restarts;
    run.state = State::kWaiting;
    if (wait.count() > 0) run.reason = "CrashLoopBackOff";
  }
  run.timer = loop_.at(steady_clock::now() + wait, [this, uid = pod.uid, name = run.spec.name] {
    PodRun* found = find(uid);
    ContainerRun* container = found ? find(*found, name) : nullptr;
    if (container && !found->deleting && !stopping_) prepare(*found, *container);
  });
}

// Derives the pod's phase from its containers' states.
void PodRunner::settle(PodRun& pod) {
  const auto all = [&](auto&& test) { return std::ranges::all_of(pod.containers, test); };
  if (pod.admitted && !pod.ended()) {
    if (all([](const ContainerRun& run) { return run.state == State::kTerminated; })) {
      const bool good = all([](const ContainerRun& run) { return run.exit == 0; });
      pod.phase = good ? Phase::kSucceeded : Phase::kFailed;
      pod.reason = good ? "" : "Error";
    } else if (std::ranges::any_of(pod.containers, [](const ContainerRun& run) { return run.pid > 0; })) {
      pod.phase = Phase::kRunning;
      pod.reason.clear();
    }
  }
  if (pod.ended() && std::exchange(pod.admitted, false)) {
    if (pod.timer) loop_.cancel(*std::exchange(pod.timer, std::nullopt));
    kubelet_.remove_pod(pod.uid);  // its slots are free, and waiting pods are checked again
    say(fmt::format("pod {} {}", pod.full_name(), pod.phase == Phase::kSucceeded ? "succeeded" : "failed"));
  }
}

}  // namespace tranche::sim
