#include "mps/keeper/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/version.h"
#include "mps/relay/relay_packet.h"
#include "os/files/files.h"
#include "os/log/log.h"
#include "os/socket/unix_socket.h"

namespace tranche::mps {
namespace {

constexpr const char* kKeeperSocket = "/keeper.sock";
constexpr const char* kKeeperLog = "/keeper.log";
constexpr const char* kNotHeld = "a client that dies and is not held can end the clients beside it";
constexpr Duration kKeeperAnswers = std::chrono::seconds(5);
constexpr int kKeeperEndsMs = 15'000;  // its patience, and the driver's

std::string keeper_program() {
  const auto self = os::read_link("/proc/self/exe");
  return self ? os::parts_of(*self).directory + "/tranche-keeper" : "tranche-keeper";
}

// It runs in the host's mount namespace, where our files are not, so it is started by descriptor.
Result<std::unique_ptr<os::Process>> launch_keeper(os::Loop& loop, const KeeperClientSettings& settings,
                                                   std::function<void(os::ExitNote)> on_exit) {
  const auto path = settings.program.empty() ? keeper_program() : settings.program;
  const os::Fd program(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!program) return fail_errno("cannot open the keeper's program", path);
  const auto log_path = settings.mps_root + kKeeperLog;
  const os::Fd log(::open(log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!log) return fail_errno("cannot open the keeper's log", log_path);
  const auto& root = settings.home.host ? settings.home.mps_root : settings.mps_root;
  os::Command what{.argv = {"/proc/self/fd/3", root + kKeeperSocket}};
  if (!settings.devices.empty()) what.argv.push_back(settings.devices);
  what.output = log.get();
  what.kept = program.get();
  return launch_at_home(loop, settings.home, "keeper", std::move(what), std::move(on_exit));
}

// Of the processes that have had this pid, oldest first.
auto of_pid(auto& processes, int pid) {
  return std::ranges::subrange(processes.lower_bound({pid, 0}), processes.lower_bound({pid + 1, 0}));
}

// pid 0: none.
Peer listening_at(const std::string& socket) {
  const auto connection = os::connect_to(socket);
  return connection ? peer_of(connection->get()) : Peer();
}

}  // namespace

Keeper::Keeper(os::Loop& loop, KeeperClientSettings settings, std::function<void()> on_change)
    : loop_(loop),
      settings_(std::move(settings)),
      on_change_(std::move(on_change)),
      backoff_(std::chrono::milliseconds(200), std::chrono::seconds(30), static_cast<std::uint64_t>(::getpid())),
      watcher_(loop, settings_.mps_root + kKeeperSocket, [this](const std::string& line) { heard(line); }),
      requests_(loop, settings_.mps_root + kKeeperSocket) {}

void Keeper::hold(int pid, const std::string& owner) {
  const auto process = os::process_ref(pid);
  if (!process) return;
  if (!connected_) forget_exited();
  clients_[*process].owner = owner;
  if (is_absent()) start();
  if (!connected_) return;
  request_hold(*process);
}

void Keeper::look(int pid) {
  if (!connected_) return;
  for (const auto& [process, client] : of_pid(clients_, pid)) request_hold(process);
}

void Keeper::exited(int pid, bool with_contexts) {
  const auto all = of_pid(clients_, pid);
  if (all.empty()) return;
  auto& client = std::prev(all.end())->second;
  client.exited = true;
  client.with_contexts = with_contexts;
}

void Keeper::request_hold(const os::ProcessRef& process) {
  requests_.request(to_json(KeeperRequest(HoldRequest{process, clients_.at(process).owner})), kKeeperAnswers,
                    [this, process](const Result<std::string>& reply) {
                      const auto why = reply ? text_at(json_of(*reply), "error") : to_string(reply.error());
                      const auto client = clients_.find(process);
                      const bool other = client != clients_.end() && std::exchange(client->second.refused, why) != why;
                      report_not_held();
                      if (other) on_change_();
                    });
}

void Keeper::heard(const std::string& line) {
  auto status = line.empty() ? Result<KeeperStatus>(fail(Kind::kUnavailable, "the keeper does not answer"))
                             : read_keeper_status(line);
  const bool was_connected = std::exchange(connected_, status.has_value());
  if (!status) {
    status_ = {};
    if (problem_.empty()) problem_ = status.error().what;
    if (was_connected)
      log::warning("keeper.silent", {{"why", status.error()}, {"clients", clients_.size()}, {"effect", kNotHeld}});
    await_answer(0);
    if (!clients_.empty()) start();
    return on_change_();
  }
  problem_.clear();
  silent_.stop();
  if (status->changes) status->clients.merge(status_.clients);  // those that are in both have changed
  status_ = *std::move(status);
  if (status_.version != kVersion && !was_connected) {
    log::info("keeper.replaced", {{"version", status_.version}});
    requests_.request(to_json(KeeperRequest(EndRequest{})), kKeeperAnswers, [](const auto&) {});
    return;
  }
  std::erase_if(status_.clients, [](const auto& each) { return each.second.state == HeldState::kReleased; });
  for (const auto& [process, held] : status_.clients)
    if (held.state == HeldState::kDead && clients_.contains(process)) clients_[process].exited = true;
  forget_exited();
  for (const auto& [process, client] : clients_)  // it may have room for one that it has refused
    if (!status_.clients.contains(process) && (!was_connected || !client.refused.empty())) request_hold(process);
  report_not_held();
  on_change_();
}

// A keeper that runs and does not answer would keep the next one out. One that has just been started gets time.
void Keeper::await_answer(pid_t suspect) {
  silent_.start(settings_.silence / 2, [this, suspect] {
    const auto keeper = listening_at(settings_.mps_root + kKeeperSocket);
    await_answer(keeper.sender.pid);
    if (keeper.sender.pid != suspect || !keeper.pidfd) return;
    if (::syscall(SYS_pidfd_send_signal, keeper.pidfd.get(), SIGKILL, nullptr, 0) != 0) return;
    log::error("keeper.killed", {{"pid", keeper.sender.pid}, {"why", "it does not answer"}, {"effect", kNotHeld}});
    if (clients_.empty()) return;
    backoff_.reset();
    retry_.stop();
    start();
  });
}

// At most once a minute: a tenant can cause it.
void Keeper::report_not_held() {
  if (reported_.running()) return;
  std::pair<os::ProcessRef, std::string> first;
  const auto refused = std::ranges::find_if(clients_, [](const auto& each) { return !each.second.refused.empty(); });
  if (refused != clients_.end()) first = {refused->first, refused->second.refused};
  for (const auto& [held, client] : status_.clients)
    if (client.state == HeldState::kHeld && !client.problem.empty()) first = {held, client.problem};
  const auto& [process, why] = first;
  if (why.empty()) return;
  const auto client = clients_.find(process);
  log::warning("keeper.not_held", {{"pid", process.pid},
                                   {"grant", client == clients_.end() ? "" : client->second.owner},
                                   {"why", why},
                                   {"effect", kNotHeld}});
  reported_.start(std::chrono::minutes(1), [] {});
}

// Clients that have exited and that the keeper does not hold.
void Keeper::forget_exited() {
  std::erase_if(clients_, [this](const auto& each) {
    if (status_.clients.contains(each.first)) return false;
    return each.second.exited || os::process_ref(each.first.pid) != each.first;
  });
}

// A keeper that exits or does not answer is started again after a back-off.
void Keeper::start() {
  if (retry_.running()) return;
  retry_.start(backoff_.next(), [this] {
    if (connected_) return backoff_.reset();
    start();
  });
  if (process_ && process_->running()) return;
  auto launched = launch_keeper(loop_, settings_, [this](const os::ExitNote& note) {
    problem_ = "the keeper " + os::to_string(note);
    log::error("keeper.ended", {{"why", problem_}, {"effect", kNotHeld}});
    if (!clients_.empty()) start();
  });
  if (launched) {
    process_ = *std::move(launched);
    log::info("keeper.started", {{"pid", process_->ref().pid}});
  } else if (problem_ != to_string(launched.error())) {
    problem_ = to_string(launched.error());
    log::error("keeper.not_started", {{"why", problem_}});
  }
}

Protection Keeper::of(int pid) const {
  if (is_absent()) return {Protection::State::kNo, problem_};
  for (const auto& [process, client] : of_pid(status_.clients, pid)) {
    if (client.state == HeldState::kDead) continue;
    if (!client.problem.empty()) return {Protection::State::kNo, client.problem};
    if (client.state == HeldState::kHeld) return {Protection::State::kYes, ""};
    break;
  }
  for (const auto& [process, client] : of_pid(clients_, pid))
    if (!client.refused.empty()) return {Protection::State::kNo, client.refused};
  return {Protection::State::kStarting, "the keeper is still duplicating its descriptors"};
}

void end_keeper(const std::string& mps_root, bool wait) {
  const auto path = mps_root + kKeeperSocket;
  const auto keeper = listening_at(path);
  if (keeper.sender.pid == 0) return;
  (void)os::ask(path, to_json(KeeperRequest(EndRequest{})), kKeeperAnswers);
  pollfd ended{.fd = keeper.pidfd.get(), .events = POLLIN, .revents = 0};
  if (wait && keeper.pidfd) ::poll(&ended, 1, kKeeperEndsMs);
}

std::vector<int> Keeper::dead(const std::string& owner) const {
  std::vector<int> pids;
  for (const auto& [process, client] : clients_)
    if (connected_ && client.exited && client.owner == owner) pids.push_back(process.pid);
  return pids;
}

bool Keeper::keeps_memory(const std::string& owner) const {
  return connected_ && std::ranges::any_of(clients_, [&](const auto& each) {
           return each.second.with_contexts && each.second.owner == owner && each.second.refused.empty();
         });
}

}  // namespace tranche::mps
