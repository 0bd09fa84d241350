#pragma once
// The guard of the node: receives samples of how much of the shared GPUs each process holds, attributes processes to
// grants, lets guard::judge decide, and carries out the orders. docs/internals/guard.md. It reads /proc, stops and
// continues processes, and kills those that are not MPS clients; everything else is done by `tranche mps` and the given
// callbacks. Loop thread only.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "containers/attribution.h"
#include "gpu/driver/nvml.h"
#include "grants/allocate/grant.h"
#include "grants/ledger.h"
#include "guard/figures.h"
#include "guard/judge.h"
#include "guard/pace.h"
#include "guard/tenant_shares.h"
#include "mps/protocol/mps_client.h"
#include "node/snapshot.h"
#include "os/loop/loop.h"
#include "os/process/process.h"

namespace tranche::node {

struct KnownProcess {
  os::ProcessRef id;
  std::string name;
  pid_t parent = 0;
  std::string endpoint;  // the grant whose endpoint it sees; "": none
  bool endpoint_known = false;
  std::optional<containers::Container> container;
  std::unique_ptr<os::Process> handle;  // null: it could not be watched
  bool in_sight = false;                // false: not in this process's /proc, or exiting
  bool exited = false;                  // and still in the driver's figures: its memory is free, or held without it
  bool first = false;                   // PID 1 of its container
  // A program of NVIDIA's that controls the node (guard/judge.h): without a grant it is named, and never ended as a
  // foreign process.
  bool host_daemon = false;
  MonoTime looked{};
  // From the best source: the relay through which it connected, other processes of its container, the endpoint that it
  // sees.
  std::string grant;
  bool ours = false;               // belongs to the node: neither judged nor named
  std::optional<MonoTime> left{};  // no longer holds memory, and has not exited
};

// Identifies the processes on the GPUs: each is inspected once, when it is new, and then watched by pidfd, so that its
// exit is noticed at once and a recycled pid is not confused with it. Loop thread only; reads /proc.
class GuardedProcesses {
 public:
  // ended(process): a callback of the loop; it stays known as long as it is among the pids of follow().
  GuardedProcesses(os::Loop& loop, std::string mps_root, std::function<void(const KnownProcess&)> ended);

  // `pids`: sorted, without duplicates. Inspects new ones and forgets those that are missing; true if some were new.
  bool follow(const std::vector<pid_t>& pids);
  // A grant has a new tenant, and its endpoint is a new directory: inspects the processes attributed to the grant
  // again.
  void given(const std::string& grant);
  // The pools have reported a change since given().
  void pools_reported() { given_.clear(); }
  // Repeats the attribution. Call after follow() returned true, and when the pools have changed.
  void attribute(const std::map<std::string, guard::PoolProcesses>& pools);

  const KnownProcess* find(pid_t pid) const;
  // kNotFound if the pid is now a different process. The process need not be among those that follow() was given.
  Status signal(const os::ProcessRef& id, int number);
  const std::map<pid_t, KnownProcess>& all() const { return known_; }

 private:
  KnownProcess look_at(pid_t pid);
  void find_endpoint(KnownProcess& process) const;

  os::Loop& loop_;
  std::string mps_root_;
  std::function<void(const KnownProcess&)> ended_;
  std::string own_container_;                     // its id; "" = this process is not in a container
  std::map<pid_t, std::string> pool_containers_;  // of the pools' own processes, each read once
  std::map<std::string, std::string> grant_of_container_;
  std::set<std::string> given_;  // grants whose new tenant the pools have not reported yet
  std::map<pid_t, KnownProcess> known_;
};

class Guarding {
 public:
  struct Callbacks {
    std::function<void(const GuardAct&)> acted;  // for events
    std::function<void()> changed;               // report() has changed
  };
  // driver: null while there is none; figures: use of tenants; mps_root: where the MPS directory is for this process;
  // run_dir: where the stopped processes are written down.
  Guarding(os::Loop& loop, grants::Ledger& ledger, mps::MpsClient& mps, gpu::NvmlThread& driver,
           guard::SharedFigures& figures, const std::string& mps_root, const std::string& run_dir, Callbacks callbacks);
  Guarding(const Guarding&) = delete;
  Guarding& operator=(const Guarding&) = delete;

  // Call after every change of configuration, plan, inventory or kubelet's report. Cheap if nothing changed.
  void follow(const NodeView& node);
  void sample_again();                 // the sampler was replaced: request samples again
  void driver_is_silent(bool silent);  // a call into it does not return: figures are not known
  void on_pools(const mps::PoolReports& reports);
  void granted(const std::vector<grants::Grant>& grants);
  void on_sample(const std::vector<gpu::GpuSample>& samples);

  GuardReport report() const;
  // By the endpoints that they came through; behind links, as the guard attributes them.
  std::map<pid_t, std::string> grants_of_processes() const;
  const guard::Tenants& tenants() const { return tenants_; }

 private:
  struct PlannedShare {  // a device that MPS shares
    std::string uuid;
    std::string pool;
    std::uint32_t gpu_instance = 0xffffffff;
    std::uint32_t compute_instance = 0xffffffff;
    bool leave = false;  // computeMode: leave
  };

  void follow_plan(const NodeView& node);
  void join_tenants();
  void take_sample();
  void look_again();
  bool is_complete(const gpu::GpuSample& sample) const;
  using Exited = std::map<pid_t, std::string> guard::PoolProcesses::*;
  const std::string* grant_of_exited(const std::string& pool, pid_t pid, Exited which) const;
  bool has_exited(pid_t pid) const;
  void judge(bool others_named);
  void take_figures();
  void take_figures_soon(bool at_once);
  void arm(bool open);
  Duration wanted_pace() const;
  std::vector<gpu::SampleWish> wanted_samples();
  void keep_pace();
  void carry_out(const guard::Order& order);
  void stop(const guard::Order& order);
  void terminate(const guard::Order& order);
  void signal(const guard::Order& order, int number);
  std::vector<std::string> beside(const guard::Order& order) const;
  GuardAct act_of(const guard::Order& order, const guard::Process& process) const;
  void note(GuardAct act, const std::string& outcome, std::string note);
  void read_stopped();
  void keep_stopped();
  void ended(const KnownProcess& process);
  std::string holder_of(const std::string& grant, const std::string& otherwise = {}) const;
  std::vector<std::string> not_in_force() const;

  os::Loop& loop_;
  grants::Ledger& ledger_;
  mps::MpsClient& mps_;
  gpu::NvmlThread& driver_;
  guard::SharedFigures& figures_;
  Callbacks callbacks_;
  guard::Tenants tenants_;  // the judge knows a tenant by the first of its grants
  config::GuardMemory policy_ = config::GuardMemory::kTerminateNewest;  // for resources without a policy
  GuardedProcesses processes_;

  std::multimap<std::string, PlannedShare> planned_;  // by GPU
  SharedList<Holder> holders_;
  std::map<std::string, guard::PoolProcesses> pools_;
  bool connected_ = false;
  guard::Inputs inputs_;
  guard::Memory memory_;
  std::vector<gpu::GpuSample> samples_;
  std::vector<guard::Device> devices_;
  std::vector<std::string> without_limit_;
  std::set<std::string> sampled_gpus_;
  std::vector<gpu::SampleWish> wishes_;  // the last request
  guard::PaceMemory pace_memory_;
  os::Timer pace_timer_{loop_};
  bool silent_ = false;
  os::Timer timer_{loop_};
  os::Timer figures_timer_{loop_};
  MonoTime figures_at_{};
  std::string run_dir_;
  std::string written_;  // the text of memory_.stopped in the file
  GuardReport report_;   // without the processes, which report() adds
};

}  // namespace tranche::node
