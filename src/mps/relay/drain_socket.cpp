#include "mps/relay/drain_socket.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <string_view>
#include <utility>

#include "mps/relay/relay_packet.h"
#include "mps/relay/tenant_sockets.h"
#include "os/loop/timer.h"

namespace tranche::host {
namespace {

constexpr std::string_view kRequest = "drain\n";
constexpr std::size_t kLongestRequest = 16;
constexpr Duration kPauseOfDrains = std::chrono::seconds(1);

struct Caller {
  explicit Caller(Loop& loop) : timer(loop) {}
  Fd fd;
  Peer peer;
  Loop::Id watch = 0;
  Timer timer;
  std::string words;
  bool asked = false;
};

class EndpointDrain final : public DrainSocket, public std::enable_shared_from_this<EndpointDrain> {
 public:
  EndpointDrain(Loop& loop, Fd listening, DrainSocketLimits limits, Asked asked)
      : loop_(loop), listening_(std::move(listening)), limits_(limits), asked_(std::move(asked)) {}
  ~EndpointDrain() override { close_all(); }
  EndpointDrain(const EndpointDrain&) = delete;
  EndpointDrain& operator=(const EndpointDrain&) = delete;

  bool watch();
  void close_all();

 private:
  void accept_some();
  bool may_accept();
  void pause(Duration duration);
  void hear(std::uint64_t id);
  void answer(std::uint64_t id, const std::string& json);
  void close(std::uint64_t id);
  void watch_again();

  Loop& loop_;
  TenantSockets sockets_{loop_, [this] { watch_again(); }};
  Fd listening_;
  DrainSocketLimits limits_;
  Asked asked_;
  Loop::Id watch_ = 0;
  Timer pause_{loop_};
  double accepts_ = limits_.burst;  // connections that may still be accepted at once
  MonoTime counted_ = loop_.now();
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, Caller> callers_;
};

bool EndpointDrain::watch() {
  if (watch_ == 0) watch_ = loop_.watch(listening_.get(), EPOLLIN, [this](std::uint32_t) { accept_some(); });
  return watch_ != 0;
}

void EndpointDrain::close_all() {
  loop_.cancel(std::exchange(watch_, 0));
  pause_.stop();
  for (auto& [id, caller] : callers_) {
    loop_.cancel(caller.watch);
    sockets_.close(std::move(caller.fd));
  }
  callers_.clear();
  sockets_.close_listening(std::move(listening_));
}

void EndpointDrain::pause(Duration duration) {
  loop_.cancel(std::exchange(watch_, 0));
  pause_.start(duration, [this] { watch(); });
}

bool EndpointDrain::may_accept() {
  const auto now = loop_.now();
  const std::chrono::duration<double> passed = now - std::exchange(counted_, now);
  accepts_ = std::min(limits_.burst, accepts_ + passed.count() * limits_.per_second);
  if (accepts_ >= 1) return true;
  pause(std::chrono::duration_cast<Duration>(std::chrono::duration<double>((1 - accepts_) / limits_.per_second)) +
        std::chrono::milliseconds(1));
  return false;
}

void EndpointDrain::accept_some() {
  while (callers_.size() + sockets_.closing() < limits_.connections) {
    if (!may_accept()) return;
    Fd fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (!fd && errno == EAGAIN) return;
    if (!fd) return pause(kPauseOfDrains);
    accepts_ -= 1;
    const auto id = next_id_++;
    Caller& caller = callers_.try_emplace(id, loop_).first->second;
    caller.fd = std::move(fd);
    caller.peer = peer_of(caller.fd.get());
    caller.timer.start(limits_.words, [this, id] { close(id); });
    caller.watch = loop_.watch(caller.fd.get(), EPOLLIN | EPOLLRDHUP, [this, id](std::uint32_t) { hear(id); });
    if (caller.watch == 0) close(id);
  }
  loop_.cancel(std::exchange(watch_, 0));  // close() starts it again
}

void EndpointDrain::hear(std::uint64_t id) {
  Caller& caller = callers_.at(id);
  if (caller.asked) return close(id);  // it hung up; the drain continues
  RelayPacket packet;
  const auto arrival = receive_from_tenant(caller.fd.get(), packet);
  if (arrival == Arrival::kNothing) return;
  if (arrival == Arrival::kEnd || packet.truncated) return close(id);
  caller.words += packet.bytes;
  if (!caller.words.contains('\n')) {
    if (caller.words.size() >= kLongestRequest) close(id);
    return;
  }
  if (caller.words != kRequest) return close(id);
  // A process of another container may have its pid by now, and did not ask for this.
  if (!caller.peer.lives()) return close(id);
  caller.asked = true;
  loop_.cancel(std::exchange(caller.watch, 0));  // further input is ignored, but a hang-up is noticed
  caller.watch = loop_.watch(caller.fd.get(), 0, [this, id](std::uint32_t) { hear(id); });
  caller.timer.start(limits_.answer, [this, id] { close(id); });
  caller.peer.pidfd.reset();  // no longer needed
  asked_(caller.peer.sender.pid, [weak = weak_from_this(), id](const std::string& json) {
    if (const auto self = weak.lock()) self->answer(id, json);
  });
}

void EndpointDrain::answer(std::uint64_t id, const std::string& json) {
  const auto found = callers_.find(id);
  if (found == callers_.end()) return;
  // A caller that does not read loses its answer; this program does not wait.
  const std::string line = json + "\n";
  (void)::send(found->second.fd.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  close(id);
}

void EndpointDrain::close(std::uint64_t id) {
  const auto found = callers_.find(id);
  if (found == callers_.end()) return;
  loop_.cancel(found->second.watch);
  sockets_.close(std::move(found->second.fd));
  callers_.erase(found);
  watch_again();
}

void EndpointDrain::watch_again() {
  if (listening_ && !pause_.running()) watch();
}

// Replies hold the implementation weakly; destroying this object ends it.
class OwnedDrain final : public DrainSocket {
 public:
  explicit OwnedDrain(std::shared_ptr<EndpointDrain> drain) : drain_(std::move(drain)) {}
  ~OwnedDrain() override { drain_->close_all(); }
  OwnedDrain(const OwnedDrain&) = delete;
  OwnedDrain& operator=(const OwnedDrain&) = delete;

 private:
  std::shared_ptr<EndpointDrain> drain_;
};

}  // namespace

Result<std::unique_ptr<DrainSocket>> DrainSocket::open(Loop& loop, const Dir& endpoint, DrainSocketLimits limits,
                                                       Asked asked) {
  TRY(Fd listening, listen_in(endpoint, "drain", Protocol::kStream));
  auto drain = std::make_shared<EndpointDrain>(loop, std::move(listening), limits, std::move(asked));
  if (!drain->watch())
    return fail(Kind::kUnavailable, "the event loop refuses to watch a drain socket", endpoint.path());
  return std::make_unique<OwnedDrain>(std::move(drain));
}

}  // namespace tranche::host
