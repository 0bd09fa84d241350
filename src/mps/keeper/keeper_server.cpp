#include "mps/keeper/keeper_server.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/version.h"
#include "os/clock/clock.h"
#include "os/files/files.h"
#include "os/process/process.h"

namespace tranche::mps {
namespace {

using namespace std::chrono_literals;

// After a request. A client opens all descriptors within 0.3 s of its first one, and those that protect its neighbours
// within 30 ms; PyTorch's first kernel runs at 0.34 s (docs/internals/evidence/deaths.md). Waits between the looks.
constexpr std::array kLooks{10ms, 15ms, 20ms, 20ms, 35ms, 50ms, 150ms, 700ms};
constexpr std::size_t kLongWaits = 6;  // from here on, a request begins another series
// A client's looks get a twentieth of the processor: a usual one has 100 descriptors, which take 0.1 ms.
constexpr Duration kWaitForEach = 20us;
constexpr Duration kBetweenLooks = 1ms;  // one that comes sooner after the last waits for a turn of the loop
// A program that opens another file at that moment does it once by chance. What a tenant makes wait stays open.
constexpr std::size_t kMostExchanged = 3;
constexpr std::size_t kMostForeign = 16;
constexpr Duration kReplaced = std::chrono::seconds(10);  // until the next keeper holds all clients

}  // namespace

Result<std::unique_ptr<KeeperServer>> KeeperServer::open(os::Loop& loop, KeeperSettings settings,
                                                         std::function<void()> ended) {
  std::unique_ptr<KeeperServer> keeper(new KeeperServer(loop, std::move(settings), std::move(ended)));
  TRY(keeper->server_,
      os::StatusServer::open(
          loop, keeper->settings_.socket,
          [raw = keeper.get()](const std::string&) { return Result<std::string>(raw->status_of_all()); }, {},
          [raw = keeper.get()](const std::string& request, const os::StatusServer::Reply& reply) {
            const auto done = raw->answer(request);
            reply(done ? Result<std::string>(R"({"ok":true})") : std::unexpected(done.error()));
          }));
  return keeper;
}

KeeperServer::KeeperServer(os::Loop& loop, KeeperSettings settings, std::function<void()> ended)
    : loop_(loop), settings_(std::move(settings)), ended_(std::move(ended)) {
  audit();
}

// If the socket is gone, the MPS root was removed and no program can reach the keeper. It then ends, as soon as it
// holds no client.
void KeeperServer::audit() {
  if (clients_.empty() && server_ && ::access(settings_.socket.c_str(), F_OK) != 0) return ended_();
  timer_.start(settings_.audit, [this] { audit(); });
}

KeeperServer::~KeeperServer() {
  for (const auto& [process, client] : clients_) loop_.cancel(client.watch);
}

Status KeeperServer::answer(const std::string& request) {
  TRY(const auto asked, read_keeper_request(request));
  if (const auto* one = std::get_if<HoldRequest>(&asked)) return hold(*one);
  timer_.start(Duration{}, [this] { end(); });  // the reply goes out first
  return {};
}

Status KeeperServer::hold(const HoldRequest& asked) {
  const os::ProcessRef process = asked.process;
  if (const auto known = clients_.find(process); known != clients_.end()) {
    auto& client = known->second;
    if (client.dead() || (client.timer.running() && client.looks <= kLongWaits)) return {};
    client.looks = 0;
    look_soon(process);
    return {};
  }
  if (clients_.size() >= settings_.clients)
    return fail(Kind::kUnavailable, "the keeper already holds as many clients as it can");
  os::Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!pidfd) return fail_errno("cannot hold a process", std::to_string(process.pid));
  // Fewer than for the descriptors of clients, so that of the last ones at least a part is held.
  if (static_cast<std::size_t>(pidfd.get()) + kFilesOfOurOwn / 2 > most_open_files())
    return fail(Kind::kUnavailable, why_no_more_files());
  if (os::process_ref(process.pid) != process)
    return fail(Kind::kNotFound, "the process has exited", std::to_string(process.pid));
  auto& client = clients_.try_emplace(process, loop_).first->second;
  client.pidfd = std::move(pidfd);
  auto& share = shares_[asked.share];
  if (!share) share = std::make_shared<Share>(loop_);
  client.share = share;
  client.watch = loop_.watch(client.pidfd.get(), EPOLLIN, [this, process](std::uint32_t) { died(process); });
  look(process);
  return {};
}

// One look for each turn of the loop, so that requests do not wait for many. The client that has cost least comes
// first: one that is new, before those that have many descriptors or contexts.
void KeeperServer::look_soon(const os::ProcessRef& process) {
  if (due_.empty() && loop_.now() - looked_ > kBetweenLooks) return look(process);
  auto& client = clients_.at(process);
  due_.emplace(client.cost, process);
  client.now.state = HeldState::kStarting;
  report(process);
  if (!next_look_.running()) next_look_.start(Duration::zero(), [this] { look_at_next(); });
}

void KeeperServer::look_at_next() {
  if (due_.empty()) return;
  look(due_.extract(due_.begin()).value().second);
  if (!due_.empty()) next_look_.start(Duration::zero(), [this] { look_at_next(); });
}

void KeeperServer::look(const os::ProcessRef& process) {
  auto& client = clients_.at(process);
  auto& share = *client.share;
  if (client.exchanged >= kMostExchanged || share.foreign.closing() >= kMostForeign) {
    client.now = {HeldState::kHeld, client.files.size(), kExchanges};
    return report(process);
  }
  // A module may be loaded later; what is known stays so while a file cannot be read.
  if (client.looks == 0 || client.files.uvm() == 0)
    if (const auto devices = os::read_file(settings_.devices)) devices_ = NvidiaDevices::parse(*devices);
  const auto most = most_of_share();
  auto looked = client.files.look(process.pid, client.pidfd, devices_, most - std::min(share.files, most));
  share.files += looked.added;
  client.full = looked.full;
  if (!looked.dropped.empty()) close(process, std::move(looked.dropped), false);
  if (looked.foreign) {
    share.foreign.close_file(std::move(looked.foreign));
    ++client.exchanged;
  }
  const bool is_last = client.looks == kLooks.size();
  if (is_last && looked.problem.empty()) looked.problem = why_not_shared(process.pid, looked.owner);
  if (is_last && looked.problem.empty() && client.files.uvm() == 0)
    looked.problem = "it has not opened /dev/nvidia-uvm";
  client.now = {is_last ? HeldState::kHeld : HeldState::kStarting, client.files.size(), std::move(looked.problem)};
  client.cost += looked.looked_at;
  const Duration least = looked.looked_at * kWaitForEach;
  if (!is_last)
    client.timer.start(std::max<Duration>(kLooks[client.looks++], least), [this, process] { look_soon(process); });
  looked_ = os::mono_now();
  report(process);
}

void KeeperServer::died(const os::ProcessRef& process) {
  auto& client = clients_.at(process);
  loop_.cancel(std::exchange(client.watch, 0));
  due_.erase({client.cost, process});
  client.now.state = HeldState::kDead;
  // Without descriptors it is held for nothing.
  client.timer.start(client.files.size() == 0 ? Duration{} : settings_.patience,
                     [this, process] { close(process, clients_.at(process).files.take(), true); });
  report(process);
}

void KeeperServer::close(const os::ProcessRef& process, std::vector<HeldFile> files, bool last) {
  const std::size_t count = files.size();
  closer_->run(loop_, [this, process, last, count, share = clients_.at(process).share,
                       files = std::make_shared<std::vector<HeldFile>>(std::move(files))] {
    close_in_order(*files);
    return [this, process, last, share, count] {
      share->files -= count;
      if (last) {
        clients_.erase(process);
        report(process, {HeldState::kReleased});
        for (const auto& [other, client] : clients_)  // there may be descriptors for it now
          if (!client.dead() && client.full) look_soon(other);
        std::erase_if(shares_, [](const auto& each) {
          return each.second.use_count() == 1 && each.second->foreign.closing() == 0;
        });
      }
      end_if_idle();
    };
  });
}

// A new client, or one whose state or problem has changed. A further descriptor alone is not reported.
void KeeperServer::report(const os::ProcessRef& process) {
  auto& client = clients_.at(process);
  const auto before = std::exchange(client.reported, client.now);
  if (!before || before->state != client.now.state || before->problem != client.now.problem)
    report(process, client.now);
}

void KeeperServer::report(const os::ProcessRef& process, const HeldClient& change) {
  if (server_) server_->changed(status({{process, change}}, true));
}

void KeeperServer::end() {
  if (!server_) return;
  server_.reset();  // the next keeper may listen there from now on
  const bool all_dead = std::ranges::all_of(clients_, [](const auto& each) { return each.second.dead(); });
  timer_.start(all_dead ? Duration{} : kReplaced, [this] {
    replaced_ = true;
    end_if_idle();
  });
}

void KeeperServer::end_if_idle() {
  const bool dying = std::ranges::any_of(clients_, [](const auto& each) { return each.second.dead(); });
  if (replaced_ && !dying) ended_();
}

std::string KeeperServer::status(std::map<os::ProcessRef, HeldClient> clients, bool changes) const {
  return to_json(
      {.version = kVersion, .changes = changes, .clients = std::move(clients), .most_files = most_open_files()});
}

std::string KeeperServer::status_of_all() const {
  std::map<os::ProcessRef, HeldClient> all;
  for (const auto& [process, client] : clients_) all[process] = client.now;
  return status(std::move(all), false);
}

}  // namespace tranche::mps
