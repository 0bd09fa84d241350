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

namespace tranche::mps {

RelayPassage::RelayPassage(Relay& relay, std::uint64_t id, std::string grant, os::Fd client)
    : relay_(relay),
      loop_(relay.loop_),
      id_(id),
      grant_(std::move(grant)),
      client_(std::move(client)),
      peer_(peer_of(client_.get())),
      times_(relay.settings_.times),
      state_(begin_passage(peer_.sender.pid, loop_.now(), times_)) {}

RelayPassage::~RelayPassage() {
  drop();
}

void RelayPassage::drop() {
  finish_exchange();
  state_.stage = RelayStage::kEnded;
  drop_exchange();
  drop_client();
  drop_daemon();
  timer_.stop();
}

bool RelayPassage::leave_to_server() {
  if (!waits_for_server(state_)) return false;
  happens(RelayEvent::kClientGone);
  return true;
}

void RelayPassage::drop_client() {
  loop_.cancel(std::exchange(client_watch_, 0));
  loop_.cancel(std::exchange(exchange_watch_, 0));
  if (client_) relay_.close(grant_, std::move(client_));
  if (exchange_ && server_) relay_.close(grant_, std::move(exchange_));
}

void RelayPassage::wait_for_server(int milliseconds) {
  if (!waits_for_server(state_)) return;
  if (state_.stage == RelayStage::kTaken) {
    pollfd greeted{server_.get(), POLLIN, 0};
    (void)::poll(&greeted, 1, milliseconds);
    return;
  }
  pollfd sent{daemon_.get(), POLLIN, 0};
  RelayPacket packet;
  if (::poll(&sent, 1, milliseconds) <= 0 || receive_packet(daemon_.get(), packet) != Arrival::kPacket ||
      packet.bytes != kRelayDescriptor || packet.descriptors.empty())
    return;
  (void)send_packet(daemon_.get(), kRelayTaken);
  server_ = std::move(packet.descriptors[0]);
  carry(state_, loop_.now(), times_);
}

// The callbacks' shared pointers keep a passage alive while one of them runs; drop() cancels and so destroys them.
void RelayPassage::begin() {
  client_watch_ = loop_.watch(client_.get(), EPOLLIN | EPOLLRDHUP,
                              [self = shared_from_this()](std::uint32_t) { self->on_client(); });
  if (client_watch_ == 0 || !send_packet(client_.get(), kRelayHello)) return happens(RelayEvent::kClientGone);
  arm();
}

// The next message, if there is one. At the end of the connection `end` happens, once.
std::optional<RelayPacket> RelayPassage::hear(const os::Fd& from, os::Loop::Id& watch, RelayEvent end) {
  RelayPacket packet;
  const bool tenant = &from == &client_ || &from == &exchange_;
  switch (tenant ? receive_from_tenant(from.get(), packet) : receive_packet(from.get(), packet)) {
    case Arrival::kNothing:
      return std::nullopt;
    case Arrival::kEnd:
      loop_.cancel(std::exchange(watch, 0));
      happens(end);
      return std::nullopt;
    case Arrival::kPacket:
      return packet;
  }
  return std::nullopt;
}

void RelayPassage::on_client() {
  const auto self = shared_from_this();
  if (auto packet = hear(client_, client_watch_, RelayEvent::kClientGone))
    happens(RelayEvent::kFromClient, *std::move(packet));
}

void RelayPassage::on_daemon() {
  const auto self = shared_from_this();
  if (auto packet = hear(daemon_, daemon_watch_, RelayEvent::kDaemonGone))
    happens(RelayEvent::kFromDaemon, *std::move(packet));
}

void RelayPassage::on_server() {
  const auto self = shared_from_this();
  auto packet = hear(server_, server_watch_, RelayEvent::kServerGone);
  if (!packet) return;
  // Of a client that has exited, another process would get the channels: nothing counts what it does with them.
  const bool lives = peer_.lives();
  for (const os::Fd& descriptor : packet->descriptors)
    if (lives) give_channel(descriptor);
  // A client that does not read, or has gone, is noticed at its own end.
  if (lives) (void)send_packet(exchange_.get(), packet->bytes, packet->descriptors);
  packet->descriptors.clear();
  happens(RelayEvent::kServerSaid, *std::move(packet));
  if (!lives) happens(RelayEvent::kClientBrokeOff);
}

void RelayPassage::give_channel(const os::Fd& descriptor) {
  struct stat info{};
  if (channels_ >= kExchangeDescriptors || ::fstat(descriptor.get(), &info) != 0) return;
  ++channels_;
  relay_.clients_.gets(state_.client.pid, id_,
                       fmt::format("{}:[{}]", S_ISSOCK(info.st_mode) ? "socket" : "pipe", info.st_ino));
}

void RelayPassage::connects(int pid) {
  if (!std::exchange(counts_, true)) relay_.connects(*this, pid);
}

void RelayPassage::on_client_in_exchange() {
  const auto self = shared_from_this();
  auto packet = hear(exchange_, exchange_watch_, RelayEvent::kClientBrokeOff);
  if (!packet) return;
  if (state_.exchange.completed) return happens(RelayEvent::kClientSaid, *std::move(packet));
  // No CUDA process sends a descriptor or a long message here; the server would be the one to handle it. It takes an
  // empty message for the end of its socket.
  const auto words = packet->truncated ? std::nullopt : for_server(state_, packet->bytes);
  if (words && send_server(*words)) {
    happens(RelayEvent::kClientSaid, *std::move(packet));
    if (has_said_context(state_)) connects(state_.client.pid);
    return;
  }
  loop_.cancel(std::exchange(exchange_watch_, 0));
  happens(RelayEvent::kClientBrokeOff);
}

void RelayPassage::happens(RelayEvent event, RelayPacket packet) {
  const auto self = shared_from_this();
  if (event == RelayEvent::kTimeUp && state_.stage == RelayStage::kServer) {
    pollfd sent{daemon_.get(), POLLIN, 0};  // the server's socket may have arrived just now
    if (::poll(&sent, 1, 0) > 0) return on_daemon();
  }
  switch (step(state_, event, packet.message(), loop_.now(), times_)) {
    case RelayAction::kNothing:
      break;
    case RelayAction::kAskTurn:
      arm();
      return relay_.wants_turn(*this);
    case RelayAction::kAnswer: {
      // A client that asks and does not read has a full socket; its reply is dropped.
      if (const auto text = relay_.callbacks_.answer(grant_, state_.question);
          !text.empty() && !send_packet(client_.get(), text))
        return happens(RelayEvent::kClientGone);
      break;
    }
    case RelayAction::kFarewell:
      (void)send_packet(client_.get(), kRelayEnd);
      drop();
      return relay_.ended(*this);
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
      drop_daemon();
      break;
    case RelayAction::kEnd:
      drop();
      return relay_.ended(*this);
  }
  if (state_.stage == RelayStage::kEnded) return;
  // Messages of a client that is late are read until the last one: it would take a closed socket for a failure.
  if (has_yet_to_speak(state_))
    drop_server();
  else if (state_.exchange.over)
    drop_exchange();
  if (state_.exchange.left || (state_.stage == RelayStage::kServer && state_.client_gone)) drop_client();
  arm();
}

void RelayPassage::introduce() {
  // Otherwise a process that reused the pid since its turn would be introduced in its place.
  if (!peer_.lives()) return happens(RelayEvent::kConnectorGone);
  auto sent = send_packet(daemon_.get(), kRelayCredentials, {}, &state_.client);
  const Status as_itself = sent;
  if (!sent && (sent.error().kind == Kind::kDenied || sent.error().kind == Kind::kNotFound)) {
    const RelaySender ours{::getpid(), ::geteuid(), ::getegid()};
    sent = send_packet(daemon_.get(), kRelayCredentials, {}, &ours);
  }
  if (!sent || !send_packet(daemon_.get(), kRelayNewClient)) return happens(RelayEvent::kDaemonGone);
  relay_.introduced(*this, as_itself);
}

void RelayPassage::hand_over(RelayPacket packet) {
  // First the daemon, which serves no other client until it has this (measured: clients start as usual).
  if (!send_packet(daemon_.get(), kRelayTaken)) drop_daemon();
  const bool carried = carry_exchange(packet);
  if (carried) carry(state_, loop_.now(), times_);
  if (carried && (server_watch_ == 0 || exchange_watch_ == 0)) return happens(RelayEvent::kClientGone);
  to_client(packet);
}

// Puts a socket of ours in the place of the server's. A socket of another type than the measured one goes to the client
// as it is.
bool RelayPassage::carry_exchange(RelayPacket& packet) {
  int type = 0;
  socklen_t size = sizeof type;
  if (packet.descriptors.size() != 1 ||
      ::getsockopt(packet.descriptors[0].get(), SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET)
    return false;
  server_ = std::exchange(packet.descriptors[0], std::move(for_client_));
  const auto self = shared_from_this();
  server_watch_ = loop_.watch(server_.get(), EPOLLIN | EPOLLRDHUP, [self](std::uint32_t) { self->on_server(); });
  exchange_watch_ =
      loop_.watch(exchange_.get(), EPOLLIN | EPOLLRDHUP, [self](std::uint32_t) { self->on_client_in_exchange(); });
  return true;
}

// Under the client's identity, from which the server takes its pid; under ours where the kernel does not permit that.
// Never under ours for a process that has exited: another one, which has its sockets, would be a client with our pid.
// Never under the client's pid once the client has exited: the kernel may have given it to a later process.
Status RelayPassage::send_server(std::string_view bytes) {
  if (!peer_.lives()) return fail(Kind::kNotFound, "the client has exited");
  auto sent = send_packet(server_.get(), bytes, {}, &state_.client);
  if (!sent && sent.error().kind == Kind::kDenied) sent = send_packet(server_.get(), bytes);
  return sent;
}

void RelayPassage::complete_exchange() {
  if (!relay_.turns_.others_wait() && may_wait(state_, loop_.now(), times_)) return;
  for (auto message : state_.exchange.missing()) {
    // The client goes on to use the number that it has for its context.
    std::string number;
    if (state_.exchange.said + state_.exchange.spoken_for == kExchangeSaysContext) {
      state_.exchange.context = relay_.clients_.next_context(state_.client.pid);
      message = number = context_text(state_.exchange.context);
    }
    if (!send_server(message)) return happens(RelayEvent::kClientBrokeOff);
    ++state_.exchange.spoken_for;
  }
  complete(state_, loop_.now(), times_);
  connects(state_.client.pid);
}

void RelayPassage::finish_exchange() {
  if (!server_ || state_.exchange.missing().empty()) return;
  // A message of the server that is unread when we close would make the kernel discard ours.
  ::shutdown(server_.get(), SHUT_RD);
  RelayPacket unread;
  while (receive_packet(server_.get(), unread) == Arrival::kPacket) {
  }
  auto missing = state_.exchange.missing();
  state_.exchange.completed = true;
  // The server reads the client's pid from the first message. It must not be ours: this program is never ended as a
  // client (mps/pool/client_ending.h), and contexts made through these channels would count for no grant.
  if (missing.size() == kExchangeOfClient.size()) {
    if (!send_server(missing.front())) return leave_channels(missing);
    missing = missing.subspan(1);
  }
  connects(state_.client.pid);  // the server completes the connection, and the client may use it
  for (const auto message : missing)
    if (!send_server(message)) (void)send_packet(server_.get(), message);
}

void RelayPassage::leave_channels(std::span<const std::string_view> messages) {
  if (peer_.lives()) return;  // the server refused the message because it has closed the connection
  if (const auto child = relay_.exited_child()) {
    const RelaySender as{child->pid(), state_.client.uid, state_.client.gid};
    const auto sent = [&](const std::string_view message) {
      return send_packet(server_.get(), message, {}, &as).has_value();
    };
    if (std::ranges::all_of(messages, sent)) return relay_.left(*this, child->pid());
  }
  // No process could be started, or the kernel does not let us speak for one. A server that waits for these messages
  // accepts no other client, so they are sent under our own pid.
  for (const auto message : messages) (void)send_packet(server_.get(), message);
}

void RelayPassage::drop_server() {
  loop_.cancel(std::exchange(server_watch_, 0));
  server_.reset();
}

void RelayPassage::drop_exchange() {
  drop_server();
  loop_.cancel(std::exchange(exchange_watch_, 0));
  for_client_.reset();
  if (exchange_) relay_.close(grant_, std::move(exchange_));
}

void RelayPassage::let_in() {
  was_let_in_ = true;
  connects(state_.client.pid);
  relay_.let_in(*this);
  if (!daemon_) happens(RelayEvent::kDaemonGone);
}

void RelayPassage::drop_daemon() {
  loop_.cancel(std::exchange(daemon_watch_, 0));
  daemon_.reset();
}

void RelayPassage::to_client(const RelayPacket& packet) {
  if (!send_packet(client_.get(), packet.bytes, packet.descriptors)) happens(RelayEvent::kClientGone);
}

Status RelayPassage::reserve_descriptors() {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return std::unexpected(error_from_errno(errno, "cannot create the sockets of an exchange", grant_));
  exchange_ = os::Fd(pair[0]);
  for_client_ = os::Fd(pair[1]);
  const int on = 1;
  if (::setsockopt(exchange_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0)
    return std::unexpected(error_from_errno(errno, "cannot ask for credentials", grant_));
  if (!peer_.pidfd) return {};
  connector_ = os::Fd(::fcntl(peer_.pidfd.get(), F_DUPFD_CLOEXEC, 0));
  if (!connector_) return std::unexpected(error_from_errno(errno, "cannot hold the client's process", grant_));
  return {};
}

Status RelayPassage::connect(const std::string& path) {
  const auto self = shared_from_this();
  TRY(os::Fd connected, connect_to_daemon(path));
  TRY_STATUS(reserve_descriptors());  // what the exchange needs, before the daemon accepts the client
  daemon_ = std::move(connected);
  daemon_watch_ = loop_.watch(daemon_.get(), EPOLLIN | EPOLLRDHUP, [self](std::uint32_t) { self->on_daemon(); });
  happens(daemon_watch_ == 0 ? RelayEvent::kDaemonGone : RelayEvent::kConnected);
  return {};
}

void RelayPassage::arm() {
  timer_.stop();
  if (!state_.until) return;
  timer_.start(std::max(Duration{}, *state_.until - loop_.now()),
               [self = shared_from_this()] { self->happens(RelayEvent::kTimeUp); });
}

}  // namespace tranche::mps
