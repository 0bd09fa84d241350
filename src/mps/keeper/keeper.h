#pragma once
// The side of `tranche mps` of the keeper (keeper_server.h). It starts the keeper when the first client connects, and
// again if the keeper exits or does not answer, requests that it holds each client, and knows the state of each. After
// a restart of `tranche mps` it finds the keeper that still runs.
//
// Thread: loop. Callbacks: on_change runs in a callback of its own.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/enum_names.h"
#include "base/time.h"
#include "mps/daemon/daemon_home.h"
#include "mps/keeper/keeper_status.h"
#include "os/loop/loop.h"
#include "os/process/process.h"
#include "os/socket/status_socket.h"

namespace tranche::mps {

// Whether a client's death is harmless to its neighbours; `why` if not, or not yet.
struct Protection {
  enum class State { kNo, kStarting, kYes } state = State::kNo;
  std::string why;
};
ENUM_NAMES(Protection::State::kYes, "no", "starting", "yes")

struct KeeperClientSettings {
  std::string mps_root;
  DaemonHome home;
  std::string program = {};                     // "" = tranche-keeper beside this program
  std::string devices = {};                     // instead of /proc/devices
  Duration silence = std::chrono::seconds(10);  // of a keeper, until it is killed
};

class Keeper {
 public:
  Keeper(os::Loop& loop, KeeperClientSettings settings, std::function<void()> on_change);
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  void hold(int pid, const std::string& owner);
  void look(int pid);                        // a client that is held may have opened more descriptors
  void exited(int pid, bool with_contexts);  // the last that hold() had with this pid

  Protection of(int pid) const;
  std::vector<int> dead(const std::string& owner) const;  // clients that have exited and are still held
  bool keeps_memory(const std::string& owner) const;      // of such a client that exited with CUDA contexts
  const KeeperStatus& status() const { return status_; }

 private:
  struct Client {
    std::string owner;
    bool exited = false;
    bool with_contexts = false;  // when it exited
    std::string refused;         // why the keeper does not hold it
  };
  bool is_absent() const { return !connected_ && !problem_.empty(); }
  void heard(const std::string& line);
  void start();
  void await_answer(pid_t suspect);  // the keeper that has not answered before
  void report_not_held();
  void request_hold(const os::ProcessRef& process);
  void forget_exited();

  os::Loop& loop_;
  KeeperClientSettings settings_;
  std::function<void()> on_change_;
  std::map<os::ProcessRef, Client> clients_;  // that are held, or are to be
  KeeperStatus status_;
  bool connected_ = false;
  std::string problem_;  // why the keeper does not run or answer; "" if it does, and before the first answer
  Backoff backoff_;
  os::Timer retry_{loop_};
  os::Timer silent_{loop_};
  os::Timer reported_{loop_};  // clients that are not held
  std::unique_ptr<os::Process> process_;
  os::StatusWatcher watcher_;
  os::StatusClient requests_;
};

// Ends the keeper of this MPS root, if one runs, once it has released the clients that have exited. `wait`: blocks
// until it has ended, for at most 20 s. Any thread.
void end_keeper(const std::string& mps_root, bool wait);

}  // namespace tranche::mps
