#pragma once
// The relay of one pool: it listens on the `control` sockets of all grants' endpoints. It introduces a CUDA process
// that connects to the MPS control daemon under that process's own credentials, and forwards no command
// (mps/relay/handshake.h; docs/internals/decisions/0009-relay.md). The daemon serves one connection at a time, so the
// relay connects to it for one client after the other, one of each grant at a time, each with deadlines; a tenant that
// stalls delays the others only for moments (mps/relay/relay_turns.h). While the pool does not serve, clients wait
// here, up to RelayTimes::turn.
//
// Where grants have different limits, the relay sets a grant's limits on the daemon before it connects a client of that
// grant (`prepare`), and connects no client with different limits until the server's reply and its log show that it has
// accepted that one. Measured: a client receives its limits while it connects
// (docs/internals/evidence/server-limits.md). Not for the pool's own commands, which go to `control_privileged`.
//
// Loop thread only. Callbacks run in callbacks of the loop; they may call the relay.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "mps/relay/handshake.h"
#include "os/files/files.h"
#include "os/loop/loop.h"

namespace tranche::host {

struct RelaySettings {
  std::string daemon_socket;  // <pipe>/control
  mps::RelayTimes times;
  std::size_t handshakes_per_grant = 16;    // more of them wait unaccepted
  std::size_t handshakes = 256;             // of all grants; each has one besides
  std::size_t connections_per_grant = 512;  // handshakes and clients that are in
  std::size_t connections = 4096;           // of all grants
  std::size_t connections_always = 16;      // that each grant has besides
};

// What happened at an endpoint since it was opened.
struct EndpointCounters {
  std::uint64_t let_in = 0;    // connections; a CUDA process makes two
  std::uint64_t attempts = 0;  // to command the daemon, and whatever else no CUDA process does
  std::uint64_t refused = 0;   // by the grant's admission
  std::uint64_t stalled = 0;   // cut off because they held the daemon up
  std::uint64_t failed = 0;    // daemon or server were not there in time
  friend bool operator==(const EndpointCounters&, const EndpointCounters&) = default;
};

struct EndpointView {
  std::vector<int> clients;  // processes that came through it and live; sorted
  EndpointCounters counters;
  friend bool operator==(const EndpointView&, const EndpointView&) = default;
};

class Relay {
 public:
  using Prepared = std::function<void(const Status&)>;
  struct Callbacks {
    // Why this process may not come in; "" when it may. Asked when it says that it is a client, and at its turn.
    std::function<std::string(const std::string& grant, int pid)> refuse;
    std::function<void(const std::string& grant, int pid)> on_client;  // a process that was not here yet comes in
    std::function<void(const std::string& grant, int pid)> on_gone;    // it ended
    // A connection ended as one should not (is_attempt, refused, stalled, a daemon that is not as it should be).
    std::function<void(const std::string& grant, const mps::Passage&, std::uint32_t user)> on_trouble;
    // The daemon was told our name instead of a client's, and why. Once until it works again.
    std::function<void(const Error&)> on_not_itself;
    std::function<void()> on_change;  // what endpoints() gives changed
    // The server may take no client any more: a client broke off with it, or two in a row waited for it in vain,
    // without one that was let in between.
    std::function<void(const std::string& why)> on_server_doubted = {};
    // A client's turn has come: makes the grant's limits those of whom the daemon takes next. `done` comes once,
    // perhaps at once. An error that may pass (kConflict, kTimeout, kUnavailable) has the client wait on, any other
    // keeps it out. Empty: all are worth the same.
    std::function<void(const std::string& grant, Prepared done)> prepare = {};
    // What a container of this grant is told that asks about its own share (mps/relay/relay_questions.h); "" = nothing.
    // Empty: nobody is told anything.
    std::function<std::string(const std::string& grant, const mps::RelayQuestion&)> answer = {};
    // Looks at a process that is a client by its own word, before it waits for its turn. `done` comes once, perhaps at
    // once, with why it may not come in; "" when it may. Empty: nobody is looked at.
    std::function<void(const std::string& grant, int pid, std::function<void(const std::string& why_not)> done)> look =
        {};
    // The daemon's socket for clients of this grant, where each has its own. Empty: RelaySettings::daemon_socket.
    std::function<std::string(const std::string& grant)> socket = {};
  };
  static std::unique_ptr<Relay> open(Loop& loop, RelaySettings settings, Callbacks callbacks);
  virtual ~Relay() = default;  // closes everything; socket files stay, for the next start to replace

  // Listens at `<door>/control`, replacing what is there. Idempotent while it listens there already.
  virtual Status open_endpoint(const std::string& grant, const Dir& endpoint) = 0;
  // What its clients are worth from their next turn on, as a word that is equal for equal limits.
  virtual void set_kind(const std::string& grant, const std::string& kind) = 0;
  virtual void close_endpoint(const std::string& grant) = 0;  // its connections too; clients that are in live on
  // `waits`: new connections at an open endpoint stay in its backlog, until it is called with false.
  virtual void keep_waiting(const std::string& grant, bool waits) = 0;
  // Its clients are clients of no grant from now on, and do not count where the grant has others: their grant is "".
  virtual void disown(const std::string& grant) = 0;
  virtual void serve() = 0;  // the daemon takes clients from now on
  virtual void hold() = 0;   // not now
  // For a CUDA start of our own that does not come through an endpoint (a proof), under the grant "": its limits are
  // prepared as a client's are, and while it has the turn no client of another kind comes in. on_turn comes once,
  // perhaps at once, also when the limits could not be set; never after end_turn().
  virtual std::uint64_t take_turn(std::function<void()> on_turn) = 0;
  virtual void end_turn(std::uint64_t turn) = 0;
  // The pool has another server. Until one client is let in after a stall, the server counts as stuck, and clients that
  // then get no word from it are told as its victims (RelayEnd::kServerLate), not as having stalled.
  virtual void new_server() = 0;
  // The server's log says that it has taken this process.
  virtual void server_took(int pid) = 0;
  // A process that was let in before this program started.
  virtual void remember(const std::string& grant, int pid) = 0;

  virtual bool has_endpoint(const std::string& grant) const = 0;
  virtual EndpointView endpoint(const std::string& grant) const = 0;
  virtual std::vector<std::string> endpoints() const = 0;  // sorted
  virtual const std::string* grant_of(int pid) const = 0;  // null: not a client that came through here; "": of
                                                           // none any more
  virtual std::size_t clients() const = 0;                 // processes, of all endpoints
};

// Whether what answers at `socket` greets as the relay needs it. kUnsupported: it says something else; kTimeout;
// kUnavailable: nobody there. Dropping it gives up.
class RelayProbe {
 public:
  virtual ~RelayProbe() = default;
};
std::unique_ptr<RelayProbe> probe_daemon(Loop& loop, const std::string& socket, Duration deadline,
                                         std::function<void(const Status&)> done);

}  // namespace tranche::host
