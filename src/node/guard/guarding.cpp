#include "node/guard/guarding.h"

#include <fmt/format.h>

#include <algorithm>

#include "os/log/log.h"

namespace tranche::node {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kWhole = 0xffffffff;
constexpr Duration kIdlePace = 1s;
constexpr Duration kFiguresWithin = 200ms;

// Processes to name in the report: those that are not MPS clients, and clients without a grant.
bool is_named(const guard::Process& process) {
  return !process.ours && (!process.mps_client || process.grant.empty());
}

// Without their memory, which changes all the time.
std::vector<std::pair<std::string, os::ProcessRef>> named(const std::vector<guard::Device>& devices) {
  std::vector<std::pair<std::string, os::ProcessRef>> named;
  for (const auto& device : devices)
    for (const auto& process : device.processes)
      if (is_named(process)) named.emplace_back(device.uuid, process.id);
  return named;
}

}  // namespace

Guarding::Guarding(os::Loop& loop, grants::Ledger& ledger, mps::MpsClient& mps, gpu::NvmlThread& driver,
                   guard::SharedFigures& figures, const std::string& mps_root, const std::string& run_dir,
                   Callbacks callbacks)
    : loop_(loop),
      ledger_(ledger),
      mps_(mps),
      driver_(driver),
      figures_(figures),
      callbacks_(std::move(callbacks)),
      processes_(loop, mps_root, [this](const KnownProcess& process) { ended(process); }),
      run_dir_(run_dir) {
  report_.off = "there is no plan yet";
  read_stopped();
}

void Guarding::follow(const NodeView& node) {
  follow_plan(node);
  holders_ = node.decision.holders;
  join_tenants();
  look_again();
}

void Guarding::follow_plan(const NodeView& node) {
  const auto& config = node.in.config.config;
  const plan::Plan& plan = node.decision.plan;
  planned_.clear();
  std::set<std::string> gpus;
  policy_ = config.sharing.guard.memory;
  report_.policies.clear();
  const auto follow_device = [&](const plan::PlannedDevice& device, const std::string& resource,
                                 config::GuardMemory policy) {
    const auto* pool = device.pool.empty() ? nullptr : plan::find_pool(plan, device.pool);
    if (pool == nullptr) return;
    PlannedShare share{.uuid = device.uuid, .pool = device.pool};
    share.leave = pool->compute_mode == config::ComputeModePolicy::kLeave;
    const auto* gpu = node.in.inventory ? gpu::find_gpu(*node.in.inventory, device.gpu_uuid) : nullptr;
    for (const auto& mig : gpu == nullptr ? std::vector<gpu::MigDevice>{} : gpu->mig_devices) {
      if (mig.uuid != device.uuid) continue;
      share.gpu_instance = mig.gpu_instance;
      share.compute_instance = mig.compute_instance;
    }
    planned_.emplace(device.gpu_uuid, std::move(share));
    gpus.insert(device.gpu_uuid);
    report_.policies[resource] = policy;
  };
  for (const auto& resource : plan.resources)
    for (const auto& device : resource.devices) follow_device(device, resource.name, resource.guard_memory);
  for (const auto& device : plan.for_claims) follow_device(device, config.dra.driver_name, policy_);
  inputs_.foreign_processes = report_.foreign_processes_policy = config.sharing.guard.foreign_processes;
  report_.off = gpus.empty() ? "no GPU is shared by MPS" : "";
  const bool same = gpus == sampled_gpus_ && report_.interval == config.sharing.guard.interval;
  report_.interval = config.sharing.guard.interval;
  if (same) return;
  sampled_gpus_ = std::move(gpus);
  sample_again();
}

void Guarding::sample_again() {
  wishes_.clear();
  if (sampled_gpus_.empty()) {
    samples_.clear();
    driver_.sample({});
  }
  keep_pace();
  silent_ = false;
}

// Sample rarely while there is no tenant: no container has a GPU of the node, and only the node's own processes are on
// one. A grant's endpoint exists before its container starts, so a new tenant is sampled often from the beginning.
Duration Guarding::wanted_pace() const {
  const auto has_endpoints = [](const auto& pool) { return pool.second.has_endpoints; };
  const auto has_grant = [](const Holder& holder) { return !holder.grant.empty(); };
  if (std::ranges::any_of(holders_, has_grant) || std::ranges::any_of(pools_, has_endpoints)) return report_.interval;
  const auto& all = processes_.all();
  const bool alone =
      std::ranges::all_of(all, [](const auto& entry) { return entry.second.ours || entry.second.exited; });
  return alone ? std::max(report_.interval, kIdlePace) : report_.interval;
}

std::vector<gpu::SampleWish> Guarding::wanted_samples() {
  std::map<std::string, guard::Pace> paces;
  for (const auto& gpu : sampled_gpus_) paces[gpu].every = report_.pace;
  for (const guard::Device& device : devices_) {
    const auto pace = paces.find(device.gpu);
    if (pace == paces.end() || report_.pace != report_.interval) continue;
    std::map<pid_t, std::string> clients;
    if (const auto pool = pools_.find(device.pool); pool != pools_.end())
      for (const auto& [pid, grant] : pool->second.grant_of) clients[pid] = guard::tenant_of(tenants_, grant);
    guard::hasten(pace->second, device, inputs_.limits, clients, pace_memory_, report_.interval, loop_.now());
  }
  std::vector<gpu::SampleWish> wishes;
  MonoTime look_again = MonoTime::max();
  report_.paces.clear();
  for (const auto& [gpu, pace] : paces) {
    wishes.push_back({gpu, pace.every, pace.glance});
    look_again = std::min(look_again, pace.look_again);
    if (pace.every < report_.pace) report_.paces[gpu] = pace.every;
  }
  std::erase_if(pace_memory_.grants, [this](const auto& entry) {
    return std::ranges::find(devices_, entry.first.second, &guard::Device::uuid) == devices_.end();
  });
  pace_timer_.stop();
  if (look_again != MonoTime::max()) pace_timer_.start(look_again - loop_.now(), [this] { keep_pace(); });
  return wishes;
}

// If the driver reports nothing, the sampling interval makes no difference.
void Guarding::keep_pace() {
  if (sampled_gpus_.empty()) return;
  const auto pace = wanted_pace();
  if (std::exchange(report_.pace, pace) != pace) callbacks_.changed();
  auto wishes = wanted_samples();
  if (wishes == wishes_) return;
  wishes_ = std::move(wishes);
  driver_.sample(wishes_);
}

void Guarding::driver_is_silent(bool silent) {
  silent_ = silent;
  take_figures();
  report_.not_in_force = not_in_force();
  callbacks_.changed();
}

void Guarding::granted(const std::vector<grants::Grant>& grants) {
  for (const auto& grant : grants) processes_.given(grant.id);
  guard::change(figures_, [&](guard::Figures& figures) {
    for (const auto& grant : grants) {
      const auto tenant = guard::tenant_of(tenants_, grant.id);  // the previous one
      std::erase_if(figures, [&](const auto& entry) { return entry.first.first == tenant; });
    }
  });
  processes_.attribute(pools_);
  join_tenants();
}

void Guarding::join_tenants() {
  tenants_ = guard::tenants_of(ledger_.shares());
  std::map<std::string, std::vector<std::string>> devices_of_pool;
  for (const auto& [gpu, share] : planned_) devices_of_pool[share.pool].push_back(share.uuid);
  inputs_.limits = guard::limits_of(tenants_, devices_of_pool, report_.policies, policy_);
}

// While `tranche mps` does not answer, its last report is kept: daemons outlive it.
void Guarding::on_pools(const mps::PoolReports& reports) {
  auto pools = guard::pool_processes(reports);
  connected_ = !pools.empty();
  if (connected_) {
    if (pools == pools_) return;
    pools_ = std::move(pools);
    processes_.pools_reported();
  } else {
    for (auto& [id, pool] : pools_) pool.state = "absent";
  }
  processes_.attribute(pools_);
  look_again();
}

void Guarding::on_sample(const std::vector<gpu::GpuSample>& samples) {
  const bool same = std::ranges::equal(samples, samples_, &gpu::GpuSample::same_figures);
  samples_ = samples;
  if (same) return;
  std::vector<pid_t> pids;
  for (const auto& sample : samples)
    for (const auto& holder : sample.holders) pids.push_back(holder.pid);
  std::ranges::sort(pids);
  pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
  if (processes_.follow(pids)) processes_.attribute(pools_);
  look_again();
}

// Whether each process of the list is known to belong to a tenant, or to none. An unknown one has exited.
bool Guarding::is_complete(const gpu::GpuSample& sample) const {
  return sample.problem.empty() && std::ranges::all_of(sample.holders, [this](const gpu::GpuHolder& holder) {
           const auto* known = processes_.find(holder.pid);
           if (known == nullptr || has_exited(holder.pid) || known->ours || known->left || !known->grant.empty())
             return true;
           return known->in_sight && !(holder.mps_client && known->container);
         });
}

void Guarding::look_again() {
  const auto before = named(devices_);
  take_sample();
  judge(before != named(devices_));
  keep_pace();
}

void Guarding::take_sample() {
  devices_.clear();
  for (const auto& sample : samples_) {
    const bool complete = is_complete(sample);
    const auto [first, last] = planned_.equal_range(sample.uuid);
    for (auto it = first; it != last; ++it) {
      const PlannedShare& share = it->second;
      guard::Device device{.uuid = share.uuid,
                           .gpu = sample.uuid,
                           .pool = share.pool,
                           .processes = {},
                           .clients_read = sample.clients_read,
                           .sampled = {},
                           .complete = complete};
      device.processes.reserve(sample.holders.size());
      for (const auto& holder : sample.holders) {
        const bool here = share.gpu_instance == kWhole || (holder.gpu_instance == share.gpu_instance &&
                                                           holder.compute_instance == share.compute_instance);
        if (!here) continue;
        guard::Process process{
            .id = {holder.pid, 0}, .memory = holder.memory, .mps_client = holder.mps_client, .grant = {}};
        const auto* known = processes_.find(holder.pid);
        const auto* dead = grant_of_exited(share.pool, holder.pid, &guard::PoolProcesses::dead);
        if (dead != nullptr && (known == nullptr || !known->in_sight)) {  // a later process may have its pid
          process.grant = guard::tenant_of(tenants_, *dead);
          process.dead = process.mps_client = true;
        } else if (const auto* remnant = grant_of_exited(share.pool, holder.pid, &guard::PoolProcesses::remnants)) {
          process.grant = guard::tenant_of(tenants_, *remnant);
        } else if (known != nullptr) {
          process.id = known->id;
          if (!known->grant.empty()) process.grant = guard::tenant_of(tenants_, known->grant);
          // It has exited, and the pools have not reported that yet: as a remnant its heirs would be ended.
          process.dead = (known->exited || known->id.start_ticks == 0) && !process.grant.empty();
          process.ours = known->ours;
          process.first = known->first;
          process.in_container = !known->exited && (!known->grant.empty() || (known->container && !known->host_daemon));
        }
        device.processes.push_back(std::move(process));
      }
      devices_.push_back(std::move(device));
    }
  }
}

// The grant of a client that has exited and still holds memory. No process is signalled for it, because its pid may be
// another one's by now: `tranche mps` ends the processes that keep its memory.
const std::string* Guarding::grant_of_exited(const std::string& pool, pid_t pid, Exited which) const {
  const auto found = pools_.find(pool);
  if (found == pools_.end()) return nullptr;
  const auto exited = (found->second.*which).find(pid);
  return exited == (found->second.*which).end() ? nullptr : &exited->second;
}

bool Guarding::has_exited(pid_t pid) const {
  const auto* known = processes_.find(pid);
  return (known != nullptr && known->exited) || std::ranges::any_of(pools_, [pid](const auto& pool) {
           return pool.second.remnants.contains(pid) || pool.second.dead.contains(pid);
         });
}

// SIGSTOP comes before all other actions.
void Guarding::judge(bool others_named) {
  for (guard::Device& device : devices_)
    if (const auto sample = std::ranges::find(samples_, device.gpu, &gpu::GpuSample::uuid); sample != samples_.end())
      device.sampled = sample->at;
  guard::Verdict verdict = guard::judge(devices_, inputs_, memory_, loop_.now());
  take_figures_soon(!memory_.over.empty());
  for (const guard::Order& order : verdict.orders) carry_out(order);
  without_limit_ = std::move(verdict.without_limit);
  const auto before = std::exchange(report_.not_in_force, not_in_force());
  arm(verdict.open);
  keep_stopped();
  if (others_named || before != report_.not_in_force) callbacks_.changed();
}

// Every change is in the figures within kFiguresWithin; immediately while a limit is exceeded.
void Guarding::take_figures_soon(bool at_once) {
  const MonoTime due = figures_at_ + kFiguresWithin;
  if (at_once || loop_.now() >= due) return take_figures();
  if (!figures_timer_.running()) figures_timer_.start(due - loop_.now(), [this] { take_figures(); });
}

void Guarding::take_figures() {
  figures_timer_.stop();
  figures_at_ = loop_.now();
  guard::change(figures_, [this](guard::Figures& figures) {
    guard::take_figures(figures, devices_, tenants_, inputs_.limits, loop_.now());
    if (silent_) guard::forget_use(figures);
  });
}

// While the judge must run again, the same figures are judged at every interval: the driver thread reports figures only
// when they change.
void Guarding::arm(bool open) {
  if (!open) {
    timer_.stop();
  } else if (!timer_.running()) {
    timer_.start(report_.interval, [this] { judge(false); });
  }
}

void Guarding::ended(const KnownProcess& process) {
  memory_.stopped.erase(process.id);
  keep_stopped();
  keep_pace();  // the driver may have stopped listing it before its exit was seen
}

std::map<pid_t, std::string> Guarding::grants_of_processes() const {
  std::map<pid_t, std::string> grants;
  for (const auto& [pid, process] : processes_.all())
    if (!process.grant.empty()) grants[pid] = process.grant;
  for (const auto& [id, pool] : pools_)
    for (const auto* clients : {&pool.dead, &pool.remnants, &pool.grant_of})
      for (const auto& [pid, grant] : *clients) grants[pid] = grant;
  return grants;
}

GuardReport Guarding::report() const {
  GuardReport report = report_;
  for (const auto& [id, each] : memory_.stopped) {
    const auto& [grant, device] = each.because;
    report.stopped.push_back({device, grant, holder_of(grant), id.pid, loop_.wall_now() - (loop_.now() - each.since)});
  }
  for (const auto& device : devices_)
    for (const auto& process : device.processes) {
      if (!is_named(process)) continue;
      auto& shown = (process.mps_client ? report.unattributed : report.foreign_processes)
                        .emplace_back(device.uuid, process.id.pid, process.memory);
      shown.grant = process.grant;
      const auto* known = processes_.find(process.id.pid);
      if (known == nullptr) continue;
      shown.name = known->name;
      if (!known->container) continue;
      shown.pod_uid = known->container->pod_uid;
      shown.container_id = known->container->id;
    }
  return report;
}

std::vector<std::string> Guarding::not_in_force() const {
  std::vector<std::string> sentences;
  if (!report_.off.empty()) return sentences;
  if (silent_)
    sentences.emplace_back(
        "nothing is guarded: the driver does not report who holds memory; see dmesg for Xid or GSP messages");
  if (!connected_)
    sentences.emplace_back("clients over their limit are stopped but not ended: tranche mps does not answer");
  for (const auto& sample : samples_)
    if (!sample.problem.empty())
      sentences.push_back(fmt::format("GPU {} is not guarded: {}", sample.uuid, sample.problem));
  const auto unseen = std::ranges::count_if(processes_.all(), [this](const auto& entry) {
    return !entry.second.in_sight && !entry.second.left && !has_exited(entry.first);
  });
  if (unseen > 0)
    sentences.push_back(
        fmt::format("{} processes on shared GPUs are not visible in /proc and are counted for no container: the guard "
                    "needs the host's "
                    "process ids (hostPID: true)",
                    unseen));
  std::ptrdiff_t unattributed = 0;
  for (const auto& device : devices_)
    unattributed += std::ranges::count_if(device.processes,
                                          [](const guard::Process& each) { return is_named(each) && each.mps_client; });
  if (unattributed > 0)
    sentences.push_back(
        fmt::format("no limit is enforced for {} MPS clients of unknown containers: see "
                    "guard.unattributed in the status",
                    unattributed));
  for (const auto& grant : without_limit_)
    sentences.push_back(fmt::format("grant {} is not held to a limit: its limits are not known", grant));
  for (const auto& [gpu, share] : planned_) {
    if (!share.leave) continue;
    const auto pool = pools_.find(share.pool);
    const std::string state = pool == pools_.end() ? "absent" : pool->second.state;
    if (state == "serving") {
      sentences.push_back(fmt::format(
          "programs that avoid MPS have no limit on {}: its compute mode is left alone (computeMode: leave)",
          share.uuid));
    } else {
      sentences.push_back(
          fmt::format("every new program on {} runs without limits: pool {} is {}, and its compute mode is left alone "
                      "(computeMode: leave)",
                      share.uuid, share.pool, state));
    }
  }
  return sentences;
}

}  // namespace tranche::node
