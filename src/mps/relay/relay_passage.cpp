#include "mps/relay/relay_passage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "os/socket/unix_socket.h"

namespace tranche::mps {

RelayPassage::RelayPassage(Relay& relay, std::uint64_t id, std::string grant, os::Fd client)
    : relay_(relay),
      loop_(relay.loop_),
      id_(id),
      grant_(std::move(grant)),
      peer_(peer_of(client.get())),
      times_(relay.settings_.times),
      state_(begin_passage(peer_.sender, loop_.now(), times_)) {
  client_.fd = std::move(client);
}

RelayPassage::~RelayPassage() {
  drop();
}

void RelayPassage::drop() {
  finish_exchange();
  state_.stage = RelayStage::kEnded;
  drop_exchange();
  drop_client();
  close(daemon_);
  timer_.stop();
}

void RelayPassage::end(RelayEnd end, const std::string& why) {
  if (state_.stage == RelayStage::kEnded) return;
  const auto self = shared_from_this();
  ended(state_, end, why);
  drop();
  relay_.ended(*this);
}

bool RelayPassage::leave_to_server() {
  if (!waits_for_server(state_)) return false;
  happens(RelayEvent::kClientGone);
  grant_.clear();
  return true;
}

void RelayPassage::drop_client() {
  unwatch(client_);
  unwatch(exchange_);
  if (client_.fd) relay_.close(grant_, std::move(client_.fd));
  if (exchange_.fd && server_.fd) relay_.close(grant_, std::move(exchange_.fd));
}

void RelayPassage::wait_for_server(int milliseconds) {
  if (!waits_for_server(state_)) return;
  const bool taken = state_.stage == RelayStage::kTaken;
  pollfd sent{(taken ? server_ : daemon_).fd.get(), POLLIN, 0};
  if (::poll(&sent, 1, milliseconds) > 0 && !taken) hear(daemon_);
}

void RelayPassage::begin() {
  if (!watch(client_) || !send_packet(client_.fd.get(), kRelayHello)) return happens(RelayEvent::kClientGone);
  arm();
}

// The callbacks' shared pointers keep a passage alive while one of them runs; drop() cancels and so destroys them.
bool RelayPassage::watch(Side& side) {
  side.watch = loop_.watch(side.fd.get(), EPOLLIN | EPOLLRDHUP,
                           [self = shared_from_this(), &side](std::uint32_t) { self->hear(side); });
  return side.watch != 0;
}

void RelayPassage::unwatch(Side& side) {
  loop_.cancel(std::exchange(side.watch, 0));
}

void RelayPassage::close(Side& side) {
  unwatch(side);
  side.fd.reset();
}

// The next message, if there is one, or the end of the connection.
void RelayPassage::hear(Side& side) {
  const auto self = shared_from_this();
  RelayMessage packet;
  const auto arrival = (side.tenant ? receive_from_tenant : receive_packet)(side.fd.get(), packet);
  if (arrival == Arrival::kNothing) return;
  if (arrival == Arrival::kEnd) {
    unwatch(side);
    return happens(side.leaves);
  }
  if (&side == &server_) return hear_server(std::move(packet));
  if (&side == &exchange_) return hear_client_in_exchange(std::move(packet));
  happens(side.says, std::move(packet));
}

void RelayPassage::hear_server(RelayMessage packet) {
  // Of a client that has exited, another process would get the channels: nothing counts what it does with them.
  const bool lives = peer_.lives();
  for (const os::Fd& descriptor : packet.descriptors) {
    struct stat info{};
    if (!lives || ::fstat(descriptor.get(), &info) != 0) continue;
    relay_.clients_.gets(state_.client.pid, id_,
                         fmt::format("{}:[{}]", S_ISSOCK(info.st_mode) ? "socket" : "pipe", info.st_ino));
  }
  // A client that does not read, or has gone, is noticed at its own end.
  if (lives) (void)send_packet(exchange_.fd.get(), packet.bytes, packet.descriptors);
  packet.descriptors.clear();
  happens(RelayEvent::kServerSaid, std::move(packet));
  if (!lives) happens(RelayEvent::kClientBrokeOff);
}

void RelayPassage::connects() {
  if (!std::exchange(counts_, true)) relay_.connects(*this);
}

void RelayPassage::hear_client_in_exchange(RelayMessage packet) {
  if (state_.exchange.from_relay > 0) return happens(RelayEvent::kClientSaid, std::move(packet));
  // No CUDA process sends a descriptor or a long message here; the server would be the one to handle it. It takes an
  // empty message for the end of its socket.
  const auto words = packet.truncated ? std::nullopt : for_server(state_, packet.bytes);
  if (words && send_server(*words)) {
    happens(RelayEvent::kClientSaid, std::move(packet));
    if (state_.exchange.from_client > kExchangeSaysContext) connects();
    return;
  }
  unwatch(exchange_);
  happens(RelayEvent::kClientBrokeOff);
}

void RelayPassage::happens(RelayEvent event, RelayMessage packet) {
  const auto self = shared_from_this();
  if (event == RelayEvent::kTimeUp && state_.stage == RelayStage::kServer) {
    pollfd sent{daemon_.fd.get(), POLLIN, 0};  // the server's socket may have arrived just now
    if (::poll(&sent, 1, 0) > 0) return hear(daemon_);
  }
  switch (step(state_, event, packet, loop_.now(), times_)) {
    case RelayAction::kNothing:
      break;
    case RelayAction::kAskTurn:
      arm();
      return relay_.wants_turn(*this, 0);
    case RelayAction::kAnswer: {
      // A client that asks and does not read has a full socket; its reply is dropped.
      if (const auto text = relay_.owner_.answer(grant_, state_.question);
          !text.empty() && !send_packet(client_.fd.get(), text))
        return happens(RelayEvent::kClientGone);
      break;
    }
    case RelayAction::kIntroduce:
      introduce();
      break;
    case RelayAction::kToClient:
      to_client(packet);
      break;
    case RelayAction::kComplete:
      complete_exchange();
      break;
    case RelayAction::kHandOver:
      hand_over(std::move(packet));
      break;
    case RelayAction::kLetIn:
      let_in();
      break;
    case RelayAction::kDropDaemon:
      close(daemon_);
      break;
    case RelayAction::kFarewell:
      (void)send_packet(client_.fd.get(), kRelayEnd);
      [[fallthrough]];
    case RelayAction::kEnd:
      drop();
      return relay_.ended(*this);
  }
  if (state_.stage == RelayStage::kEnded) return;
  // Messages of a client that is late are read until the last one: it would take a closed socket for a failure.
  if (has_yet_to_speak(state_))
    close(server_);
  else if (state_.exchange.over)
    drop_exchange();
  if (state_.client_gone && state_.stage != RelayStage::kIn) drop_client();
  arm();
}

void RelayPassage::introduce() {
  // Otherwise a process that reused the pid since its turn would be introduced in its place.
  if (!peer_.lives()) return end(RelayEnd::kAbandoned);
  auto sent = send_packet(daemon_.fd.get(), kRelayCredentials, {}, &state_.client);
  const Status as_itself = sent;
  if (!sent && (sent.error().kind == Kind::kDenied || sent.error().kind == Kind::kNotFound)) {
    const RelaySender ours{::getpid(), ::geteuid(), ::getegid()};
    sent = send_packet(daemon_.fd.get(), kRelayCredentials, {}, &ours);
  }
  if (!sent || !send_packet(daemon_.fd.get(), kRelayNewClient)) return happens(RelayEvent::kDaemonGone);
  relay_.introduced(*this, as_itself);
}

void RelayPassage::hand_over(RelayMessage packet) {
  // First the daemon, which serves no other client until it has this (measured: clients start as usual).
  if (!send_packet(daemon_.fd.get(), kRelayTaken)) close(daemon_);
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(packet.descriptors[0].get(), SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET)
    return end(RelayEnd::kOtherDaemon);
  server_.fd = std::exchange(packet.descriptors[0], std::move(for_client_));
  if (!watch(server_) || !watch(exchange_)) return happens(RelayEvent::kClientGone);
  to_client(packet);
}

// Under the client's identity, from which the server takes its pid; under ours where the kernel does not permit that.
// Never under ours for a process that has exited: another one, which has its sockets, would be a client with our pid.
// Never under the client's pid once the client has exited: the kernel may have given it to a later process.
Status RelayPassage::send_server(std::string_view bytes) {
  if (!peer_.lives()) return fail(Kind::kNotFound, "the client has exited");
  auto sent = send_packet(server_.fd.get(), bytes, {}, &state_.client);
  if (!sent && sent.error().kind == Kind::kDenied) sent = send_packet(server_.fd.get(), bytes);
  return sent;
}

void RelayPassage::complete_exchange() {
  if (!relay_.turns_.others_wait() && may_wait(state_, loop_.now(), times_)) return;
  for (auto message : state_.exchange.missing()) {
    // The client goes on to use the number that it has for its context.
    std::string number;
    if (state_.exchange.from_client + state_.exchange.from_relay == kExchangeSaysContext) {
      state_.exchange.context = relay_.clients_.next_context(state_.client.pid);
      message = number = context_text(state_.exchange.context);
    }
    if (!send_server(message)) return happens(RelayEvent::kClientBrokeOff);
    ++state_.exchange.from_relay;
  }
  connects();
}

void RelayPassage::finish_exchange() {
  if (!server_.fd || state_.exchange.missing().empty()) return;
  // A message of the server that is unread when we close would make the kernel discard ours.
  ::shutdown(server_.fd.get(), SHUT_RD);
  RelayMessage unread;
  while (receive_packet(server_.fd.get(), unread) == Arrival::kPacket) {
  }
  auto missing = state_.exchange.missing();
  state_.exchange.from_relay += missing.size();
  // The server reads the client's pid from the first message. It must not be ours: this program is never ended as a
  // client (mps/pool/client_ending.h), and contexts made through these channels would count for no grant.
  if (missing.size() == kExchangeOfClient.size()) {
    if (!send_server(missing.front())) return leave_channels(missing);
    missing = missing.subspan(1);
  }
  connects();  // the server completes the connection, and the client may use it
  for (const auto message : missing)
    if (!send_server(message)) (void)send_packet(server_.fd.get(), message);
}

void RelayPassage::leave_channels(std::span<const std::string_view> messages) {
  if (peer_.lives()) return;  // the server refused the message because it has closed the connection
  // Its pid is that of no client, and of no client that has exited and that the server may still have.
  if (const auto child = relay_.exited_children_.take([this](int pid) { return relay_.clients_.knows(pid); })) {
    const RelaySender as{child->pid(), state_.client.uid, state_.client.gid};
    const auto sent = [&](const std::string_view message) {
      return send_packet(server_.fd.get(), message, {}, &as).has_value();
    };
    if (std::ranges::all_of(messages, sent)) return relay_.left(*this, child->pid());
  }
  // No process could be started, or the kernel does not let us speak for one. A server that waits for these messages
  // accepts no other client, so they are sent under our own pid.
  for (const auto message : messages) (void)send_packet(server_.fd.get(), message);
}

void RelayPassage::drop_exchange() {
  close(server_);
  unwatch(exchange_);
  for_client_.reset();
  if (exchange_.fd) relay_.close(grant_, std::move(exchange_.fd));
}

void RelayPassage::let_in() {
  was_let_in_ = true;
  connects();
  relay_.let_in(*this);
  if (!daemon_.fd) happens(RelayEvent::kDaemonGone);
}

void RelayPassage::to_client(const RelayMessage& packet) {
  if (!send_packet(client_.fd.get(), packet.bytes, packet.descriptors)) happens(RelayEvent::kClientGone);
}

Status RelayPassage::reserve_descriptors() {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return fail_errno("cannot create the sockets of an exchange", grant_);
  exchange_.fd = os::Fd(pair[0]);
  for_client_ = os::Fd(pair[1]);
  const int on = 1;
  if (::setsockopt(exchange_.fd.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0)
    return fail_errno("cannot ask for credentials", grant_);
  if (!peer_.pidfd) return {};
  connector_ = os::Fd(::fcntl(peer_.pidfd.get(), F_DUPFD_CLOEXEC, 0));
  if (!connector_) return fail_errno("cannot hold the client's process", grant_);
  return {};
}

Status RelayPassage::connect(const std::string& path) {
  const auto self = shared_from_this();
  TRY(os::Fd connected, os::connect_to(path, SOCK_SEQPACKET));
  TRY_STATUS(reserve_descriptors());  // what the exchange needs, before the daemon accepts the client
  daemon_.fd = std::move(connected);
  happens(watch(daemon_) ? RelayEvent::kConnected : RelayEvent::kDaemonGone);
  return {};
}

void RelayPassage::arm() {
  timer_.stop();
  if (!state_.until) return;
  timer_.start(std::max(Duration{}, *state_.until - loop_.now()),
               [self = shared_from_this()] { self->happens(RelayEvent::kTimeUp); });
}

}  // namespace tranche::mps
