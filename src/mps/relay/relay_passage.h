#pragma once
// Private to mps: one client's connection at an endpoint, and our connection to the daemon for it. Carries out what
// mps/relay/handshake.h decides. Loop thread only.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "mps/relay/relay_packet.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"

namespace tranche::host {

class RelayPassage : public std::enable_shared_from_this<RelayPassage> {
 public:
  // Each runs in a callback of the loop or inside connect(). `ended` runs last; after it the passage does nothing more.
  struct Callbacks {
    std::function<void(RelayPassage&)> wants_turn;
    std::function<void(RelayPassage&, const Status& as_itself)> introduced;  // to the daemon; whether as the client
    std::function<void(RelayPassage&)> let_in;
    std::function<std::string(const RelayPassage&)> answer;  // to its query of its own limits; "" = none
    std::function<void(RelayPassage&)> ended;
  };

  RelayPassage(Loop& loop, std::uint64_t id, std::string grant, Fd client, const mps::RelayTimes& times,
               const Callbacks& callbacks);
  ~RelayPassage();
  RelayPassage(const RelayPassage&) = delete;
  RelayPassage& operator=(const RelayPassage&) = delete;

  void begin();                             // sends the greeting
  Status connect(const std::string& path);  // at its turn, to the daemon. An error: no connection, it still waits
  void refuse();
  void no_limits();
  void abandoned();  // the process that connected has exited
  void drop();       // closes both sides, without a callback

  std::uint64_t id() const { return id_; }
  const std::string& grant() const { return grant_; }
  const mps::Passage& state() const { return state_; }
  std::uint32_t user() const { return peer_.sender.uid; }
  bool connector_lives() const { return peer_.lives(); }  // valid until it is introduced
  Fd take_connector() { return std::move(peer_.pidfd); }  // valid once it is introduced
  bool was_let_in() const { return was_let_in_; }

 private:
  void on_client();
  void on_daemon();
  void happens(mps::RelayEvent event, RelayPacket packet = {});
  void introduce();
  void to_client(const RelayPacket& packet);
  void hand_over(const RelayPacket& packet);
  void let_in();
  void drop_daemon();
  void arm();

  Loop& loop_;
  std::uint64_t id_;
  std::string grant_;
  Fd client_;
  Peer peer_;
  const mps::RelayTimes& times_;
  const Callbacks& callbacks_;
  mps::Passage state_;
  bool was_let_in_ = false;
  Fd daemon_;
  Loop::Id client_watch_ = 0;
  Loop::Id daemon_watch_ = 0;
  Timer timer_{loop_};
};

}  // namespace tranche::host
