#pragma once
// Private to mps: the grant of each client process, recorded when the client connects through the grant's endpoint. A
// process that has exited is not reported even before its exit is noticed (pidfd), so that an action on its pid in the
// same callback cannot reach a process that reuses the number.
//
// It also counts the places of the server that a client has: one for each connection beyond the first, which counts
// before the server can make a context for it, and at least one. A server notices the end of a client, or of a
// connection, only when all descriptors of the channels are closed. A client that keeps copies of the channels of a
// context that has ended therefore keeps its place. A client that has exited and whose channels another process keeps
// (a fork) keeps its memory and its places, and may get more (measured: docs/internals/evidence/mps-handshake.md,
// "Contexts, and clients that have exited"). A client that has exited stays in the table as a remnant until the server
// has closed its channels, usually at once; where the server's descriptors cannot be read, or the channels are not
// known, until the server's log reports the end of its contexts or its list no longer has it. Loop thread only.
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "mps/relay/client_file.h"
#include "os/loop/fd.h"
#include "os/loop/loop.h"

namespace tranche::mps {

// A descriptor through which client and server talk, as the kernel names it in /proc/<pid>/fd: "pipe:[1137]".
using Channel = std::string;
using ConnectionId = std::uint64_t;

// Calls `look` for what each descriptor of a process leads to, from /proc/<pid>/fd, without opening it, which could
// block on a file system of a tenant's, until `look` returns false. false: its descriptors cannot be read, as of a
// process that has exited; those of others need CAP_SYS_PTRACE. Any thread; a process with a thousand descriptors takes
// about a millisecond.
bool look_at_descriptors(int pid, const std::function<bool(std::string_view channel)>& look);
// Adds the pipes that a process has open. false: as above.
bool add_open_pipes(int pid, std::set<Channel>& pipes);

// A client that has exited and that the server still has.
struct Remnant : KnownClient {
  int pid = 0;
  std::vector<Channel> channels = {};  // as far as they are known
  bool listed = false;                 // by the server, after the exit: something keeps it
};

class ClientTable {
 public:
  ClientTable(os::Loop& loop, std::function<void(int pid)> on_gone) : loop_(loop), on_gone_(std::move(on_gone)) {}
  ~ClientTable();
  ClientTable(const ClientTable&) = delete;
  ClientTable& operator=(const ClientTable&) = delete;

  // true: a new client. false: already known, or it has exited, or it is not visible (pid 0), or the server still has
  // contexts of an earlier process with this pid.
  bool remember(const std::string& grant, int pid, os::Fd pidfd);
  // The process that has the pid now, which became a client before this program started: its contexts are not known.
  bool remember(const std::string& grant, int pid);
  // All clients whose start is known, for restore() by the next program, which serves the same daemon.
  std::vector<StoredClient> stored() const;
  // A client that has exited by now counts as one that remains, until the servers' pipes are looked at.
  void restore(const StoredClient& stored);
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
  // A connection, which the caller numbers, begins. It has a place until connected() or not_connected(), so that no
  // other client gets that place meanwhile.
  void connects(int pid, ConnectionId connection);
  void not_connected(int pid, ConnectionId connection);
  // Before the client gets a channel of its server.
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
  std::optional<Remnant> remnant(int pid) const;
  void tried(int remnant);

 private:
  struct Connection {
    std::vector<Channel> channels;
    bool begins = false;
    bool own = false;
    std::optional<std::uint32_t> context = {};  // absent: it begins, or is the client's own
    bool followed() const;
  };
  struct Client : KnownClient {
    os::Fd pidfd = {};
    os::Loop::Id watch = 0;
    std::multiset<std::uint32_t> passed = {};  // contexts that the relay lets through, and the server has not named yet
    std::multiset<std::uint32_t> active = {};
    std::map<ConnectionId, Connection> connections = {};  // that begin, have channels that may be open, or are its own
    std::uint32_t next_context = 0;
    std::uint64_t exited = 0;  // boot_ticks(); 0 = it lives
    bool listed = false;       // after its exit
    bool alive() const;
    std::size_t contexts() const;
    std::size_t open() const;  // connections beyond the own one
    std::size_t beginning() const;
    bool begins_own() const {
      return !has_own && !earlier && passed.empty() && active.empty() && beginning() > 0 &&
             beginning() == connections.size();
    }
    std::size_t beyond_first(bool pipes_known) const;
    void end(std::uint32_t context);
    void drop_closed();  // connections
    std::vector<Channel> channels() const;
    bool has_channels() const;
    bool may_stay() const { return earlier || !passed.empty() || !active.empty() || has_channels(); }
    bool may_have_more() const;  // channels
    bool followed() const;       // its channels are pipes that are known
  };
  template <class Chosen>
  std::vector<int> pids_where(Chosen chosen) const {
    std::vector<int> pids;
    for (const auto& [pid, client] : clients_)
      if (chosen(client)) pids.push_back(pid);
    return pids;
  }
  Client* find(int pid);                // null: not known
  const Client& client(int pid) const;  // that has nothing, if it is not known
  std::size_t places(const Client& client) const;
  void exited(int pid);

  os::Loop& loop_;
  std::function<void(int)> on_gone_;
  std::map<int, Client> clients_;
  bool pipes_known_ = true;  // the last look at the servers' pipes succeeded
  ConnectionId next_restored_ = std::numeric_limits<ConnectionId>::max();
};

}  // namespace tranche::mps
