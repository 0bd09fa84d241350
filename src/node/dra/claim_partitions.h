#pragma once
// Makes the MIG instances that prepared claims have and do not find, and destroys them with the claim
// (`dra.partitions: onDemand`). The record of one part of a claim:
//
//   recorded ──its place is free──► begun ──made──► with its UUID ──the agent's scan has it──► can be described
//       ▲ ▲                           │                  │
//       │ └── something is in the way ┘                  │
//       └────────── gone (a reboot, an administrator) ◄──┘
//
// Each step is on disk before the next, so an agent that is killed in between goes on with it: what is at the place of
// a part that was begun, with its profile, is the claim's. Nothing else is ever destroyed. Loop thread only.
#include <functional>
#include <list>
#include <memory>
#include <set>
#include <string>

#include "dra/prepare.h"
#include "mig/live/partitions.h"
#include "os/loop/timer.h"

namespace tranche::node {

class ClaimPartitions {
 public:
  // Of the agent's scan, for a MIG device that was made.
  static constexpr Duration kScanPatience = std::chrono::seconds(10);

  struct Callbacks {
    // Part::gpu_uuid and Part::begun of the part; on disk when it returns.
    std::function<Status(const std::string& uid, std::size_t part, const dra::Part& now)> record;
    std::function<void()> rescan;  // a device was made or destroyed; found() comes after
  };
  ClaimPartitions(os::Loop& loop, mig::MigPartitions& mig, Callbacks callbacks);

  // All of the claim's, which is recorded; done({}) at once where it has none.
  void make(const dra::PreparedClaim& claim, std::function<void(Status)> done);
  void remove(const dra::PreparedClaim& claim, std::function<void(Status)> done);
  // The MIG devices that the agent's scan has.
  void found(std::set<std::string> devices);

 private:
  struct Waiting {
    std::string device;
    std::function<void(Status)> done;
    std::unique_ptr<os::Timer> timer;
  };
  struct Making;  // of a claim: its parts, as far as they are
  void make_next(const std::shared_ptr<Making>& making);
  void change(const std::shared_ptr<Making>& making, mig::MigPartition::What what);
  void on_changed(const std::shared_ptr<Making>& making, mig::MigPartition::What what,
                  const Result<std::string>& device);
  bool record(const std::shared_ptr<Making>& making);
  void remove_from(std::shared_ptr<const dra::PreparedClaim> claim, std::size_t part, std::function<void(Status)> done);
  void wait_for(const std::string& device, std::function<void(Status)> done);

  os::Loop& loop_;
  mig::MigPartitions& mig_;
  const Callbacks callbacks_;
  std::set<std::string> found_;
  std::list<Waiting> waiting_;
};

}  // namespace tranche::node
