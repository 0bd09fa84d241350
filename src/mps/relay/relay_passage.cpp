#include "mps/relay/relay_passage.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace tranche::host {

GatePassage::GatePassage(Loop& loop, std::uint64_t id, std::string grant, Fd client, const mps::GateTimes& times,
                         const Callbacks& callbacks)
    : loop_(loop),
      id_(id),
      grant_(std::move(grant)),
      client_(std::move(client)),
      peer_(peer_of(client_.get())),
      times_(times),
      callbacks_(callbacks),
      state_(mps::begin_passage(peer_.sender.pid, loop.now(), times)) {}

GatePassage::~GatePassage() {
  drop();
}

void GatePassage::drop() {
  loop_.cancel(std::exchange(client_watch_, 0));
  loop_.cancel(std::exchange(daemon_watch_, 0));
  timer_.stop();
  client_.reset();
  daemon_.reset();
}

// The callbacks' shared pointers keep a passage alive while one of them runs; drop() cancels and so destroys them.
void GatePassage::begin() {
  client_watch_ = loop_.watch(client_.get(), EPOLLIN | EPOLLRDHUP,
                              [self = shared_from_this()](std::uint32_t) { self->on_client(); });
  if (client_watch_ == 0 || !send_packet(client_.get(), mps::kGateHello)) return happens(mps::GateEvent::kClientGone);
  arm();
}

void GatePassage::on_client() {
  const auto self = shared_from_this();
  GatePacket packet;
  switch (receive_packet(client_.get(), packet)) {
    case Arrival::kNothing:
      return;
    case Arrival::kEnd:
      return happens(mps::GateEvent::kClientGone);
    case Arrival::kPacket:
      return happens(mps::GateEvent::kFromClient, std::move(packet));
  }
}

void GatePassage::on_daemon() {
  const auto self = shared_from_this();
  GatePacket packet;
  switch (receive_packet(daemon_.get(), packet)) {
    case Arrival::kNothing:
      return;
    case Arrival::kEnd:
      return happens(mps::GateEvent::kDaemonGone);
    case Arrival::kPacket:
      return happens(mps::GateEvent::kFromDaemon, std::move(packet));
  }
}

void GatePassage::happens(mps::GateEvent event, GatePacket packet) {
  const auto self = shared_from_this();
  switch (mps::step(state_, event, packet.message(), loop_.now(), times_)) {
    case mps::GateAction::kNothing:
      break;
    case mps::GateAction::kAskTurn:
      arm();
      return callbacks_.wants_turn(*this);
    case mps::GateAction::kAnswer:
      // Whoever asks and does not read has a full socket, and is not waited for.
      if (const auto text = callbacks_.answer(*this); !text.empty() && !send_packet(client_.get(), text))
        return happens(mps::GateEvent::kClientGone);
      break;
    case mps::GateAction::kFarewell:
      (void)send_packet(client_.get(), mps::kGateEnd);
      drop();
      return callbacks_.ended(*this);
    case mps::GateAction::kIntroduce:
      introduce();
      break;
    case mps::GateAction::kToClient:
      to_client(packet);
      break;
    case mps::GateAction::kHandOver:
      hand_over(packet);
      break;
    case mps::GateAction::kLetIn:
      let_in();
      break;
    case mps::GateAction::kDropDaemon:
      drop_daemon();
      break;
    case mps::GateAction::kEnd:
      drop();
      return callbacks_.ended(*this);
  }
  if (state_.stage != mps::GateStage::kEnded) arm();
}

void GatePassage::introduce() {
  // A process that had the number since its turn came would be introduced in its place.
  if (!peer_.lives()) return abandoned();
  auto sent = send_packet(daemon_.get(), mps::kGateCredentials, {}, &state_.client);
  const Status as_itself = sent;
  if (!sent && (sent.error().kind == Kind::kDenied || sent.error().kind == Kind::kNotFound)) {
    const mps::GateSender ours{::getpid(), ::geteuid(), ::getegid()};
    sent = send_packet(daemon_.get(), mps::kGateCredentials, {}, &ours);
  }
  if (!sent || !send_packet(daemon_.get(), mps::kGateNewClient)) return happens(mps::GateEvent::kDaemonGone);
  callbacks_.introduced(*this, as_itself);
}

void GatePassage::hand_over(const GatePacket& packet) {
  // First the daemon, which serves nobody until it has this (measured: clients start as usual).
  if (!send_packet(daemon_.get(), mps::kGateTaken)) drop_daemon();
  to_client(packet);
}

void GatePassage::let_in() {
  was_let_in_ = true;
  callbacks_.let_in(*this);
  if (!daemon_) happens(mps::GateEvent::kDaemonGone);
}

void GatePassage::drop_daemon() {
  loop_.cancel(std::exchange(daemon_watch_, 0));
  daemon_.reset();
}

void GatePassage::to_client(const GatePacket& packet) {
  if (!send_packet(client_.get(), packet.bytes, packet.descriptors)) happens(mps::GateEvent::kClientGone);
}

Status GatePassage::connect(const std::string& path) {
  const auto self = shared_from_this();
  auto connected = connect_to_daemon(path);
  if (!connected) {
    happens(mps::GateEvent::kNoDaemon);
    return std::unexpected(std::move(connected).error());
  }
  daemon_ = *std::move(connected);
  daemon_watch_ = loop_.watch(daemon_.get(), EPOLLIN | EPOLLRDHUP, [self](std::uint32_t) { self->on_daemon(); });
  happens(daemon_watch_ == 0 ? mps::GateEvent::kDaemonGone : mps::GateEvent::kConnected);
  return {};
}

void GatePassage::refuse() {
  happens(mps::GateEvent::kRefused);
}

void GatePassage::no_limits() {
  happens(mps::GateEvent::kNoLimits);
}

void GatePassage::abandoned() {
  happens(mps::GateEvent::kConnectorGone);
}

void GatePassage::arm() {
  timer_.stop();
  if (!state_.until) return;
  timer_.start(std::max(Duration{}, *state_.until - loop_.now()),
               [self = shared_from_this()] { self->happens(mps::GateEvent::kTimeUp); });
}

}  // namespace tranche::host
