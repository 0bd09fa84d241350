// Inputs → plan → advertised → all parts that show or serve it.
#include <algorithm>

#include "gpu/live/node_faults.h"
#include "grants/live/grant_owners.h"
#include "observe/live/tenant_metrics.h"
#include "os/log/log.h"
#include "plan/make_plan.h"
#include "plan/select.h"
#include "programs/node/node_condition.h"
#include "programs/node/node_log.h"
#include "programs/node/node_news.h"
#include "programs/node/node_parts.h"
#include "programs/node/reports.h"

namespace tranche::agent {

using namespace std::chrono_literals;

namespace {

bool is_for_claims(const plan::Plan& plan, const std::string& gpu) {
  return std::ranges::find(plan.for_claims, gpu, &plan::PlannedDevice::uuid) != plan.for_claims.end();
}

}  // namespace

// After this, a GPU that the configuration excludes is not advertised, watched, labelled or measured.
void NodeProgram::take_in() {
  if (!scanned_) return;
  kept_by_ = config_.view().config.devices;
  auto kept = plan::keep_gpus(kept_by_, *scanned_);
  auto missing = missing_;
  std::erase_if(missing, [&](const std::string& uuid) { return inventory::find_gpu(kept, uuid) == nullptr; });
  health_.on_inventory(kept, std::move(missing), loop_->now());
  state_.inventory = std::move(kept);
}

const inventory::Inventory& NodeProgram::known_inventory() const {
  static const inventory::Inventory kNone;
  return state_.inventory ? *state_.inventory : kNone;
}

void NodeProgram::plan_again() {
  state_.config = config_.view();
  if (scanned_ && state_.config.config.devices != kept_by_) take_in();
  cdi_->follow(state_.config, state_.inventory);
  if (!state_.inventory) return;
  nodes_->look(state_.config.config.imex, state_.inventory->platform, driver_settings_.driver_root);
  auto plan = plan::make_plan(state_.config.config, *state_.inventory);
  auto problems = plan ? std::vector<Problem>{} : plan.error();
  problems.insert(problems.end(), nodes_->problems().begin(), nodes_->problems().end());
  if (problems != state_.plan_problems) log_problems(problems);
  state_.plan_problems = std::move(problems);
  if (!plan) return;  // the previous plan stays
  on_answered();      // grants that were just made count as held
  change_->aim(*std::move(plan));
}

// Uses the latest reports of the driver, kubelet and `tranche mps`: devices in use are never taken away.
void NodeProgram::settle_change() {
  if (!state_.inventory) return;
  tenants_->report(state_);  // with the limits of the grants
  const plan::Plan before = state_.plan;
  if (mig_) {
    std::set<std::string> withdrawn;
    for (const auto& [device, why] : mig_->withdrawn()) withdrawn.insert(device);
    change_->withdraw(std::move(withdrawn));
  }
  change_->follow(state_, state_.config.config.sharing.change);
  if (state_.plan != before) log_plan(state_.plan);
  tell_losses();
  keep_grants();
}

// What the ledger keeps for the next start, on disk after each change.
void NodeProgram::keep_grants() {
  if (grants_file_) grants_file_->keep(ledger_.kept());
}

void NodeProgram::tell_losses() {
  for (const auto& [holder, device, text] : change_->losses_to_tell(state_.holdings)) {
    log::warning("change.share_taken", {{"grant", allocate::grant_id(holder.slots)},
                                        {"pod", holder.pod_namespace + "/" + holder.pod},
                                        {"container", holder.container},
                                        {"device", device},
                                        {"what", text},
                                        {"why", "sharing.change: force"}});
    const auto* pod = cluster_->pods().find(holder.pod_namespace, holder.pod);
    cluster_->tell(kube::ObjectRef::pod(holder.pod_namespace, holder.pod, pod == nullptr ? "" : pod->uid),
                   kube::kShareTaken, loss_words(holder.container, device, text));
  }
}

void NodeProgram::turn() {
  settle_change();
  if (nvml_ && health_.wants_look(loop_->now())) nvml_->ask_use();
  auto faults = node_faults(state_, nodes_->block());
  if (mig_)
    for (const auto& [device, why] : mig_->withdrawn())
      faults.emplace(device, health::Unhealthy{health::Cause::kMig, why});
  if (claims_)  // a GPU that claims still hold, in a plan that assigns it to the device plugin
    for (const auto& [uid, claim] : claims_->prepared())
      for (const auto& part : claim.parts)
        if (part.kind != dra::Kind::kMonitor && !is_for_claims(state_.plan, part.gpu_uuid))
          faults.emplace(part.gpu_uuid,
                         health::Unhealthy{health::Cause::kClaims, "the claim " + dra::to_string(claim.name) +
                                                                       " holds a part of this GPU until its pods end"});
  state_.faults = health_.judge(state_.plan, known_inventory(), state_.driver_problem, std::move(faults),
                                pool_faults(state_.plan, state_.pools), loop_->now());
  state_.advertised = advertise::advertise(state_.plan, state_.faults, state_.withheld);
  tell(news_of_health(health_.take_changes()));
  tell(pool_news_.update(state_.plan, state_.pools));
  arm_health_timer();
  tenants_->follow(state_);
  keep_grants();
  publish();
  plugins_->publish(state_.advertised);
  follow_claims();
  // A change that waits for a free slot or endpoint must not wait for kubelet's next callback, which may take half a
  // minute.
  const bool waits = change_ && (change_->awaits_kubelet() || tenants_->retires_endpoints());
  if (waits && !waits_for_kubelet_) holdings_->ask();
  waits_for_kubelet_ = waits;
}

void NodeProgram::publish() {
  if (state_.config.path.empty() && state_.config.problems.empty()) state_.config = config_.view();
  const auto& config = state_.config.config;
  state_.taken = loop_->now();
  state_.taken_wall = loop_->wall_now();
  if (state_.held_read != state_.holdings_read) {
    state_.held_read = state_.holdings_read;
    keep_held_times(state_.held_times, tenant_rows(state_, {}), state_.plan, state_.taken);
  }
  state_.allocation.flags = config.flags;
  state_.allocation.imex = config.imex;
  state_.allocation.framework_environment = config.sharing.framework_environment;
  state_.allocation.control_nodes = nodes_->control();
  state_.allocation.imex_channels = nodes_->imex_channels();
  state_.allocation.paths = {host_mps_root(config)};
  state_.allocation.cdi_classes = cdi_->classes();
  state_.cdi_problem = cdi_->problem();
  state_.health = health_.report();
  if (mig_) state_.mig = mig_->report();
  state_.claims = claims_report();
  if (state_.claims && claim_statuses_) claim_statuses_->look();
  if (tenants_) tenants_->report(state_);
  state_.allocation.program_dir = state_.stopping.offer.dir;
  if (plugins_) state_.plugins = plugins_->states();
  if (cluster_) {
    cluster_->condition(node_condition(state_));
    if (mig_) cluster_->other_condition(mig_->condition());
    state_.cluster = cluster_->report();
    const auto held = holders(state_);
    state_.owners = grant_owners(held, cluster_->pods());
    grant_log_.follow(held, cluster_->pods(), state_.taken);
  }
  if (labels_) {
    labels_->use(link_->client());
    if (state_.inventory) labels_->follow(config, *state_.inventory, state_.plan, state_.pools);
    state_.labels = labels_->labels();
    state_.label_report = labels_->report();
  }
  if (dra_slices_) {
    dra_slices_->follow(state_);
    state_.slices = dra_slices_->report();
    if (const auto condition = dra_slices_->condition(); condition && cluster_) cluster_->other_condition(*condition);
  }
  box_.put(std::make_shared<const Snapshot>(state_));
  if (status_) status_->changed();
}

void NodeProgram::arm_health_timer() {
  health_timer_->stop();
  if (const auto next = health_.next_change())
    health_timer_->start(std::max<Duration>(*next - loop_->now(), 0s), [this] { turn(); });
}

}  // namespace tranche::agent
