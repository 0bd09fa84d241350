#pragma once
// The guard of the node: receives samples of how much of the shared GPUs each process holds, attributes processes to
// grants, lets guard::judge decide, and carries out the orders. docs/internals/guard.md. It reads /proc, stops and
// continues processes, and kills those that are not MPS clients; everything else is done by `tranche mps` and the given
// callbacks. Loop thread only.
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gpu/driver/nvml.h"
#include "grants/allocate/grant.h"
#include "grants/ledger.h"
#include "guard/figures.h"
#include "guard/judge.h"
#include "guard/pace.h"
#include "guard/stopped_file.h"
#include "guard/tenant_shares.h"
#include "mps/protocol/mps_client.h"
#include "node/guard/guard_report.h"
#include "node/guard/guarded_processes.h"
#include "node/snapshot.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"

namespace tranche::node {

class Guarding {
 public:
  struct Callbacks {
    std::function<void(const GuardAct&)> acted;  // for events
    std::function<void()> changed;               // report() has changed
  };
  // driver: null while there is none; figures: use of tenants; mps_root: where the MPS directory is for this process;
  // run_dir: where the stopped processes are written down.
  Guarding(os::Loop& loop, grants::Ledger& ledger, mps::MpsClient& mps, const std::unique_ptr<gpu::NvmlThread>& driver,
           guard::SharedFigures& figures, const std::string& mps_root, const std::string& run_dir, Callbacks callbacks);
  Guarding(const Guarding&) = delete;
  Guarding& operator=(const Guarding&) = delete;

  // Call after every change of configuration, plan, inventory or kubelet's report. Cheap if nothing changed.
  void follow(const NodeView& node);
  void sample_again();  // the sampler was replaced: request samples again
  void on_pools(const mps::PoolReports& reports);
  void granted(const std::vector<allocate::Grant>& grants);
  void on_sample(const std::vector<gpu::GpuSample>& samples);

  const GuardReport& report() const { return report_; }
  // By the endpoints that they came through; behind links, as the guard attributes them.
  std::map<std::uint32_t, std::string> grants_of_processes() const;
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
  void follow_holders(const SharedList<Holder>& holders);
  void join_tenants();
  std::map<std::string, bool> endpoints_of_tenants() const;
  void take_sample();
  bool is_complete(const gpu::GpuSample& sample) const;
  using Exited = std::map<std::uint32_t, std::string> guard::PoolProcesses::*;
  void keep_released(const std::map<std::string, guard::PoolProcesses>& now);
  const std::string* grant_of_exited(const std::string& pool, std::uint32_t pid, Exited which) const;
  bool has_exited(std::uint32_t pid) const;
  void judge();
  void take_figures();
  void take_figures_soon(bool at_once);
  void arm(bool open);
  void watch_the_sampling();
  Duration wanted_pace() const;
  std::vector<gpu::SampleWish> wanted_samples();
  void keep_pace();
  void carry_out(guard::Order order);
  void stop(const guard::Order& order);
  void stop_the_container(const guard::Order& order);
  void terminate(guard::Order order);
  void ask_to_terminate(guard::Order order, std::vector<GuardAct> acts);
  void admit(const guard::Order& order);
  void signal(const guard::Order& order, int number);
  std::vector<std::string> beside(const guard::Order& order) const;
  GuardAct act_of(const guard::Order& order, const guard::Process* process) const;
  void note(const guard::Order& order, const guard::Process* process, const std::string& outcome, std::string note);
  void note(GuardAct act, const guard::Order& order, const std::string& outcome, std::string note);
  void read_stopped();
  void report_stopped();
  void keep_stopped();
  void ended(const KnownProcess& process);
  bool report_processes();
  std::string holder_of(const std::string& grant, const std::string& otherwise = {}) const;
  void name(const guard::Device& device, const guard::Process& process);
  void say_what_is_not_in_force();

  os::Loop& loop_;
  grants::Ledger& ledger_;
  mps::MpsClient& mps_;
  const std::unique_ptr<gpu::NvmlThread>& driver_;
  guard::SharedFigures& figures_;
  Callbacks callbacks_;
  guard::Tenants tenants_;  // the judge knows a tenant by the first of its grants
  std::map<std::string, std::vector<std::string>> devices_of_pool_;
  config::GuardMemory policy_ = config::GuardMemory::kTerminateNewest;  // for resources without a policy
  GuardedProcesses processes_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);

  std::multimap<std::string, PlannedShare> planned_;  // by GPU
  std::map<std::string, std::string> holder_of_;      // grant → "namespace/pod/container"
  std::map<std::string, guard::PoolProcesses> pools_;
  struct Released {
    std::string grant;
    int samples = 0;  // since then
  };
  // By pool and process: clients that tranche-keeper has released, and that the last sample still has.
  std::map<std::pair<std::string, std::uint32_t>, Released> released_;
  bool connected_ = false;
  guard::Inputs inputs_;
  guard::Memory memory_;
  std::vector<gpu::GpuSample> samples_;
  std::vector<guard::Device> devices_;
  std::vector<std::string> without_limit_;
  std::set<std::string> sampled_gpus_;
  Duration interval_{};
  Duration pace_{};  // minimum sampling rate: the configured interval, or a longer one while no container holds a GPU
  std::vector<gpu::SampleWish> wishes_;  // the last request
  guard::PaceMemory pace_memory_;
  os::Timer pace_timer_{loop_};
  bool silent_ = false;  // the driver does not report which processes hold memory
  os::Timer timer_{loop_};
  os::Timer watch_timer_{loop_};
  os::Timer figures_timer_{loop_};
  MonoTime figures_at_{};
  std::vector<std::pair<std::size_t, guard::ProcessId>> named_;  // device, process
  MonoTime named_at_{};
  std::string run_dir_;
  guard::StoppedProcesses written_;  // of memory_.stopped, in the file
  GuardReport report_;
};

}  // namespace tranche::node
