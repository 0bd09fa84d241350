#pragma once
// The claims that this node has prepared: kubelet's NodePrepareResources and NodeUnprepareResources, made true. For a
// claim it reads the ResourceClaim from the API server, has dra/prepare.h decide, writes the decision into
// `<run_dir>/claims.txt`, has `tranche mps` open an endpoint with the limits for each part, writes the claim's CDI
// specification, and only then answers. Asked again, it gives the same answer and puts back what is missing. A claim
// that does not fit beside what is prepared waits for a while until a different claim ends: the scheduler frees a
// device when a pod is force-deleted, and kubelet seconds later.
// MIG instances of a claim are made before its endpoints are opened, and destroyed after these are closed
// (claim_partitions.cpp).
//
// It does not publish devices and does not register with kubelet (kubelet/dra_server.h). What one claim is asked
// is done in order, one thing at a time; claims do not wait for each other. Loop thread only.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "dra/claim_status.h"
#include "dra/prepare.h"
#include "grants/allocate/grant.h"
#include "kube/client/kube_client.h"
#include "kubelet/dra_server.h"
#include "mig/live/partitions.h"
#include "mps/protocol/mps_client.h"
#include "mps/protocol/pool_reports.h"
#include "node/dra/dra_report.h"
#include "os/files/files.h"
#include "os/files/watch.h"
#include "os/loop/loop.h"
#include "plan/plan.h"

namespace tranche::node {

// Which agent of the node has the claims. During a rolling update an older and a newer agent run at a time, and each
// keeps the prepared claims in memory: two that write `claims.txt`, CDI specifications and MPS endpoints would undo
// what the other did. The one that has the lock `<run_dir>/claims.lock` has them:
//
//   older  has the lock ──► sees claims.next ──► ends what is under way ──► frees the lock and removes claims.next ──►
//          waits; takes the lock again when the newer one has ended
//   newer  cannot take the lock ──► kubelet has registered it ──► writes claims.next ──► claims.next is removed, or the
//          older one has ended ──► takes the lock and reads claims.txt
//
// One that was asked never asks in turn. The kernel frees the lock of a process that is killed. An agent that hangs
// keeps it: its liveness probe ends it. Not here: what having the claims means (Claims). Loop thread only.
class ClaimsLock {
 public:
  struct Callbacks {
    std::function<void()> taken;   // after open() returned false, or after give_up()
    std::function<void()> wanted;  // by a newer agent: give_up() as soon as nothing is under way
  };
  ClaimsLock(os::Loop& loop, std::string run_dir, Callbacks callbacks);

  // True: the claims are this agent's from now on. Also where there is no run directory, so no file to protect.
  bool open();
  void want();  // asks the agent that has them, once and again until it answers
  void give_up();

 private:
  void look(const std::string& name);
  void take();

  os::Loop& loop_;
  const std::string run_dir_;
  const Callbacks callbacks_;
  std::optional<os::Dir> dir_;  // these two are there once open() returned, unless the claims are not protected
  std::optional<os::FileLock> lock_;
  std::unique_ptr<os::DirWatch> watch_;
  bool had_ = false;       // once
  bool asked_of_ = false;  // `wanted` was called and give_up() was not
  os::Timer timer_;        // asks again, or takes the claims back
};

// What the node has for claims, as of the newest plan.
struct ClaimInputs {
  dra::Offered offered;
  std::vector<plan::PlannedDevice> gpus;  // plan::Plan::for_claims
  std::set<std::string> mig_devices;      // UUIDs of those that containers can use
  grants::Settings allocation;
};

class Claims final : public kubelet::DraAnswers {
 public:
  struct Callbacks {
    std::function<void()> changed;  // what is prepared is different
    std::function<void()> rescan;   // a MIG device was made or destroyed; follow() comes after
  };

  // Nothing is changed before take(): an older agent may have the claims (ClaimsLock). Until then kubelet's
  // calls wait, and prepared() is what that agent wrote last.
  Claims(os::Loop& loop, kube::KubeLink& link, mps::MpsClient& mps, mig::MigPartitions& mig, std::string run_dir,
         std::string cdi_root, Callbacks callbacks);
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;

  // They are this agent's. Reads what an earlier one wrote. A claim whose record is lost is known by its CDI
  // specification. What was prepared before a reboot of the node is forgotten.
  void take();
  // A newer agent is to have them: kubelet's calls are refused. `done` is called once, as a callback of its own, when
  // those under way have ended; nothing is changed after that.
  void give_up(std::function<void()> done);
  ClaimsStanding standing() const { return standing_; }

  // After every change. Puts back the specifications of claims from before.
  void follow(ClaimInputs inputs);
  void on_pools(const mps::PoolReports& pools);  // puts back endpoints that are missing

  void prepare(const dra::ClaimName& claim, Prepared done) override;
  void unprepare(const dra::ClaimName& claim, Unprepared done) override;

  const dra::PreparedClaims& prepared() const { return prepared_; }

 private:
  using Job = std::function<void()>;
  using Ended = std::function<void(Status)>;
  using Act = mig::MigPartition::What;
  struct Waiting {
    std::string uid;
    std::function<bool(bool last)> attempt;  // false: not yet
    std::unique_ptr<os::Timer> patience;
  };

  // --- one thing at a time for each claim -------------------------------------------------------------------------
  void enqueue(const std::string& uid, Job job);
  void run_first(const std::string& uid);
  void next(const std::string& uid);  // the job that ran is over

  // --- prepare ----------------------------------------------------------------------------------------------------
  void read(const dra::ClaimName& claim, Prepared done);
  void decide(const dra::Claim& claim, const Prepared& done);
  enum class Opening { kNew, kAgain, kMissing };
  void make(const std::string& uid, bool is_new, Prepared done);
  void open_parts(const std::string& uid, std::size_t from, Opening opening, Ended done);
  Result<std::vector<kubelet::DraDevice>> describe(const dra::PreparedClaim& claim);
  Result<std::vector<grants::Grant>> grants_of(const dra::PreparedClaim& claim) const;

  // --- unprepare --------------------------------------------------------------------------------------------------
  using Endpoints = std::vector<std::pair<std::string, std::string>>;  // MPS pool and grant
  void end(const std::string& uid, const Ended& done);
  void close(Endpoints endpoints, Ended done);
  void leave_nothing(const dra::ClaimName& unknown, Unprepared done);
  Status forget(const std::string& uid);

  // --- MIG instances, of the claim's parts from `at` on -----------------------------------------------------------
  void make_instances(const std::string& uid, std::size_t at, Ended done);
  void remove_instances(const std::string& uid, std::size_t at, Ended done);
  void change_instance(const std::string& uid, std::size_t at, Act what, Ended done);
  void on_changed(const std::string& uid, std::size_t at, Act what, const Result<std::string>& device,
                  const Ended& done);
  bool is_there(const std::string& device) const;

  // --- what waits for room on a GPU, or for a MIG device in the agent's scan --------------------------------------
  void wait(const std::string& uid, Duration patience, std::function<bool(bool last)> attempt);
  void try_again(const std::string& uid = {}, bool last = false);  // of all claims without a UID

  void load();
  void find_lost();
  void forget_former_boots();
  void end_of_jobs();
  bool lacks(const dra::Part& part) const;
  Status write();
  // Changes the record of a claim, or removes it, also on the disk; where that fails, it stays as it was.
  Status record(const std::string& uid, std::optional<dra::PreparedClaim> now, const char* failure);
  void restore_specs();
  bool watch_specs();
  void reopen(const std::string& uid);

  os::Loop& loop_;
  kube::KubeLink& link_;
  const std::string run_dir_, cdi_root_;
  const std::string boot_;
  const Callbacks callbacks_;
  mps::MpsClient& mps_;
  mig::MigPartitions& mig_;
  dra::PreparedClaims prepared_;
  std::map<std::string, std::string> lines_;  // of the records, by UID, once they were rendered
  ClaimsStanding standing_ = ClaimsStanding::kWaiting;
  std::function<void()> given_up_;  // set until it is called
  bool inputs_known_ = false;
  ClaimInputs inputs_;
  mps::PoolReports pools_;
  std::map<std::string, std::string> not_reopened_;  // by UID: why, as was logged last; "" = it was reopened
  std::set<std::string> opened_;                     // grants, over the present connection to `tranche mps`
  std::map<std::string, std::deque<Job>> jobs_;      // by UID; the first one runs
  std::vector<Waiting> waiting_;
  std::map<std::string, kube::PendingRequest> asked_;  // by UID
  std::unique_ptr<os::DirWatch> specs_watch_;
  os::Timer reopen_timer_{loop_};
};

// Writes what dra/claim_status.h builds into the ResourceClaims' `status.devices`. Nothing waits for it: a claim is
// prepared whether or not its status can be written. Changes of a moment are one write, and a status is compared with
// what the API server has before it is written. A failed write is repeated with
// a growing delay, a refused one after 5 minutes, and the reason is reported. One request at a time; at rest there is
// none. Loop thread only.
class ClaimStatuses {
 public:
  static constexpr Duration kSettle = std::chrono::milliseconds(200);

  struct Callbacks {
    std::function<std::map<std::string, dra::ClaimStatus>()> wanted;  // of all prepared claims, now
    std::function<void()> changed;                                    // problem() is different
  };

  ClaimStatuses(os::Loop& loop, kube::KubeLink& link, const Claims& claims, Callbacks callbacks);
  ClaimStatuses(const ClaimStatuses&) = delete;
  ClaimStatuses& operator=(const ClaimStatuses&) = delete;

  void look();  // what is wanted may have changed: it is read kSettle later
  const std::string& problem() const { return problem_; }

 private:
  struct Entry {
    dra::ClaimStatus wanted = {};
    std::optional<dra::ClaimStatus> written = {};  // what the API server has
    MonoTime due{};                                // later where it failed
  };

  void take();
  void step();
  void write(const std::string& uid);
  void on_answer(const std::string& uid, const dra::ClaimStatus& wanted, const kube::KubeAnswer& answer);
  void report(std::string problem);

  os::Loop& loop_;
  kube::KubeLink& link_;
  const Claims& claims_;
  const Callbacks callbacks_;
  Backoff backoff_;
  std::map<std::string, Entry> entries_;  // by UID
  kube::PendingRequest request_;
  std::string problem_;
  os::Timer settle_{loop_};
  os::Timer retry_{loop_};
};

// What is reported of each prepared claim, by UID. Pure.
std::map<std::string, dra::ClaimStatus> claim_statuses(const dra::PreparedClaims& claims,
                                                       const std::vector<dra::Device>& devices,
                                                       const mps::PoolReports& pools);

}  // namespace tranche::node
