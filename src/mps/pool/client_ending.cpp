#include "mps/pool/client_ending.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <utility>

namespace tranche::host {
namespace {

using mps::TerminateOutcome;

constexpr int kMostStops = 3;

std::chrono::milliseconds in_ms(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration);
}

bool runs_again(const Process& process) {
  const auto sight = look_at_process(process.ref().pid);
  // 't': a tracer holds it, which stops it as well. 'D': it is in a driver call and stops when the call returns. 'Z',
  // 'X': it has exited.
  return sight && sight->ref == process.ref() && std::string_view("TtDZX").find(sight->state) == std::string_view::npos;
}

}  // namespace

ClientEnding::ClientEnding(Loop& loop, Settings settings, const EndedProcesses& processes, Done done)
    : loop_(loop), settings_(settings), done_(std::move(done)) {
  for (const auto& ref : processes.clients) {
    const auto known = std::ranges::find(clients_, ref.pid, [](const Client& each) { return each.outcome.pid; });
    if (known != clients_.end()) continue;
    clients_.push_back({{.pid = ref.pid}, nullptr});
    stop(clients_.back(), ref);
  }
  for (const auto& ref : processes.companions)
    if (std::ranges::find(processes.clients, ref) == processes.clients.end()) hold(ref);
  first_stopped_ = loop_.now();
  wait();
}

void ClientEnding::stop(Client& client, const ProcessRef& ref) {
  auto process = Process::adopt(loop_, ref, [this, pid = ref.pid](const ExitNote&) { exited(pid); });
  if (!process && process.error().kind == Kind::kNotFound) {
    client.outcome.outcome = TerminateOutcome::kNotAClient;
    client.outcome.note = "the process has exited";
    return;
  }
  const auto stopped = process ? (*process)->signal(SIGSTOP) : Status(std::unexpected(process.error()));
  if (!stopped) {
    client.outcome.outcome = TerminateOutcome::kRefused;
    client.outcome.note = "cannot stop the process: " + to_string(stopped.error());
    return;
  }
  client.process = *std::move(process);
}

void ClientEnding::hold(const ProcessRef& ref) {
  auto process = Process::adopt(loop_, ref, [](const ExitNote&) {});
  if (process && (*process)->signal(SIGSTOP)) companions_.push_back(*std::move(process));
}

// A signal is delivered when the process runs next, well below a millisecond; its state is checked before the kill.
void ClientEnding::wait() {
  ++stops_;
  stopped_ = loop_.now();
  const bool any = std::ranges::any_of(clients_, [](const Client& client) { return client.process != nullptr; });
  timer_.start(any ? settings_.patience : Duration{}, [this] { wait_is_over(); });
}

void ClientEnding::wait_is_over() {
  if (stop_those_that_run_again()) return wait();
  kill();
}

bool ClientEnding::stop_those_that_run_again() {
  if (stops_ > kMostStops) return false;
  bool again = false;
  const auto stop_again = [&again](Process* process) {
    if (process == nullptr || !runs_again(*process)) return;
    (void)process->signal(SIGSTOP);
    again = true;
  };
  for (const auto& client : clients_) stop_again(client.process.get());
  for (const auto& companion : companions_) stop_again(companion.get());
  return again;
}

void ClientEnding::kill() {
  killed_ = true;
  timer_.stop();
  const auto waited = in_ms(loop_.now() - first_stopped_);
  for (auto& client : clients_) {
    if (!client.process) continue;
    client.outcome.waited = waited;
    client.outcome.note = fmt::format("waited {} ms for its queued GPU work", waited.count());
    if (stops_ > 1) client.outcome.note += fmt::format("; it was continued meanwhile and stopped {} times", stops_);
    (void)client.process->signal(SIGKILL);
  }
  timer_.start(settings_.exit_patience, [this] { finish(); });
  finish_if_done();
}

void ClientEnding::exited(int pid) {
  const auto client = std::ranges::find(clients_, pid, [](const Client& each) { return each.outcome.pid; });
  client->process.reset();
  if (!killed_) {
    client->outcome.waited = in_ms(loop_.now() - first_stopped_);
    client->outcome.note =
        fmt::format("the process exited {} ms after the stop, before it was killed", client->outcome.waited.count());
  }
  finish_if_done();
}

void ClientEnding::finish_if_done() {
  if (std::ranges::any_of(clients_, [](const Client& client) { return client.process != nullptr; })) return;
  timer_.start(Duration{}, [this] { finish(); });
}

void ClientEnding::finish() {
  for (const auto& companion : companions_) (void)companion->signal(SIGCONT);
  companions_.clear();
  std::vector<mps::Terminated> outcomes;
  for (auto& client : clients_) {
    if (client.process) {
      client.outcome.outcome = TerminateOutcome::kTimedOut;
      client.outcome.note =
          fmt::format("the process has not exited {} ms after SIGKILL", in_ms(settings_.exit_patience).count());
    }
    outcomes.push_back(client.outcome);
  }
  if (const auto done = std::exchange(done_, {})) done(std::move(outcomes));
}

}  // namespace tranche::host
