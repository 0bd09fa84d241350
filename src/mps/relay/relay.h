#pragma once
// The relay of one pool: it listens on the `control` sockets of all grants' endpoints. It introduces a CUDA process
// that connects to the MPS control daemon under that process's own credentials, and forwards no command
// (mps/relay/handshake.h; docs/internals/decisions/0009-relay.md). Daemon and server serve one connection at a time, so
// the relay connects one client after the other, each with deadlines; a tenant that stalls delays the others by
// RelayTimes::exchange (RelayTurns). While the pool does not serve, clients wait here, up to RelayTimes::turn.
//
// The relay sets a grant's limits on the daemon before it connects a client of that grant (`prepare`), and connects the
// next client once the server has accepted that one. Measured: a client receives its limits while it connects
// (docs/internals/evidence/shares.md). Not for the pool's own commands, which go to `control_privileged`.
//
// Loop thread only. It calls its owner in callbacks of the loop; these calls may call the relay.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/find_in.h"
#include "base/result.h"
#include "mps/relay/handshake.h"
#include "mps/relay/tenant_sockets.h"
#include "os/files/files.h"
#include "os/loop/fd.h"
#include "os/loop/loop.h"
#include "os/process/process.h"

namespace tranche::mps {

// Schedules connections to the MPS control daemon, which serves one connection at a time, has one set of limits for new
// clients, and, like its server, serves no other while a client stalls (docs/internals/evidence/mps-handshake.md). One
// client is with the daemon at a time. Among grants, the one that has waited longest since its last turn goes first.
// Pure.
class RelayTurns {
 public:
  void wait(std::uint64_t id, const std::string& grant) { turns_.push_back({id, grant}); }
  std::optional<std::uint64_t> next();  // the next client, which is with the daemon until leave(); none until then
  void back(std::uint64_t id);          // there was no daemon: it is first in the queue again
  void leave(std::uint64_t id);         // it has left the queue or the daemon
  void forget(const std::string& grant) { last_turns_.erase(grant); }  // call when no client of it waits
  bool others_wait() const { return turns_.size() > 1; }               // than one that is with the daemon

 private:
  struct Turn {
    std::uint64_t id = 0;
    std::string grant;
  };
  std::vector<Turn> turns_;        // in the order of arrival
  std::uint64_t with_daemon_ = 0;  // 0 = none
  std::uint64_t last_turn_ = 0;
  std::map<std::string, std::uint64_t> last_turns_;  // of each grant, as a count of turns
};

// --- what is kept of the clients ------------------------------------------------------------------------------------

// `<mps-root>/pools/<pool>/clients.txt`: the clients of a pool's relay, for the next start of `tranche mps` while the
// daemon keeps running. It is written before a server can make a context for a connection, so that a crash of this
// program loses no context. The first line names the boot, because pids and pipe numbers are valid for one boot only;
// each further one is a client, its fields separated by tabs. Pure; fuzzed: parse ∘ render is the identity.
inline constexpr const char* kClientFile = "clients.txt";

// A descriptor through which client and server talk, as the kernel names it in /proc/<pid>/fd: "pipe:[1137]".
using Channel = std::string;
using ConnectionId = std::uint64_t;

struct ClientConnection {
  ConnectionId id = 0;                        // of the caller; 0: of an earlier program, or it did not pass the relay
  std::vector<Channel> channels = {};         // that may be open; none: they are not known
  bool own = false;                           // of the process
  std::optional<std::uint32_t> context = {};  // absent: not sent yet, the process's own, or its context has ended
  bool named = false;                         // the context, by the server; else the relay let it through
  bool followed() const;
  friend bool operator==(const ClientConnection&, const ClientConnection&) = default;
};

// What ClientTable knows of a client. A client that has exited and that the server still has is a remnant.
struct KnownClient {
  int pid = 0;
  std::uint64_t started = 0;   // as in /proc/<pid>/stat; 0 = not known
  unsigned tries = 0;          // to end what keeps it
  int place_with = 0;          // `heir`: the pid that inherited the place that a client has without a context; 0 = none
  std::string grant = {};      // "": of a former tenant
  std::string container = {};  // mps/endpoints/containers.h, container_of(); "": not known
  std::vector<ClientConnection> connections = {};  // that have a context or channels that may be open, or are its own
  bool listed = false;                             // by the server, after the exit: something keeps it. Not stored
  std::vector<Channel> channels() const;
  bool has_own() const { return std::ranges::find(connections, true, &ClientConnection::own) != connections.end(); }
  friend bool operator==(const KnownClient&, const KnownClient&) = default;
};
struct StoredClients {
  std::string boot;  // "": the file names none, so its clients cannot be used
  std::vector<KnownClient> clients;
  friend bool operator==(const StoredClients&, const StoredClients&) = default;
};

std::string render_clients(const StoredClients& stored);
StoredClients parse_clients(std::string_view text);  // skips lines that it cannot read

// Calls `look` for what each descriptor of a process leads to, from /proc/<pid>/fd, without opening it, which could
// block on a file system of a tenant's, until `look` returns false. false: its descriptors cannot be read, as of a
// process that has exited; those of others need CAP_SYS_PTRACE. Any thread; a process with a thousand descriptors takes
// about a millisecond.
bool look_at_descriptors(int pid, const std::function<bool(std::string_view channel)>& look);
// Adds the pipes that a process has open. false: as above.
bool add_open_pipes(int pid, std::set<Channel>& pipes);

// --- the clients -----------------------------------------------------------------------------------------------------

// The grant of each client process, recorded when the client connects through the grant's endpoint. A
// process that has exited is not reported even before its exit is noticed (pidfd), so that an action on its pid in the
// same callback cannot reach a process that reuses the number.
//
// It also counts the places of the server that a client has: one for each connection beyond the first, which counts
// before the server can make a context for it, and at least one. While a client is with the daemon (RelayTurns), no
// other one is admitted, so a connection that begins needs no place yet. A server notices the end of a client, or of a
// connection, only when all descriptors of the channels are closed. A client that keeps copies of the channels of a
// context that has ended therefore keeps its place. A client that has exited and whose channels another process keeps
// (a fork) keeps its memory and its places, and may get more (measured: docs/internals/evidence/mps-handshake.md,
// "Contexts, and clients that have exited"). A client that has exited stays in the table as a remnant until the server
// has closed its channels, usually at once; where the server's descriptors cannot be read, or the channels are not
// known, until the server's log reports the end of its contexts or its list no longer has it.
class ClientTable {
 public:
  ClientTable(os::Loop& loop, std::function<void(int pid)> on_gone) : loop_(loop), on_gone_(std::move(on_gone)) {}
  ~ClientTable();
  ClientTable(const ClientTable&) = delete;
  ClientTable& operator=(const ClientTable&) = delete;

  // true: a new client. false: already known, or it has exited, or it is not visible (pid 0), or the server still has
  // contexts of an earlier process with this pid.
  bool remember(const std::string& grant, int pid, os::Fd pidfd);
  // All clients whose start is known, for restore() by the next program, which serves the same daemon.
  std::vector<KnownClient> stored() const;
  // A client that has exited by now counts as one that remains, until the servers' pipes are looked at.
  void restore(const KnownClient& stored);
  void disown(const std::string& grant);                // its clients are of the grant "" from now on
  std::vector<int> of(const std::string& grant) const;  // that live; sorted
  const std::string* grant_of(int pid) const;           // null: not a living client; "": its grant has disowned it

  // `started`: of the client.
  void in_container(int pid, std::string container, std::uint64_t started);
  std::vector<int> clients_in(const std::string& container) const;  // of all grants; sorted
  void notice(int pid);  // records the client's exit now, if its process has exited
  // A client exited before it had named itself to its server, which got `pid` instead, of a process that has exited.
  // The connection counts under that pid until the server has closed its channels.
  void inherit(int client, int pid, ConnectionId connection, const std::string& grant);
  // Before the client gets a channel of its server, for a connection that the caller numbers.
  void gets(int pid, ConnectionId connection, const Channel& channel);
  // Before the server gets the last message of a connection with this context; 0 = the process's own, of which it has
  // one.
  void connected(int pid, ConnectionId connection, std::uint32_t context);
  // One more than the highest so far; 0 before the process's own connection. A guess: the server accepts any number
  // (measured).
  std::uint32_t next_context(int pid) const { return client(pid).next_context; }
  // From the server's log. true: a remnant is gone.
  void context_began(int pid, std::uint32_t context);
  bool context_ended(int pid, std::uint32_t context);
  // All pids that the servers list in an answer to a question of time `asked` (boot_ticks()). A list has only clients
  // with contexts. Absent clients that had exited by then have left, if their channels are not known or `open` is
  // absent (looked()). true: some have.
  bool listed(std::uint64_t asked, const std::vector<int>& pids, bool open_known);
  // The pipes that the servers have open at this moment; absent: not known. true: clients have left, or have fewer
  // places.
  bool looked(const std::optional<std::set<Channel>>& open);
  // Whether looked() may change something: a client that has exited, or one with more open connections than contexts
  // that the server has named.
  bool waits_for_server() const;

  // Clients and remnants of the grant take these places of the server.
  std::size_t places(const std::string& grant) const;
  std::size_t contexts(int pid) const { return client(pid).contexts(); }  // as the server's log names them
  // The client's places without that of its first connection.
  std::size_t beyond_first(int pid) const { return client(pid).beyond_first(pipes_known_); }
  bool knows(int pid) const { return clients_.contains(pid); }
  // Clients that have exited and that the server still has: usually for a moment, or because other processes keep their
  // channels; sorted. "": of grants that were disowned.
  std::vector<int> remnants(const std::string& grant) const;
  std::optional<KnownClient> remnant(int pid) const;
  void tried(int remnant);

 private:
  struct Client : KnownClient {
    os::Fd pidfd = {};
    os::Loop::Id watch = 0;
    std::uint32_t next_context = 0;
    std::uint64_t exited = 0;  // boot_ticks(); 0 = it lives
    bool alive() const;
    std::size_t contexts() const;
    std::size_t open() const;           // connections beyond the own one
    std::size_t count(auto of) const {  // connections
      return static_cast<std::size_t>(std::ranges::count_if(connections, of));
    }
    std::size_t beyond_first(bool pipes_known) const;
    ClientConnection& connection(ConnectionId id);  // is added if there is none
    void drop_closed();                             // connections
    bool has_channels() const;
    bool may_stay() const { return has_channels() || contexts() > 0; }
    bool may_have_more() const { return channels().size() < kMostChannels; }
    bool followed() const;  // its channels are pipes that are known
  };
  // A client has four channels for each connection; those that its server has closed are dropped at each look. 48
  // places need 196. A client can have this many only if the servers' pipes cannot be read; then the server's log and
  // list decide.
  static constexpr std::size_t kMostChannels = 4096;
  template <class Chosen>
  std::vector<int> pids_where(Chosen chosen) const {
    std::vector<int> pids;
    for (const auto& [pid, client] : clients_)
      if (chosen(client)) pids.push_back(pid);
    return pids;
  }
  const Client& client(int pid) const;  // that has nothing, if it is not known
  std::size_t places(const Client& client) const;
  void exited(int pid);

  os::Loop& loop_;
  std::function<void(int)> on_gone_;
  std::map<int, Client> clients_;
  bool pipes_known_ = true;  // the last look at the servers' pipes succeeded
};

// --- the relay -------------------------------------------------------------------------------------------------------

class RelayPassage;

// Private to Relay: processes that have exited, under whose pids the relay completes the exchange of a client that has
// exited. The relay keeps some, because a tenant may use up all pids of the node for a moment.
class ExitedChildren {
 public:
  ExitedChildren() { refill({}); }
  // With a pid that is not known. Absent: no process could be started, and none is left.
  std::optional<os::ExitedChild> take(const std::function<bool(int pid)>& is_known) {
    std::erase_if(kept_, [&](const os::ExitedChild& each) { return is_known(each.pid()); });
    refill(is_known);
    if (kept_.empty()) return std::nullopt;
    os::ExitedChild child = std::move(kept_.back());
    kept_.pop_back();
    return child;
  }

 private:
  static constexpr std::size_t kKept = 4;
  static constexpr std::size_t kMostKnown = 128;

  // Children with a known pid are reaped last, because the kernel gives each process the next free pid.
  void refill(const std::function<bool(int pid)>& is_known) {
    std::vector<os::ExitedChild> known;
    while (kept_.size() < kKept && known.size() < kMostKnown) {
      auto child = os::ExitedChild::start();
      if (!child) return;
      (is_known && is_known(child->pid()) ? known : kept_).push_back(*std::move(child));
    }
  }

  std::vector<os::ExitedChild> kept_;
};

struct RelaySettings {
  std::string daemon_socket = {};  // <pipe>/control
  RelayTimes times = {};
  std::size_t handshakes_per_grant = 16;    // further ones wait unaccepted
  std::size_t handshakes = 256;             // of all grants, in addition to one each
  std::size_t connections_per_grant = 512;  // handshakes and admitted clients
  std::size_t connections = 4096;           // of all grants
  std::size_t connections_always = 16;      // that each grant has in addition
  // A CUDA process makes two or three and one for each context; 48 processes at once stay below the burst.
  int connections_burst = 256;                                // that a grant may make at once
  Duration connection_every = std::chrono::milliseconds(10);  // beyond that; further ones wait unaccepted
};

// What happened at an endpoint since it was opened.
struct EndpointCounters {
  std::uint64_t let_in = 0;     // connections; a CUDA process makes two
  std::uint64_t attempts = 0;   // attempts to command the daemon, and others that no CUDA process makes
  std::uint64_t refused = 0;    // by the grant's admission
  std::uint64_t completed = 0;  // exchanges with the server that the relay completed in the client's place
  std::uint64_t failed = 0;     // the daemon or server was not there in time
  friend bool operator==(const EndpointCounters&, const EndpointCounters&) = default;
};

// The owner of a relay: it decides about the relay's clients, and prepares the daemon for them.
class RelayOwner {
 public:
  using Prepared = std::function<void(const Status&)>;
  using Looked = std::function<void(const std::string& why_not)>;  // "" = the process may connect

  struct Refusal {
    std::string why = {};   // "": the process may connect
    bool may_pass = false;  // connections are in its way that its server may be about to close: it waits up to 100 ms
  };
  // Called when the process declares itself a client, and at its turn.
  virtual Refusal refuses(const std::string& grant, int pid) = 0;
  virtual void client_connects(const std::string& grant, int pid) = 0;  // a new process
  virtual void client_exited(int pid) = 0;
  // A connection ended abnormally (is_attempt, refused, or an unexpected daemon or server).
  virtual void ended_badly(const std::string& grant, const Passage& passage) = 0;
  // The daemon got our identity instead of a client's, and why. Called once until it works again.
  virtual void not_as_client(const Error& why) = 0;
  virtual void clients_changed() = 0;  // or what counters() returns
  // The server may accept no more clients: two consecutive clients waited for it in vain, or a client broke off
  // (RelayEnd::kBrokeOff) an exchange that this program does not know (RelayExchange::foreign).
  virtual void server_doubted() = 0;
  // It is a client's turn: makes the daemon hold the grant's limits for the clients that it accepts next. `done` runs
  // once, perhaps inside the call, and before the next call. After an error that may pass (kConflict, kTimeout,
  // kUnavailable) the client keeps waiting; after any other it is refused.
  virtual void prepare(const std::string& grant, const Prepared& done) = 0;
  // The reply to a container of this grant that queries its own limits (mps/relay/handshake.h); "" = none.
  virtual std::string answer(const std::string& grant, const RelayQuestion& question) = 0;
  // Inspects a process that declares itself a client, before it waits for its turn. `done` runs once, perhaps inside
  // the call.
  virtual void look_at(const std::string& grant, int pid, const Looked& done) = 0;
  // The pipes that the pool's servers have open; absent: not known.
  virtual std::optional<std::set<Channel>> open_pipes() = 0;
  // Writes the text for Relay::restore() to a file before it returns.
  virtual void store_clients(const std::string& clients) = 0;

 protected:
  ~RelayOwner() = default;
};

class Relay {
 public:
  Relay(os::Loop& loop, RelaySettings settings, RelayOwner& owner);
  ~Relay();  // closes everything; socket files stay, for the next start to replace
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Listens at `<endpoint>/control` and replaces any file there. Idempotent while it listens there already.
  Status open_endpoint(const std::string& grant, const os::Dir& endpoint);
  void close_endpoint(const std::string& grant);  // closes its connections too; admitted clients keep running
  // Its clients get the grant "" and no longer count for this grant.
  void disown(const std::string& grant);
  void serve();                      // the daemon accepts clients from now on
  void hold() { serving_ = false; }  // clients wait
  // For a CUDA start of our own that does not use an endpoint (a proof), under the grant "": its limits are prepared
  // like a client's, and during its turn no client is connected. on_turn runs once, perhaps inside the call, also if
  // the limits could not be set; never after the end of the turn, which is that of the returned value.
  std::shared_ptr<void> take_turn(std::function<void()> on_turn);
  // The server's log reports that a context of this process has no place any more.
  void context_ended(int pid, std::uint32_t context);
  // All pids that the servers list in an answer to a question of time `asked` (boot_ticks()).
  void listed(std::uint64_t asked, const std::vector<int>& pids);
  // The last text that an earlier relay of this daemon gave to RelayOwner::store_clients(). Clients whose grant is not
  // among these are of former tenants. Call before the first serve().
  void restore(const std::string& clients, const std::vector<std::string>& grants);

  ClientTable& clients() { return clients_; }
  EndpointCounters counters(const std::string& grant) const;
  void tried(int remnant);

 private:
  friend class RelayPassage;  // calls what it needs of its relay, always in a callback of the loop or inside connect()

  // An endpoint of a grant, its listening socket and its counts.
  struct Endpoint {
    Endpoint(os::Loop& loop, std::function<void()> on_closed) : sockets(loop, std::move(on_closed)), pause(loop) {}
    TenantSockets sockets;
    os::Fd listening;
    os::Loop::Id watch = 0;
    os::Timer pause;
    std::size_t connections = 0;
    std::size_t handshakes = 0;
    MonoTime paced = MonoTime::min();  // when the last accepted connection was due
    EndpointCounters counters;
  };

  // --- from a passage, which does nothing more after ended() ---------------------------------------------------------
  void wants_turn(RelayPassage& passage, int looks);
  void introduced(RelayPassage& passage, const Status& as_itself);  // to the daemon; whether as the client
  void connects(const RelayPassage& passage);                       // before its server can make a context for it
  // The client exited before it had named itself to its server, which got this pid instead, of a process that has
  // exited. Other processes may have the channels.
  void left(RelayPassage& passage, int pid);
  void let_in(RelayPassage& passage);
  void ended(RelayPassage& passage);
  void close(const std::string& grant, os::Fd fd);  // a socket whose peer is the client

  void watch_endpoint(const std::string& grant);
  void pause_endpoint(const std::string& grant, Duration pause);
  void accept_some(const std::string& grant);
  bool has_capacity(const Endpoint& endpoint) const;
  void resume_endpoints();
  void pump();
  void prepared(std::uint64_t id, const Status& status);
  bool keeps_out(RelayPassage& passage, int looks);
  void gone(int pid);
  void changed();
  void store();
  void store_soon();
  bool look();
  void look_soon(Duration wait = std::chrono::milliseconds(5));
  void forget(const RelayPassage& passage);
  void count_end(Endpoint& endpoint, const RelayPassage& passage, const Passage& state);

  os::Loop& loop_;
  RelaySettings settings_;
  RelayOwner& owner_;
  ClientTable clients_;
  RelayTurns turns_;
  std::map<std::string, Endpoint> endpoints_;
  std::map<std::uint64_t, std::shared_ptr<RelayPassage>> passages_;
  std::map<std::uint64_t, std::function<void()>> own_turns_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // prepare(), look() and turns may end after us
  std::uint64_t next_id_ = 1;
  std::size_t handshakes_ = 0;
  ExitedChildren exited_children_;
  bool serving_ = false;
  bool pumping_ = false;
  bool preparing_ = false;  // prepare() has not answered yet
  bool logged_not_itself_ = false;
  int late_ = 0;                                // consecutive clients that got no server in time
  os::Timer wake_{loop_};                       // the next attempt to connect to the daemon
  std::map<std::uint64_t, int> without_place_;  // passages that wait for a place, with the number of their looks
  os::Timer place_look_{loop_};
  os::Timer look_{loop_};
  os::Timer store_{loop_};
  const std::string boot_ = os::boot_id();
  std::string stored_;  // the last text of store()
};

}  // namespace tranche::mps
