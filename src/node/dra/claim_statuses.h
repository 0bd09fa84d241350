#pragma once
// Writes what dra/claim_status.h builds into the ResourceClaims' `status.devices`. Nothing waits for it: a claim is
// prepared whether or not its status can be written. Changes of a moment are one write. A failed write is repeated with
// a growing delay, a refused one after 5 minutes, and the reason is reported. One request at a time; at rest there is
// none. Loop thread only.
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "dra/claim_status.h"
#include "kube/client/kube_link.h"
#include "mps/protocol/pool_reports.h"
#include "node/dra/claims.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"

namespace tranche::node {

class ClaimStatuses {
 public:
  static constexpr Duration kSettle = std::chrono::milliseconds(200);

  struct Callbacks {
    std::function<std::vector<dra::ClaimStatus>()> wanted;  // of all prepared claims, now
    std::function<void()> changed;                          // problem() is different
  };

  ClaimStatuses(os::Loop& loop, kube::KubeLink& link, const Claims& claims, Callbacks callbacks);
  ~ClaimStatuses();
  ClaimStatuses(const ClaimStatuses&) = delete;
  ClaimStatuses& operator=(const ClaimStatuses&) = delete;

  void look();  // what is wanted may have changed: it is read kSettle later
  const std::string& problem() const { return problem_; }

 private:
  struct Entry {
    dra::ClaimStatus wanted;
    std::optional<dra::ClaimStatus> written = {};  // what the API server has
    std::string stored = {};                       // JSON of its status.devices as read or written last; "" = not read
    MonoTime due{};
    Backoff backoff;
  };

  void take();
  void step();
  void read(const std::string& uid);
  void write(const std::string& uid, const nlohmann::json& stored);
  void on_answer(const std::string& uid, const kube::KubeAnswer& answer, bool was_written);
  void fail(Entry& entry, const kube::KubeAnswer& answer);
  void report(std::string problem);

  os::Loop& loop_;
  kube::KubeLink& link_;
  const Claims& claims_;
  const Callbacks callbacks_;
  std::map<std::string, Entry> entries_;  // by UID
  kube::KubeClient* client_ = nullptr;
  kube::KubeClient::Id call_ = 0;
  std::string problem_;
  os::Timer settle_{loop_};
  os::Timer retry_{loop_};
};

// What is reported of each prepared claim. Pure.
std::vector<dra::ClaimStatus> claim_statuses(const dra::PreparedClaims& claims, const std::vector<dra::Device>& devices,
                                             const mps::PoolReports& pools);

}  // namespace tranche::node
