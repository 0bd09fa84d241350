#pragma once
// Private to mps: one client's connection at an endpoint, our connection to the daemon for it, and the exchange between
// the client and its server. Carries out what mps/relay/handshake.h decides. Loop thread only.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "mps/relay/relay.h"
#include "mps/relay/relay_packet.h"
#include "os/loop/loop.h"

namespace tranche::mps {

class RelayPassage : public std::enable_shared_from_this<RelayPassage> {
 public:
  RelayPassage(Relay& relay, std::uint64_t id, std::string grant, os::Fd client);
  ~RelayPassage();
  RelayPassage(const RelayPassage&) = delete;
  RelayPassage& operator=(const RelayPassage&) = delete;

  void begin();                             // sends the greeting
  Status connect(const std::string& path);  // at its turn, to the daemon. An error: no connection, it still waits
  void end(RelayEnd end, const std::string& why = {});
  void drop();  // closes all sides, without a callback; its server accepts others afterwards
  // For an endpoint that closes. Closes the client's connection. true: the daemon is looking for a server, or the
  // server has not greeted the client yet; the passage continues without the client and its grant until Relay::ended().
  bool leave_to_server();
  // At the end of the program, before drop(): blocks up to that long until the daemon has sent the server's socket, or
  // the server its first message. May end the passage.
  void wait_for_server(int milliseconds);

  std::uint64_t id() const { return id_; }
  const std::string& grant() const { return grant_; }
  const Passage& state() const { return state_; }
  bool connector_lives() const { return peer_.lives(); }
  os::Fd take_connector() { return std::move(connector_); }  // valid once it is introduced
  bool was_let_in() const { return was_let_in_; }

 private:
  struct Side {
    RelayEvent says, leaves;
    bool tenant = false;  // or what a tenant may be connected to
    os::Fd fd = {};
    os::Loop::Id watch = 0;
  };

  void happens(RelayEvent event, RelayMessage packet = {});
  bool watch(Side& side);
  void unwatch(Side& side);
  void close(Side& side);
  void hear(Side& side);
  void hear_server(RelayMessage packet);
  void hear_client_in_exchange(RelayMessage packet);
  void connects();
  void introduce();
  void to_client(const RelayMessage& packet);
  void hand_over(RelayMessage packet);
  void let_in();
  Status reserve_descriptors();
  Status send_server(std::string_view bytes);
  void complete_exchange();
  void finish_exchange();
  void leave_channels(std::span<const std::string_view> messages);
  void drop_client();
  void drop_exchange();
  void arm();

  Relay& relay_;
  os::Loop& loop_;
  std::uint64_t id_;
  std::string grant_;  // "": its endpoint was closed
  Side client_{RelayEvent::kFromClient, RelayEvent::kClientGone, true};
  Side daemon_{RelayEvent::kFromDaemon, RelayEvent::kDaemonGone};
  // The socket that the daemon had for the client, and our end of the one that the client gets.
  Side server_{RelayEvent::kServerSaid, RelayEvent::kServerGone};
  Side exchange_{RelayEvent::kClientSaid, RelayEvent::kClientBrokeOff, true};
  os::Fd for_client_;  // the other end, until it is sent
  Peer peer_;
  const RelayTimes& times_;
  Passage state_;
  bool was_let_in_ = false;
  bool counts_ = false;  // its connection: Relay::connects() ran
  os::Fd connector_;     // a second descriptor of the process, for the table of clients
  os::Timer timer_{loop_};
};

}  // namespace tranche::mps
