#include "mps/pool/client_ending.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "os/files/files.h"
#include "os/log/log.h"

namespace tranche::mps {
namespace {

constexpr int kMostWaits = 4;

}  // namespace

std::string render_ending(const EndingProcesses& processes) {
  std::string text;
  for (const auto& [pid, ticks] : processes) text += fmt::format("{} {}\n", pid, ticks);
  return text;
}

EndingProcesses parse_ending(std::string_view text) {
  EndingProcesses processes;
  for (const auto line : lines_of(text)) {
    const auto words = words_of(line);
    const auto process = words.size() == 2 ? os::parse_process(words[0], words[1]) : std::nullopt;
    if (process) processes.insert(*process);
  }
  return processes;
}

// One termination.
class Endings::Ending {
 public:
  Ending(Endings& all, std::uint64_t id, Settings settings, const std::vector<os::ProcessRef>& clients)
      : recorded(clients.begin(), clients.end()),
        all_(all),
        id_(id),
        settings_(std::move(settings)),
        timer_(all.loop_) {}
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

  void begin(const std::vector<os::ProcessRef>& clients) {
    for (const auto& ref : clients) (void)add(ref);
    stopped_ = all_.loop_.now();
    wait();
  }

  EndingProcesses recorded;  // in the file, before they are stopped
  std::vector<Done> done;

 private:
  struct Client {
    Terminated outcome;
    std::unique_ptr<os::Process> process;  // null: nothing (more) to do
  };

  // false: it is one of them already, or cannot be stopped.
  bool add(const os::ProcessRef& ref) {
    if (std::ranges::any_of(clients_, [&](const Client& each) { return each.outcome.pid == ref.pid; })) return false;
    clients_.push_back(stop(ref));
    return clients_.back().process != nullptr;
  }

  Client stop(const os::ProcessRef& ref) {
    // The relay may have spoken for a client that had exited, and the server lists it under our pid.
    if (ref.pid == ::getpid()) return {{ref.pid, TerminateOutcome::kNotAClient, "it is this program"}, nullptr};
    auto process = os::Process::adopt(all_.loop_, ref, [this, pid = ref.pid](const os::ExitNote&) { exited(pid); });
    if (!process && process.error().kind == Kind::kNotFound)
      return {{ref.pid, TerminateOutcome::kNotAClient, "the process has exited"}, nullptr};
    const auto stopped = process ? (*process)->signal(SIGSTOP) : Status(std::unexpected(process.error()));
    if (!stopped)
      return {{ref.pid, TerminateOutcome::kRefused, "cannot stop the process: " + to_string(stopped.error())}, nullptr};
    return {{.pid = ref.pid}, *std::move(process)};
  }

  std::int64_t ms_since_stop() const { return milliseconds_of(all_.loop_.now() - stopped_); }

  bool any_left() const {
    return std::ranges::any_of(clients_, [](const Client& client) { return client.process != nullptr; });
  }

  void wait() {
    ++waits_;
    timer_.start(any_left() ? settings_.patience : Duration{}, [this] {
      if (stop_those_that_came()) return wait();
      kill();
    });
  }

  bool stop_those_that_came() {
    if (!settings_.killed_with || waits_ >= kMostWaits) return false;
    std::vector<os::ProcessRef> ending;
    for (const auto& client : clients_)
      if (client.process) ending.push_back(client.process->ref());
    const auto came = settings_.killed_with(ending);
    if (!came) return false;
    recorded.insert(came->begin(), came->end());
    all_.keep();
    bool any = false;
    for (const auto& ref : *came) any = add(ref) || any;
    if (any) settings_.patience = std::max(settings_.patience, settings_.patience_with_those);
    return any;
  }

  void kill() {
    killed_ = true;
    timer_.stop();
    for (auto& client : clients_) {
      if (!client.process) continue;
      client.outcome.note = fmt::format("waited {} ms for its queued GPU work", ms_since_stop());
      (void)client.process->signal(SIGKILL);
    }
    timer_.start(settings_.exit_patience, [this] { finish(); });
    finish_if_done();
  }

  void exited(int pid) {
    const auto client = std::ranges::find(clients_, pid, [](const Client& each) { return each.outcome.pid; });
    client->process.reset();
    if (!killed_)
      client->outcome.note =
          fmt::format("the process exited {} ms after the stop, before it was killed", ms_since_stop());
    finish_if_done();
  }

  void finish_if_done() {
    if (!any_left()) timer_.start(Duration{}, [this] { finish(); });
  }

  void finish() {
    std::vector<Terminated> outcomes;
    for (auto& client : clients_) {
      if (client.process) {
        client.outcome.outcome = TerminateOutcome::kTimedOut;
        client.outcome.note =
            fmt::format("the process has not exited {} ms after SIGKILL", milliseconds_of(settings_.exit_patience));
      }
      outcomes.push_back(client.outcome);
    }
    all_.ended(id_, outcomes);
  }

  Endings& all_;
  std::uint64_t id_;
  Settings settings_;
  std::vector<Client> clients_;
  MonoTime stopped_{};
  bool killed_ = false;
  int waits_ = 0;
  os::Timer timer_;
};

// --- all that are in progress ----------------------------------------------------------------------------------------

Endings::Endings(os::Loop& loop, std::optional<os::Dir> root) : loop_(loop), root_(std::move(root)) {
  if (!root_) return;
  auto file = os::read_kept(*root_, kEndingFile);
  lost_ = std::move(file.lost);
  const std::string text = file.text.value_or("");
  left_ = parse_ending(text);
  if (lost_.empty() && render_ending(left_) != text)
    lost_ = os::put_aside(*root_, kEndingFile, "it has lines that are no process's");
  written_ = left_;
}

Endings::~Endings() = default;

void Endings::begin(Settings settings, const std::vector<os::ProcessRef>& clients, Done done) {
  for (auto& [id, ending] : endings_) {
    const auto is_ending = [&](const os::ProcessRef& ref) { return ending->recorded.contains(ref); };
    if (!clients.empty() && std::ranges::all_of(clients, is_ending)) return ending->done.push_back(std::move(done));
  }
  const std::uint64_t id = ++last_;
  auto& ending = *(endings_[id] = std::make_unique<Ending>(*this, id, std::move(settings), clients));
  ending.done.push_back(std::move(done));
  keep();
  ending.begin(clients);
}

void Endings::ended(std::uint64_t id, const std::vector<Terminated>& outcomes) {
  const auto ending = endings_.extract(id);  // keeps it until this callback returns
  keep();
  for (const auto& each : ending.mapped()->done) each(outcomes);
}

void Endings::finish_left(Settings settings, Done done) {
  std::vector<os::ProcessRef> clients;
  for (const auto& ref : std::exchange(left_, {}))
    if (os::runs(ref)) clients.push_back(ref);
  if (const auto more = settings.killed_with ? settings.killed_with(clients) : std::nullopt)
    clients.insert(clients.end(), more->begin(), more->end());
  begin(std::move(settings), clients, std::move(done));
}

void Endings::keep() {
  if (!root_) return;
  EndingProcesses all = left_;
  for (const auto& [id, ending] : endings_) all.insert(ending->recorded.begin(), ending->recorded.end());
  if (all == written_) return;
  const Status written =
      all.empty() ? root_->remove(kEndingFile) : os::write_kept(*root_, kEndingFile, render_ending(all), 0600);
  written_ = std::move(all);
  if (!written)
    log::warning("ending.not_written",
                 {{"why", written.error()},
                  {"what", "if tranche mps is killed before these clients have ended, their processes stay stopped"}});
}

}  // namespace tranche::mps
