#include "doctor/verify/live/looks.h"

#include <utility>

namespace tranche::doctor {
namespace {

constexpr std::size_t kLongestOutput = 64 << 10;
constexpr int kBySignal = 128;
// A CUDA start, a context, the kernels, and what it was asked to do; each stage has the probe's own deadline.
constexpr Duration kLongestProbe = std::chrono::seconds(300);
constexpr Duration kLongestWait = std::chrono::seconds(60);  // a CUDA start, or the keeper's 5 s, on a busy node
constexpr Duration kQueueRunsOut = std::chrono::seconds(2);  // of a probe that was stopped

}  // namespace

Probes::Started Probes::start(const GrantHere& grant, const std::vector<std::string>& words,
                              const std::map<std::string, std::string>& more) {
  Started probe(new Running{.timer = os::Timer(loop_)});
  os::Command command{.argv = {"/proc/self/exe", "probe", "--json"},
                      .env = environment_,
                      .kill_on_drop = true,
                      .die_with_parent = true};
  command.argv.insert(command.argv.end(), words.begin(), words.end());
  for (const auto& [name, value] : grant.env) command.env[name] = value;
  for (const auto& [name, value] : more) command.env[name] = value;
  if (place_ == ProbePlace::kOwnNamespace) {
    command.argv.insert(command.argv.end(), {"--endpoint", grant.endpoint});
  } else {
    command.env["CUDA_MPS_PIPE_DIRECTORY"] = grant.endpoint;
  }
  Running* self = probe.get();
  auto process = os::Process::start(
      loop_, command,
      [this, self](const std::string& line) {
        if (line == "computing") {
          self->computes = true;
          loop_.stop();
        }
        if (self->run.output.size() < kLongestOutput) self->run.output += line + '\n';
      },
      [this, self](os::ExitNote note) {
        self->ended = true;
        self->run.status = note.signalled ? kBySignal + note.code : note.code;
        loop_.stop();
      });
  if (!process) {
    probe->ended = true;
    probe->run.not_started = to_string(process.error());
    return probe;
  }
  probe->process = *std::move(process);
  probe->timer.start(kLongestProbe, [self] {
    self->run.timed_out = true;
    // Killed with work in flight it would take its neighbours along.
    (void)self->process->signal(SIGSTOP);
    self->timer.start(kQueueRunsOut, [self] { (void)self->process->signal(SIGKILL); });
  });
  return probe;
}

// The loop stops at the end of any probe.
ProbeRun Probes::wait(const Started& probe) {
  while (!probe->ended) loop_.run();
  return probe->run;
}

ProbeRun Probes::end(const Started& probe, int signal) {
  if (probe->process) (void)probe->process->signal(signal);
  return wait(probe);
}

bool Probes::until(const std::function<bool()>& so) {
  bool late = false;
  os::Timer timer(loop_);
  timer.start(kLongestWait, [&] {
    late = true;
    loop_.stop();
  });
  while (!so() && !late) loop_.run();
  return so();
}

ProbeRun Probes::run(const GrantHere& grant, const std::vector<std::string>& words,
                     const std::map<std::string, std::string>& more) {
  return wait(start(grant, words, more));
}

}  // namespace tranche::doctor
