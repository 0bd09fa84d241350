#include "mps/pool/client_ending.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace tranche::host {
namespace {

using mps::TerminateOutcome;

constexpr int kMostWaits = 4;

std::chrono::milliseconds in_ms(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration);
}

}  // namespace

ClientEnding::ClientEnding(Loop& loop, Settings settings, const std::vector<ProcessRef>& clients, Done done)
    : loop_(loop), settings_(settings), done_(std::move(done)) {
  for (const auto& ref : clients) {
    const auto known = std::ranges::find(clients_, ref.pid, [](const Client& each) { return each.outcome.pid; });
    if (known != clients_.end()) continue;
    clients_.push_back({{.pid = ref.pid}, nullptr});
    stop(clients_.back(), ref);
  }
  stopped_ = loop_.now();
  wait();
}

void ClientEnding::stop(Client& client, const ProcessRef& ref) {
  // The relay may have spoken for a client that had exited, and the server lists it under our pid.
  if (ref.pid == ::getpid()) {
    client.outcome.outcome = TerminateOutcome::kNotAClient;
    client.outcome.note = "it is this program";
    return;
  }
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

void ClientEnding::wait() {
  ++waits_;
  const bool any = std::ranges::any_of(clients_, [](const Client& client) { return client.process != nullptr; });
  timer_.start(any ? settings_.patience : Duration{}, [this] { wait_is_over(); });
}

void ClientEnding::wait_is_over() {
  if (stop_those_that_came()) return wait();
  kill();
}

bool ClientEnding::stop_those_that_came() {
  if (!settings_.killed_with || waits_ >= kMostWaits) return false;
  std::vector<ProcessRef> ending;
  for (const auto& client : clients_)
    if (client.process) ending.push_back(client.process->ref());
  const auto came = settings_.killed_with(ending);
  if (!came) return false;
  bool any = false;
  for (const auto& ref : *came) {
    const auto known = std::ranges::find(clients_, ref.pid, [](const Client& each) { return each.outcome.pid; });
    if (known != clients_.end()) continue;
    clients_.push_back({{.pid = ref.pid}, nullptr});
    stop(clients_.back(), ref);
    any = any || clients_.back().process != nullptr;
  }
  if (any) settings_.patience = std::max(settings_.patience, settings_.patience_with_those);
  return any;
}

void ClientEnding::kill() {
  killed_ = true;
  timer_.stop();
  const auto waited = in_ms(loop_.now() - stopped_);
  for (auto& client : clients_) {
    if (!client.process) continue;
    client.outcome.waited = waited;
    client.outcome.note = fmt::format("waited {} ms for its queued GPU work", waited.count());
    (void)client.process->signal(SIGKILL);
  }
  timer_.start(settings_.exit_patience, [this] { finish(); });
  finish_if_done();
}

void ClientEnding::exited(int pid) {
  const auto client = std::ranges::find(clients_, pid, [](const Client& each) { return each.outcome.pid; });
  client->process.reset();
  if (!killed_) {
    client->outcome.waited = in_ms(loop_.now() - stopped_);
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
