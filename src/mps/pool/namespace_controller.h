#pragma once
// The namespaces of one pool in tier v3: makes the daemon hold one for every endpoint and none for removed endpoints.
// The endpoints are stored on disk, so the namespaces are the same after a restart of this program or of the daemon.
// Changes the daemon one step at a time, while it continues to serve all others. Loop thread only.
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "mps/control/v3.h"
#include "mps/daemon/supervisor.h"

namespace tranche::agent {

class NamespaceController {
 public:
  using Namespaces = std::vector<mps::v3::WantedNamespace>;
  using Done = std::function<void(const Status&)>;
  struct Callbacks {
    std::function<Namespaces()> wanted;                            // for the present endpoints
    std::function<const mps::Supervisor&()> daemon;                // its present state
    std::function<void(const Namespaces& all, Done done)> change;  // makes the serving daemon hold these
    std::function<void()> all_changed;                             // all() has changed; the daemon gets it when it can
    std::function<void(const std::string& name, Done done)> remove;  // refused while it has clients
  };
  explicit NamespaceController(Callbacks callbacks) : callbacks_(std::move(callbacks)), all_(callbacks_.wanted()) {}
  NamespaceController(const NamespaceController&) = delete;
  NamespaceController& operator=(const NamespaceController&) = delete;

  // What the daemon has to hold; during a change, the state before it.
  const Namespaces& all() const { return all_; }
  // The endpoints changed. `done` runs once, and never after this object is destroyed: when the daemon holds what they
  // need, or at once while it does not serve, because it gets them before it admits clients. An error: the daemon
  // refused and holds what it held before.
  void settle(Done done);
  void look();  // call after every change of the daemon

 private:
  void begin();
  void ended(const Status& status, const Namespaces& next);
  void remove_next();
  void try_refused_again();

  Callbacks callbacks_;
  Namespaces all_;
  bool busy_ = false;
  std::vector<Done> waiting_;      // for the next change
  std::vector<Done> answered_;     // for the change in progress
  std::set<std::string> removed_;  // since the daemon's list was read
  std::set<std::string> refused_;  // that the daemon refused to remove
  std::uint64_t tries_ = 0;        // how often refused_ was cleared
  std::size_t clients_ = 0;        // at the last look
};

}  // namespace tranche::agent
