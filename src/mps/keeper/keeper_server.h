#pragma once
// The keeper: holds the descriptors of MPS clients (held_files.h) through their deaths, and gives them up some seconds
// after each, when the client's work on the GPU has ended. It answers on <mps-root>/keeper.sock (keeper_status.h) and
// has no other task, so that it outlives `tranche mps`: a restart leaves no client unprotected.
//
// Thread: loop. Descriptors of devices are closed on a thread of their own, because a close may block. Other files,
// which a tenant can have duplicated in place of devices, are closed on another, which no release waits for.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mps/keeper/held_files.h"
#include "mps/keeper/keeper_status.h"
#include "mps/relay/tenant_sockets.h"
#include "os/loop/loop.h"
#include "os/socket/status_socket.h"
#include "os/worker/worker.h"

namespace tranche::mps {

struct KeeperSettings {
  std::string socket;
  std::string devices = "/proc/devices";
  // From a death to the close. Measured (docs/internals/evidence/deaths.md): a close while the client's work still runs
  // ends its neighbours if a kernel of 0.1 s or more is left, and not if all are of 50 ms or less; then every call into
  // the driver waits, on the whole node, for up to 2.1 s. Until the close, the client's GPU memory stays in use.
  Duration patience = std::chrono::seconds(5);
  std::size_t clients = 4096;
  Duration audit = std::chrono::minutes(1);  // whether its socket is still there
};

class KeeperServer {
 public:
  // `ended` runs after an EndRequest, once all clients that have exited are released.
  static Result<std::unique_ptr<KeeperServer>> open(os::Loop& loop, KeeperSettings settings,
                                                    std::function<void()> ended);
  ~KeeperServer();
  KeeperServer(const KeeperServer&) = delete;
  KeeperServer& operator=(const KeeperServer&) = delete;

  void end();

 private:
  struct Share {
    explicit Share(os::Loop& loop) : foreign(loop, [] {}) {}
    std::size_t files = 0;  // of its clients, until they are closed
    TenantSockets foreign;
  };
  struct Client {
    explicit Client(os::Loop& loop) : timer(loop) {}
    std::shared_ptr<Share> share;
    os::Fd pidfd;
    os::Loop::Id watch = 0;
    HeldFiles files;
    std::size_t looks = 0;      // of this series
    std::size_t cost = 0;       // descriptors looked at, in all series
    std::size_t exchanged = 0;  // looks in which it put another file in the place of a device
    bool full = false;
    HeldClient now;
    std::optional<HeldClient> reported;
    os::Timer timer;  // the next look; after its death, the end of the patience
    bool dead() const { return now.state == HeldState::kDead; }
  };

  KeeperServer(os::Loop& loop, KeeperSettings settings, std::function<void()> ended);
  Status answer(const std::string& request);
  Status hold(const HoldRequest& asked);
  void look_soon(const os::ProcessRef& process);
  void look_at_next();
  void look(const os::ProcessRef& process);
  void died(const os::ProcessRef& process);
  void close(const os::ProcessRef& process, std::vector<HeldFile> files, bool last);
  void report(const os::ProcessRef& process);
  void report(const os::ProcessRef& process, const HeldClient& change);
  void audit();
  void end_if_idle();
  std::string status(std::map<os::ProcessRef, HeldClient> clients, bool changes) const;
  std::string status_of_all() const;

  os::Loop& loop_;
  KeeperSettings settings_;
  std::function<void()> ended_;
  NvidiaDevices devices_;
  std::map<std::string, std::shared_ptr<Share>> shares_;
  std::map<os::ProcessRef, Client> clients_;              // a pid may be used again while its former process is held
  std::set<std::pair<std::size_t, os::ProcessRef>> due_;  // to be looked at, by their cost
  os::Timer next_look_{loop_};
  MonoTime looked_{};
  bool replaced_ = false;
  os::Timer timer_{loop_};  // the next audit; after end(), until the next keeper holds all clients
  std::unique_ptr<os::StatusServer> server_;
  std::unique_ptr<os::Worker> closer_ = os::Worker::start();  // last, so that it is joined first
};

}  // namespace tranche::mps
