#pragma once
// Private to mps: the limits that the daemon and its servers hold for the clients that they accept next. Each change is
// set and read back in one control session, before a relay admits the next grant's client
// (docs/internals/mps-contract.md, "A grant's own limits"). Loop thread only.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "mps/control/sessions.h"
#include "mps/limits/limits.h"

namespace tranche::host {

class NextLimits {
 public:
  using Done = std::function<void(const Status&)>;
  struct Callbacks {
    std::function<ControlTarget()> target;
    std::function<std::vector<int>()> servers;               // pids, as listed last
    std::function<bool(const mps::DaemonLimits&)> are_held;  // set and read back already
    std::function<void(const mps::DaemonLimits&, const mps::LimitsReadBack&)> set;
    std::function<void(const std::string& why)> not_set;  // which limits are held is unknown
  };
  NextLimits(Sessions& sessions, std::string pool, Duration deadline, Callbacks callbacks);
  NextLimits(const NextLimits&) = delete;
  NextLimits& operator=(const NextLimits&) = delete;

  // If they are held already, `done` runs at once. Calls run one after the other; of the waiting ones only the newest
  // counts, and the others end with kUnavailable. kInvalid: the limits read back differ. After this object is destroyed
  // no `done` runs.
  void set(const mps::DaemonLimits& limits, Done done);
  void abandon(const std::string& why);  // the daemon does not serve any more: what is under way ends with kUnavailable

 private:
  struct Change {
    mps::DaemonLimits limits;
    Done done;
    int sessions = 0;
    std::unique_ptr<Question> question = {};
  };
  void set_on_servers(std::vector<int> servers);
  void read_reply(const std::vector<int>& servers, const Result<std::string>& reply);
  void finish(const Result<mps::LimitsReadBack>& read);

  Sessions& sessions_;
  const std::string pool_;
  const Duration deadline_;
  Callbacks callbacks_;
  std::unique_ptr<Change> current_;
  std::unique_ptr<Change> waiting_;
};

}  // namespace tranche::host
