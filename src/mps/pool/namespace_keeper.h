#pragma once
// The namespaces of one pool in tier v3: that the daemon has one for every endpoint, and none for those that are gone.
// What there should be is told by the endpoints, which keep it on disk, so a restart of ours or of the daemon puts back
// the same. One thing at a time is done to the daemon, beside the service of all others. Loop thread only.
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "mps/control/v3.h"
#include "mps/daemon/supervisor.h"

namespace tranche::agent {

class NamespaceKeeper {
 public:
  using Namespaces = std::vector<mps::v3::WantedNamespace>;
  using Done = std::function<void(const Status&)>;
  struct World {
    std::function<Namespaces()> wanted;                              // those of the endpoints that there are
    std::function<const mps::Supervisor&()> daemon;                  // as it is now
    std::function<void(const Namespaces& all, Done done)> change;    // has the serving daemon hold these
    std::function<void()> retell;                                    // all() is what the daemon gets when it can
    std::function<void(const std::string& name, Done done)> remove;  // refused while it has clients
  };
  explicit NamespaceKeeper(World world) : world_(std::move(world)), all_(world_.wanted()) {}
  NamespaceKeeper(const NamespaceKeeper&) = delete;
  NamespaceKeeper& operator=(const NamespaceKeeper&) = delete;

  // What the daemon is to hold: of a change under way, what was before it.
  const Namespaces& all() const { return all_; }
  // The endpoints changed. done comes once, and never when this is dropped: when the daemon holds what they need; at
  // once while it does not serve, for then it lets nobody in before it does. An error: it would not, and holds what it
  // held.
  void settle(Done done);
  void look();  // after every change of the daemon

 private:
  void begin();
  void ended(const Status& status, const Namespaces& next);
  void remove_next();

  World world_;
  Namespaces all_;
  bool busy_ = false;
  std::vector<Done> waiting_;      // for the next change
  std::vector<Done> answered_;     // by the one under way
  std::set<std::string> removed_;  // since the daemon's list was read
  std::set<std::string> refused_;  // that it would not remove
  std::size_t clients_ = 0;        // when it was last looked at
};

}  // namespace tranche::agent
