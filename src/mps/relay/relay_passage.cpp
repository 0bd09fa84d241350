#include "mps/relay/relay_passage.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace tranche::host {

RelayPassage::RelayPassage(Loop& loop, std::uint64_t id, std::string grant, Fd client, const mps::RelayTimes& times,
                           const Callbacks& callbacks)
    : loop_(loop),
      id_(id),
      grant_(std::move(grant)),
      client_(std::move(client)),
      peer_(peer_of(client_.get())),
      times_(times),
      callbacks_(callbacks),
      state_(mps::begin_passage(peer_.sender.pid, loop.now(), times)) {}

RelayPassage::~RelayPassage() {
  drop();
}

void RelayPassage::drop() {
  loop_.cancel(std::exchange(client_watch_, 0));
  loop_.cancel(std::exchange(daemon_watch_, 0));
  timer_.stop();
  client_.reset();
  daemon_.reset();
}

// The callbacks' shared pointers keep a passage alive while one of them runs; drop() cancels and so destroys them.
void RelayPassage::begin() {
  client_watch_ = loop_.watch(client_.get(), EPOLLIN | EPOLLRDHUP,
                              [self = shared_from_this()](std::uint32_t) { self->on_client(); });
  if (client_watch_ == 0 || !send_packet(client_.get(), mps::kRelayHello)) return happens(mps::RelayEvent::kClientGone);
  arm();
}

void RelayPassage::on_client() {
  const auto self = shared_from_this();
  RelayPacket packet;
  switch (receive_packet(client_.get(), packet)) {
    case Arrival::kNothing:
      return;
    case Arrival::kEnd:
      return happens(mps::RelayEvent::kClientGone);
    case Arrival::kPacket:
      return happens(mps::RelayEvent::kFromClient, std::move(packet));
  }
}

void RelayPassage::on_daemon() {
  const auto self = shared_from_this();
  RelayPacket packet;
  switch (receive_packet(daemon_.get(), packet)) {
    case Arrival::kNothing:
      return;
    case Arrival::kEnd:
      return happens(mps::RelayEvent::kDaemonGone);
    case Arrival::kPacket:
      return happens(mps::RelayEvent::kFromDaemon, std::move(packet));
  }
}

void RelayPassage::happens(mps::RelayEvent event, RelayPacket packet) {
  const auto self = shared_from_this();
  switch (mps::step(state_, event, packet.message(), loop_.now(), times_)) {
    case mps::RelayAction::kNothing:
      break;
    case mps::RelayAction::kAskTurn:
      arm();
      return callbacks_.wants_turn(*this);
    case mps::RelayAction::kAnswer:
      // A client that asks and does not read has a full socket; its reply is dropped.
      if (const auto text = callbacks_.answer(*this); !text.empty() && !send_packet(client_.get(), text))
        return happens(mps::RelayEvent::kClientGone);
      break;
    case mps::RelayAction::kFarewell:
      (void)send_packet(client_.get(), mps::kRelayEnd);
      drop();
      return callbacks_.ended(*this);
    case mps::RelayAction::kIntroduce:
      introduce();
      break;
    case mps::RelayAction::kToClient:
      to_client(packet);
      break;
    case mps::RelayAction::kHandOver:
      hand_over(packet);
      break;
    case mps::RelayAction::kLetIn:
      let_in();
      break;
    case mps::RelayAction::kDropDaemon:
      drop_daemon();
      break;
    case mps::RelayAction::kEnd:
      drop();
      return callbacks_.ended(*this);
  }
  if (state_.stage != mps::RelayStage::kEnded) arm();
}

void RelayPassage::introduce() {
  // Otherwise a process that reused the pid since its turn would be introduced in its place.
  if (!peer_.lives()) return abandoned();
  auto sent = send_packet(daemon_.get(), mps::kRelayCredentials, {}, &state_.client);
  const Status as_itself = sent;
  if (!sent && (sent.error().kind == Kind::kDenied || sent.error().kind == Kind::kNotFound)) {
    const mps::RelaySender ours{::getpid(), ::geteuid(), ::getegid()};
    sent = send_packet(daemon_.get(), mps::kRelayCredentials, {}, &ours);
  }
  if (!sent || !send_packet(daemon_.get(), mps::kRelayNewClient)) return happens(mps::RelayEvent::kDaemonGone);
  callbacks_.introduced(*this, as_itself);
}

void RelayPassage::hand_over(const RelayPacket& packet) {
  // First the daemon, which serves no other client until it has this (measured: clients start as usual).
  if (!send_packet(daemon_.get(), mps::kRelayTaken)) drop_daemon();
  to_client(packet);
}

void RelayPassage::let_in() {
  was_let_in_ = true;
  callbacks_.let_in(*this);
  if (!daemon_) happens(mps::RelayEvent::kDaemonGone);
}

void RelayPassage::drop_daemon() {
  loop_.cancel(std::exchange(daemon_watch_, 0));
  daemon_.reset();
}

void RelayPassage::to_client(const RelayPacket& packet) {
  if (!send_packet(client_.get(), packet.bytes, packet.descriptors)) happens(mps::RelayEvent::kClientGone);
}

Status RelayPassage::connect(const std::string& path) {
  const auto self = shared_from_this();
  auto connected = connect_to_daemon(path);
  if (!connected) {
    happens(mps::RelayEvent::kNoDaemon);
    return std::unexpected(std::move(connected).error());
  }
  daemon_ = *std::move(connected);
  daemon_watch_ = loop_.watch(daemon_.get(), EPOLLIN | EPOLLRDHUP, [self](std::uint32_t) { self->on_daemon(); });
  happens(daemon_watch_ == 0 ? mps::RelayEvent::kDaemonGone : mps::RelayEvent::kConnected);
  return {};
}

void RelayPassage::refuse() {
  happens(mps::RelayEvent::kRefused);
}

void RelayPassage::no_limits() {
  happens(mps::RelayEvent::kNoLimits);
}

void RelayPassage::abandoned() {
  happens(mps::RelayEvent::kConnectorGone);
}

void RelayPassage::arm() {
  timer_.stop();
  if (!state_.until) return;
  timer_.start(std::max(Duration{}, *state_.until - loop_.now()),
               [self = shared_from_this()] { self->happens(mps::RelayEvent::kTimeUp); });
}

}  // namespace tranche::host
