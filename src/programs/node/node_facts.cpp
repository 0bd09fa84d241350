// Inputs of the node agent: configuration, driver, pools, kubelet, the cluster, requests.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "gpu/inventory/compare.h"
#include "os/log/log.h"
#include "programs/node/node_log.h"
#include "programs/node/node_parts.h"
#include "programs/node/reports.h"
#include "termination/live/watched_pod.h"

namespace tranche::agent {
namespace {

using namespace std::chrono_literals;

constexpr Duration kHoldingsAfterGrant = 50ms;  // kubelet records a grant shortly after the response
constexpr Duration kUseFreshFor = 400ms;
constexpr Duration kUseWait = 300ms;

}  // namespace

void NodeProgram::on_config() {
  log_problems(config_.view().problems);
  log::info("config.changed",
            {{"path", config_.view().path}, {"inForce", config_.view().last_good ? "last good" : "new"}});
  log_effective(config_.view());
  tell({news_of_config(config_.view())});
  open_driver();
  plan_again();
  turn();
}

void NodeProgram::on_inventory(const Result<inventory::Inventory>& scanned) {
  if (!scanned) {
    const std::string problem = to_string(scanned.error());
    if (problem == state_.driver_problem) return;
    state_.driver_problem = problem;
    log_no_driver(state_);
    turn();
    return;
  }
  const bool first = !state_.inventory;
  log_inventory(scanned_, *scanned);
  presence_.saw(driver_settings_.system_root, *scanned);
  auto kept = inventory::keep_missing(
      scanned_.value_or(inventory::Inventory{}), *scanned,
      [this](const inventory::Gpu& gpu) { return presence_.has_left(driver_settings_.system_root, gpu); });
  scanned_ = std::move(kept.inventory);
  missing_ = std::move(kept.missing);
  take_in();
  if (first && nvml_) nvml_->ask_use();  // the driver may have requested an action for a GPU before this start
  state_.driver_problem.clear();
  plan_again();
  turn();
  if (mig_) mig_->on_inventory();
}

void NodeProgram::on_gpu_event(const host::GpuEvent& event) {
  const bool look = health_.on_event(event, known_inventory(), state_.plan, loop_->now());
  if (nvml_ && look) nvml_->ask_use();
  if (nvml_ && event.what == host::GpuEvent::What::kBack) nvml_->rescan();
  turn();
}

void NodeProgram::on_use(const Result<std::vector<host::GpuUse>>& use) {
  if (!use) return answer_waiting();
  use_read_ = loop_->now();
  health_.on_use(*use, loop_->now());
  state_.use = *use;
  std::erase_if(state_.use, [this](const host::GpuUse& gpu) {
    return inventory::find_gpu(known_inventory(), gpu.uuid) == nullptr;
  });
  turn();
  answer_waiting();
}

void NodeProgram::on_pools(const PoolReports& next) {
  tenants_->on_pools(next);
  claims_->on_pools(next);
  if (next == state_.pools) return;
  log_pools(state_.pools, next, !state_.plan.pools.empty());
  if (state_.pools.pages_problem.empty() && !next.pages_problem.empty())
    tell({news_of_pages("mps", next.pages_problem)});
  state_.pools = next;
  turn();
}

// About this program's pages; those of `tranche mps` are a part of its report.
void NodeProgram::on_pages() {
  if (state_.pages_problem == http_->problem()) return;
  if (state_.pages_problem.empty()) tell({news_of_pages("node", http_->problem())});
  state_.pages_problem = http_->problem();
  publish();
}

// After a pause of the reader the next scrape is expected after a pause as long; scrapes that come sooner bring the
// measurement forward.
void NodeProgram::on_looked() {
  if (stopping_) return;
  const auto due = gpu_figures_.next_measurement();
  if (!due) return;
  measure_timer_->start(std::max<Duration>(*due - loop_->now(), 0s), [this] {
    gpu_figures_.begin_measurement();
    if (nvml_ && state_.inventory) nvml_->measure();
    on_looked();
  });
}

void NodeProgram::on_answered() {
  const Answered answered = answers_->take_answered();
  log_answered(answered);
  const bool known =
      holdings_ && holdings_->answer_of() >= answered.last_given;  // this call comes shortly after the answer
  if (!known)
    for (const auto& grant : answered.given) forget_former_holders(state_.holdings, grant);
  for (const auto& grant : answered.given) ledger_.given(grant, answered.last_given);
  keep_grants();
  if (tenants_) tenants_->granted(answered.given, known);
  if (!answered.given.empty() && holdings_) holdings_->ask_in(kHoldingsAfterGrant);
  if (!answered.given.empty() && mig_) mig_->use_is(mig_use(false));
}

void NodeProgram::on_holdings(Result<std::vector<host::PodHolding>> listed) {
  if (stopping_) return;
  // Processes grants that were just made before kubelet's list: a grant without an entry would count as one without
  // MPS, and the free slots of its GPU would be withheld until it has one.
  on_answered();
  state_.holdings_problem = listed ? "" : to_string(listed.error());
  std::error_code unknown;
  change_->listed(listed, holdings_->answer_of(), std::filesystem::exists(options_.pod_resources_socket, unknown));
  if (listed) {
    state_.holdings = *std::move(listed);
    state_.holdings_read = holdings_->answer_of();
    settle_change();  // first: another plan must not decide which grants belong to MPS
    tenants_->on_holdings(state_);
    keep_grants();
  }
  turn();
  if (mig_) mig_->use_is(mig_use(true));
  const bool told = cluster_->watching();
  const bool lists_ended = told && lists_ended_pods(state_.holdings, cluster_->pods());
  holdings_->settle(lists_ended || ledger_.awaits_name(loop_->now()), told);
  if (change_->awaits_kubelet() || tenants_->retires_endpoints()) holdings_->ask_in(grants::kPatience.confirm);
}

void NodeProgram::on_pods(const kube::PodChanges& changes) {
  tenants_->on_pods(changes);  // first: a drain competes with the signal
  if (log_pods(changes, state_.owners)) holdings_->ask();
  publish();
}

void NodeProgram::tell(const std::vector<NodeNews>& news) {
  for (const auto& [reason, message] : news) cluster_->tell_node(*reason, message);
}

Result<std::string> NodeProgram::answer(const std::string& request) {
  if (request == "alive") return std::string(R"({"alive":true})");
  if (request == "watch") return json_text(status_document(*box_.get()));
  return fail(Kind::kInvalid, "the node agent answers \"status\", \"watch\" and \"alive\", not " + request);
}

// A reader gets what the driver reports now. A driver that does not respond delays it by kUseWait.
void NodeProgram::answer(const std::string& request, const host::StatusServer::Reply& reply) {
  if (request != "status") return reply(answer(request));
  holdings_->ask();
  status_readers_.push_back(reply);
  if (!nvml_ || !state_.inventory || loop_->now() - use_read_ < kUseFreshFor) return answer_waiting();
  if (use_timer_->running()) return;
  nvml_->ask_use();
  use_timer_->start(kUseWait, [this] { answer_waiting(); });
}

void NodeProgram::answer_waiting() {
  use_timer_->stop();
  if (status_readers_.empty()) return;
  const auto document = json_text(status_document(*box_.get()));
  for (const auto& reply : std::exchange(status_readers_, {})) reply(document);
}

}  // namespace tranche::agent
