#pragma once
// The MPS control daemon's stand-in: the files in the pipe directory, the command sessions, the connecting CUDA
// processes, and the servers that it starts for them. It runs until quit, a signal or the loss of its lock.
// Single-threaded, one poll loop. Behaviours and their evidence: README-mps.md.
#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "standins/mps/commands.h"
#include "standins/mps/handshake.h"
#include "standins/mps/limits.h"
#include "standins/mps/log.h"
#include "standins/mps/visible.h"
#include "standins/mps/wire.h"
#include "standins/node/sim_node.h"

namespace tranche::sim {

struct ControlOptions {
  std::string pipe_directory;
  std::string log_directory;
  std::string server_program;  // path of nvidia-cuda-mps-server
  bool multi_user = false;
  double threads = 100.0;  // the default for future servers
  MemoryLimits memory;
};

// The daemon's resources before it serves; acquiring them fails if another daemon uses the directory.
struct PipeDirectory {
  Fd lock;
  Fd control;
  Fd privileged;
};
enum class Claim { kTaken, kOtherDaemon, kFailed };
Claim claim_pipe_directory(const std::string& directory, PipeDirectory* claimed, std::string* why);

class ControlDaemon {
 public:
  // server_output: the servers' log descriptor.
  ControlDaemon(std::unique_ptr<Node> node, std::vector<VisibleGpu> devices, ControlOptions options,
                PipeDirectory directory, MpsLog log, int server_output);
  int run();

 private:
  // kGreeted and kHandedOver block all other clients: the daemon waits only for their next message.
  enum class SessionKind { kGreeted, kCommands, kClient, kHandedOver };
  struct Session {
    Fd fd;
    Peer peer;
    bool privileged = false;
    SessionKind kind = SessionKind::kGreeted;
    bool known = false;             // its credentials have arrived
    std::size_t announced = 0;      // bytes of the next command
    bool ending = false;            // it has no more commands
    std::deque<std::string> lines;  // commands not yet begun
    std::int64_t waits_for = 0;     // the request to a server that must be answered first
    bool pending = false;           // a client on the pending list
    bool dead = false;              // it disconnected while pending
    bool quits = false;             // waits for the end of the daemon
    bool closed = false;            // to be removed after this iteration
  };
  struct Server {
    pid_t pid = 0;
    uid_t uid = 0;
    Fd channel;
    Fd watch;  // pidfd
    bool ready = false;
    int clients = 0;
    bool leaving = false;       // asked to shut down; it still serves its user until it can
    bool forced = false;        // and it must shut down now
    std::int64_t retry_ns = 0;  // when to ask again; 0 = not
    std::int64_t retry_after_ms = 0;
  };

  // Steps of the loop.
  void accept_from(const Fd& listener, bool privileged);
  void hear_session(Session& session);
  void hear_greeted(Session& session, const Packet& packet);
  void hear_command(Session& session, const std::string& bytes);
  void begin_commands(Session& session);
  const Session* waited_for() const;  // the connection that blocks all others
  bool hear_server(Server& server);   // false: no more data
  void bury(Server& server);
  void retry_shutdowns(std::int64_t now_ns);
  int wait_ms(std::int64_t now_ns) const;

  // Commands (control_commands.cpp).
  void run_commands(Session& session);
  void execute(Session& session, const ControlCommand& command);
  bool allowed(const Session& session, CommandKind kind) const;
  void reply(Session& session, const std::string& text, const std::string& log_only = {});
  void ask(Session& session, Server& server, const std::string& what, std::map<std::string, std::string> fields = {});
  void execute_default(Session& session, const ControlCommand& command);
  void execute_on_server(Session& session, const ControlCommand& command);
  std::string device_query(bool csv) const;

  Server* server_named(const ControlCommand& command, std::string* missing);

  // Servers and clients (control_servers.cpp).
  void place(Session& session);
  void place_pending();
  Server* serving(uid_t uid);
  Server* server_for(Session& session);  // the existing one
  Server* start_server(uid_t uid);
  void shut_down(Server& server, bool back_off);
  void force_down(Server& server);
  void quit(Session& session, const ControlCommand& command);
  void remove_files() const;
  void hand_over(Session& session, Server& server);

  std::unique_ptr<Node> node_;
  std::vector<VisibleGpu> devices_;
  ControlOptions options_;
  PipeDirectory directory_;
  MpsLog log_;
  int server_output_;
  uid_t owner_;
  int priority_ = 0;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::map<std::int64_t, pid_t> questions_;  // open requests → the server's pid
  std::int64_t next_question_ = 1;
  int failed_starts_ = 0;
  bool quitting_ = false;
  std::int64_t quit_by_ns_ = 0;  // quit -t: when servers are killed; 0 = never
};

}  // namespace tranche::sim
