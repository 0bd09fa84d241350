// Inputs of the node agent: configuration, driver, pools, kubelet, the cluster, requests. Each callback stores what
// came and calls step().
#include <filesystem>

#include "gpu/inventory/compare.h"
#include "node/node_log.h"
#include "node/node_parts.h"
#include "node/reports.h"
#include "os/log/log.h"
#include "os/memory/memory.h"
#include "plan/select.h"

namespace tranche::node {
namespace {

using namespace std::chrono_literals;

constexpr Duration kHoldingsAfterGrant = 50ms;  // kubelet records a grant shortly after the response
constexpr Duration kUseFreshFor = 400ms;
constexpr Duration kUseWait = 300ms;
constexpr Duration kTidyAfter = 10s;  // at most so often: it takes 0.3 to 0.7 ms with 768 tenants

}  // namespace

void NodeProgram::on_config() {
  inputs_.config = config_.view();
  config::log_problems(inputs_.config.problems);
  log::info("config.changed",
            {{"path", inputs_.config.path}, {"inForce", inputs_.config.last_good ? "last good" : "new"}});
  config::log_effective(inputs_.config);
  report_events({config_event(inputs_.config)});
  open_driver();
  if (inputs_.config.config.devices != chosen_by_) choose_gpus();
  step({.plan = true});
  look_at_partitions();
}

// After this, a GPU that the configuration excludes is not advertised, watched, labelled or measured.
void NodeProgram::choose_gpus() {
  if (!scanned_) return;
  chosen_by_ = inputs_.config.config.devices;
  auto chosen = plan::keep_gpus(chosen_by_, *scanned_);
  auto missing = missing_;
  std::erase_if(missing, [&](const std::string& uuid) { return gpu::find_gpu(chosen, uuid) == nullptr; });
  health_.on_inventory(chosen, std::move(missing), loop_.now());
  inputs_.inventory = std::move(chosen);
}

void NodeProgram::on_inventory(const Result<gpu::Inventory>& scanned) {
  if (!scanned) {
    const std::string problem = to_string(scanned.error());
    if (problem == inputs_.driver_problem) return;
    inputs_.driver_problem = problem;
    log_no_driver(inputs_);
    return step({.offer = true});
  }
  const bool first = !inputs_.inventory;
  log_inventory(scanned_, *scanned);
  auto kept = gpu::keep_missing(scanned_.value_or(gpu::Inventory{}), *scanned, [this](const gpu::Gpu& gpu) {
    return gpu::has_left(driver_settings_.system_root, gpu);
  });
  scanned_ = std::move(kept.inventory);
  missing_ = std::move(kept.missing);
  choose_gpus();
  if (first) nvml_.ask_use();  // the driver may have requested an action for a GPU before this start
  inputs_.driver_problem.clear();
  step({.plan = true});
  look_at_partitions();
  if (mig_) mig_->on_inventory();
}

void NodeProgram::on_gpu_event(const gpu::GpuEvent& event) {
  const bool look = health_.on_event(event, known_inventory(inputs_), decision_.plan, loop_.now());
  if (look) nvml_.ask_use();
  if (event.what == gpu::GpuEvent::What::kBack) nvml_.rescan();
  step({.offer = true});
}

void NodeProgram::on_use(const Result<std::vector<gpu::GpuUse>>& use) {
  if (!use) return answer_waiting();
  use_read_ = loop_.now();
  health_.on_use(*use, loop_.now());
  inputs_.use = *use;
  std::erase_if(inputs_.use, [this](const gpu::GpuUse& gpu) {
    return gpu::find_gpu(known_inventory(inputs_), gpu.uuid) == nullptr;
  });
  step({.offer = true});
  answer_waiting();
}

void NodeProgram::on_pools(const mps::PoolReports& next) {
  tenants_.on_pools(next);
  claims_.on_pools(next);
  if (next == inputs_.pools) return;
  log_pools(inputs_.pools, next, !decision_.plan.pools.empty());
  if (inputs_.pools.pages_problem.empty() && !next.pages_problem.empty())
    report_events({pages_event("mps", next.pages_problem)});
  inputs_.pools = next;
  step({.offer = true});
}

// About this program's pages and control group; those of `tranche mps` are a part of its report.
void NodeProgram::on_pages() {
  if (inputs_.pages_problem.empty() && !http_.problem().empty()) report_events({pages_event("node", http_.problem())});
  inputs_.pages_problem = http_.problem();
  step();
}

// After a pause of the reader the next scrape is expected after a pause as long; scrapes that come sooner bring the
// measurement forward.
void NodeProgram::on_looked() {
  const auto due = gpu_figures_.next_measurement();
  if (!due) return;
  measure_timer_.start(std::max<Duration>(*due - loop_.now(), 0s), [this] {
    gpu_figures_.begin_measurement();
    if (inputs_.inventory) nvml_.measure();
    on_looked();
  });
}

void NodeProgram::on_answered() {
  const Answered answered = answers_.take_answered();
  log_answered(answered);
  const bool known = holdings_.answer_of() >= answered.last_given;  // this call comes shortly after the answer
  if (!known && !answered.given.empty()) {
    std::vector<kubelet::PodHolding> holdings = inputs_.holdings;
    for (const auto& grant : answered.given) forget_former_holders(holdings, grant);
    inputs_.holdings = std::move(holdings);
  }
  for (const auto& grant : answered.given) ledger_.given(grant, answered.last_given);
  grants_file_.keep(ledger_.shares());
  tenants_.granted(answered.given, known);
  if (!answered.given.empty()) holdings_.ask_in(kHoldingsAfterGrant);
  if (!answered.given.empty() && mig_) mig_->use_is(mig_use(false));
}

void NodeProgram::on_holdings(Result<std::vector<kubelet::PodHolding>> listed) {
  // Processes grants that were just made before kubelet's list: a grant without an entry would count as one without
  // MPS, and the free slots of its GPU would be withheld until it has one.
  on_answered();
  const bool watching = cluster_.watching();
  const bool late = listed && watching && late_pods_.complete(*listed, inputs_.holdings, cluster_.pods());
  std::error_code unknown;
  if (change_.listed(listed, holdings_.answer_of(), std::filesystem::exists(options_.pod_resources_socket, unknown)))
    log::warning("change.unguarded", {{"why",
                                       "kubelet's PodResources socket is not there, so it is not known what containers "
                                       "hold: a changed configuration is applied at once"}});
  const bool was_read = listed.has_value();
  inputs_.holdings_problem = was_read ? "" : to_string(listed.error());
  if (was_read) {
    inputs_.holdings = *std::move(listed);
    inputs_.holdings_read = holdings_.answer_of();
  }
  step({.offer = true, .holdings = was_read});
  if (mig_) mig_->use_is(mig_use(true));
  const bool lists_ended = watching && lists_ended_pods(inputs_.holdings, cluster_.pods());
  holdings_.settle(late || lists_ended || ledger_.awaits_name(loop_.now()), watching);
  if (change_.awaits_kubelet() || tenants_.retires_endpoints()) holdings_.ask_in(grants::kPatience.confirm);
}

void NodeProgram::on_pods(const kube::PodChanges& changes) {
  tenants_.on_pods(changes);
  if (log_pods(changes, decision_.holders)) holdings_.ask();
  step();
}

void NodeProgram::report_events(const std::vector<NodeEvent>& events) {
  for (const auto& [reason, message] : events) cluster_.emit_on_node(*reason, message);
}

// What the agent's parts report, and the files of the node as the newest configuration and inventory name them.
void NodeProgram::collect() {
  const auto& config = inputs_.config.config;
  if (inputs_.fresh.plan) {
    on_answered();  // grants that were just made count as held
    cdi_.follow(inputs_.config, inputs_.inventory);
    if (inputs_.inventory) nodes_.look(config.imex, inputs_.inventory->platform, driver_settings_.driver_root);
  }
  inputs_.node_problems = nodes_.problems();
  inputs_.node_block = nodes_.block();
  inputs_.cdi_problem = cdi_.problem();
  inputs_.allocation = {config.flags,           {host_mps_root(config)}, nodes_.control(),
                        nodes_.imex_channels(), cdi_.classes(),          config.sharing.framework_environment};
  log_plugins(std::exchange(inputs_.plugins, plugins_.states()), inputs_.plugins);
  inputs_.claims = claims_report();
  inputs_.partitionable = partitionable();
  if (!mig_) return;
  inputs_.mig = mig_->report();
  inputs_.withdrawn = mig_->withdrawn();
}

Result<std::string> NodeProgram::answer(const std::string& request) {
  if (request == "alive") return std::string(R"({"alive":true})");
  if (request == "watch") return status_document(*box_.get(), {}).str();  // does not measure
  return fail(Kind::kInvalid, "the node agent answers \"status\", \"watch\" and \"alive\", not " + request);
}

// A reader gets what the driver reports now. A driver that does not respond delays it by kUseWait.
void NodeProgram::answer(const std::string& request, const os::StatusServer::Reply& reply) {
  if (request != "status") return reply(answer(request));
  holdings_.ask();
  status_readers_.push_back(reply);
  if (!nvml_.runs() || !inputs_.inventory || loop_.now() - use_read_ < kUseFreshFor) return answer_waiting();
  if (use_timer_.running()) return;
  nvml_.ask_use();
  use_timer_.start(kUseWait, [this] { answer_waiting(); });
}

void NodeProgram::answer_waiting() {
  use_timer_.stop();
  if (status_readers_.empty()) return;
  const Result<std::string> document = status_document(*box_.get(), gpu_figures_.look(loop_.now())).str();
  on_looked();
  for (const auto& reply : std::exchange(status_readers_, {})) reply(document);
  tidy_later();
}

void NodeProgram::tidy_later() {
  if (!tidy_timer_.running()) tidy_timer_.start(kTidyAfter, [] { os::return_free_memory(); });
}

}  // namespace tranche::node
