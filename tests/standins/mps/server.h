#pragma once
// nvidia-cuda-mps-server's stand-in: serves the clients of one control daemon, tracks their work in flight, and decides
// which clients a fault or a death kills. Its only inputs are the channel to its daemon and the connections of its
// clients; it exits when the channel closes. Single-threaded, one poll loop. Behaviours: README-mps.md.
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "standins/mps/commands.h"
#include "standins/mps/limits.h"
#include "standins/mps/log.h"
#include "standins/mps/visible.h"
#include "standins/mps/wire.h"
#include "standins/node/sim_node.h"

namespace tranche::sim {

struct ServerOptions {
  uid_t uid = 0;  // the user that the daemon started it for
  double threads = 100.0;
  MemoryLimits memory;
  int priority = 0;
  std::vector<std::string> uuids;  // devices in the daemon's order
};

class MpsServer {
 public:
  MpsServer(std::unique_ptr<Node> node, ServerOptions options, Fd channel, MpsLog log);
  // Acquires the GPUs: false if compute mode or memory does not permit it (the process then exits with status 1).
  bool start();
  int run();  // until the daemon requests it or exits; the exit status

 private:
  struct Context {
    int ordinal = 0;  // the server's number of the device
    int id = 0;
    bool poisoned = false;
    bool tensor = false;         // the work in flight: on tensor cores
    std::int64_t kernel_ns = 0;  // how long each of its kernels is
    std::int64_t until_ns = 0;   // monotonic: when it is done
    WorkInFlight work(std::int64_t now_ns) const { return {tensor, kernel_ns, until_ns - now_ns}; }
  };
  struct Client {
    pid_t pid = 0;
    uid_t uid = 0;
    std::uint64_t id = 0;
    Fd exchange;   // with the client, until it has joined (handshake.h)
    int said = 0;  // its messages there
    // Of the connection; 0: the process's own. The connection of a context only ends with it: what the process sends
    // comes through its own.
    std::uint32_t number = 0;
    int used_on = -1;  // a context's connection: its device
    Fd fd, pipe;
    bool joined() const { return said == 3; }
    // The server's limits when it connected: later changes apply to future clients
    // (docs/internals/evidence/shares.md).
    double threads = 100.0;
    MemoryLimits memory;
    bool terminated = false;  // by terminate_client
    std::vector<Context> contexts;
    // It gets a terminal as its descriptor of the nvidia-uvm device. This other side hears of the last close.
    Fd uvm;
  };
  struct Leaving {  // its connection has ended
    std::unique_ptr<Client> client;
    Fd process;         // not valid: it has exited
    bool held = false;  // it has exited, and another process has its descriptor of the nvidia-uvm device
  };
  struct Drain {  // a terminate_client in progress
    std::int64_t due_ns = 0;
    std::int64_t ask = 0;
    std::vector<int> hurt;  // the devices whose clients it kills
  };

  bool share_memory();

  // From the daemon.
  bool hear_daemon();  // false: shut down
  void admit(const Message& message, Fd connection);
  void admit_waiting();
  void answer(std::int64_t ask, const std::string& text);
  void answer_question(const Message& message);
  void terminate(std::int64_t ask, pid_t pid);
  void finish_drains(std::int64_t now_ns);
  std::string set_limit(const Message& message);

  // From a client.
  bool hear_client(Client& client);    // false: disconnected
  bool hear_newcomer(Client& client);  // the same
  void greet(Client& client);
  void join(Client& client);
  void open_context(Client& client, const Message& message);
  int places_taken(int ordinal) const;
  void note_work(Client& client, const Message& message);
  void lose(std::size_t slot, std::int64_t now_ns);
  void watch_leaving(std::int64_t now_ns);
  void forget(Client& client, std::int64_t now_ns, bool held);
  void tear_down(const Client& client, std::int64_t now_ns);
  void close_context(Client& client, std::size_t at, bool keeps_memory = false);
  bool is_a_process(const std::unique_ptr<Client>& slot) const { return slot != nullptr && slot->number == 0; }

  // Faults.
  void spread_fault(int ordinal, const Client* culprit, int code);
  void leave_fault_if_clean();

  bool faulty() const;
  int active_contexts() const;
  int connected() const;
  void report_count();
  Client* find(pid_t pid);
  std::string client_list() const;
  std::string device_client_list() const;
  std::vector<ClientRow> rows() const;
  int ordinal_of(const std::string& uuid) const;

  std::unique_ptr<Node> node_;
  ServerOptions options_;
  Fd channel_;
  MpsLog log_;
  std::vector<VisibleGpu> devices_;
  std::vector<bool> device_open_;  // has the server's context on it
  std::vector<std::unique_ptr<Client>> slots_;
  std::vector<Leaving> leaving_;
  std::uint64_t next_id_ = 1;
  std::vector<Drain> drains_;
  std::vector<pid_t> sticky_;  // processes that must leave before FAULT ends
  bool wedged_ = false;
  // It accepts one client after another and waits for its messages; one that disconnects before the first, or with
  // messages of the server unread, blocks all later ones permanently (docs/internals/evidence/mps-handshake.md, "What a
  // client that breaks off leaves").
  std::vector<std::pair<Message, Fd>> waiting_;
  const Client* newcomer_ = nullptr;
  bool stuck_ = false;
  std::vector<int> reset_;  // devices whose context is recreated after that
};

}  // namespace tranche::sim
