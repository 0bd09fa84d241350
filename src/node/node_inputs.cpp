// Inputs of the node agent: configuration, driver, pools, kubelet, the cluster, requests. Each callback stores what
// came and calls step().
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "gpu/inventory/inventory.h"
#include "kubelet/pod_resources.h"
#include "node/node_parts.h"
#include "node/reports.h"
#include "os/log/log.h"
#include "os/memory/memory.h"
#include "plan/select.h"

namespace tranche::node {
namespace {

using namespace std::chrono_literals;

constexpr Duration kHoldingsAfterGrant = 50ms;  // kubelet records a grant shortly after the response
constexpr Duration kKubeletDeadline = 3s;
constexpr Duration kHoldingsEvery = 30s;
constexpr Duration kHoldingsEveryWhenReported = 5min;
constexpr Duration kFirstBehind = 100ms;
constexpr Duration kLookForChannel = 5s;
constexpr Duration kUseFreshFor = 400ms;
constexpr Duration kUseWait = 300ms;
constexpr Duration kTidyAfter = 10s;  // at most so often: it takes 0.3 to 0.7 ms with 768 tenants

// A missing driver is an error or not according to failOnInitError; a driver that has disappeared always is one.
void log_no_driver(const Inputs& in) {
  if (in.inventory) {
    log::error("driver.gone", {{"why", in.driver_problem}});
  } else if (in.config.config.flags.fail_on_init_error) {
    log::error("driver.waiting", {{"why", in.driver_problem}});
  } else {
    log::info("driver.waiting", {{"why", in.driver_problem}, {"idle", true}});
  }
}

void log_inventory(const std::optional<gpu::Inventory>& before, const gpu::Inventory& scanned) {
  if (before) {
    for (const auto& change : gpu::changes(*before, scanned)) log::info("inventory.changed", {{"what", change}});
  } else {
    log::info("driver.ready", {{"version", scanned.driver_version},
                               {"gpus", scanned.gpus.size()},
                               {"platform", gpu::to_string(scanned.platform)}});
  }
  for (const auto& text : scanned.unreadable) log::warning("gpu.unreadable", {{"what", text}});
  for (const auto& text : scanned.doubts) log::warning("gpu.doubt", {{"what", text}});
}

void log_plugins(const std::vector<kubelet::PluginState>& before, const std::vector<kubelet::PluginState>& next) {
  for (const auto& plugin : next) {
    const auto found = std::ranges::find(before, plugin.resource, &kubelet::PluginState::resource);
    const kubelet::PluginState was = found == before.end() ? kubelet::PluginState{} : *found;
    if (!plugin.note.empty() && plugin.note != was.note)
      log::warning("plugin.took_over", {{"resource", plugin.resource}, {"what", plugin.note}});
    if (!plugin.problem.empty() && plugin.problem != was.problem)
      log::warning("plugin.problem", {{"resource", plugin.resource}, {"why", plugin.problem}});
    if (plugin.registered && !was.registered) log::info("plugin.registered", {{"resource", plugin.resource}});
  }
}

void log_pools(const mps::PoolReports& before, const mps::PoolReports& next, bool needed) {
  for (const auto& [id, pool] : next.pools) {
    const auto it = before.pools.find(id);
    if (it == before.pools.end() || it->second.state != pool.state)
      log::info("pool.state", {{"pool", id}, {"state", pool.state}, {"why", pool.reason}});
  }
  if (next.connected != before.connected && needed)
    log::info("mps.connection", {{"connected", next.connected}, {"why", next.problem}});
}

// "GPU-…: 3 slots, 43131 MiB, 30 %, 40 SMs; …"; without values that are not limited.
std::string limits_text(const grants::Grant& grant) {
  std::vector<std::string> parts;
  for (const auto& device : grant.devices) {
    std::string part = fmt::format("{}: {} slots", device.uuid, device.slots);
    if (device.limits.memory.value > 0) part += fmt::format(", {} MiB", device.limits.memory.in_mib());
    if (device.limits.threads.hundredths > 0)
      part += fmt::format(", {} %, {} SMs", to_string(device.limits.threads), device.limits.sms);
    parts.push_back(std::move(part));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

void log_answered(const Answered& answered) {
  for (const auto& grant : answered.given) {
    log::info("grant.given", {{"grant", grant.id},
                              {"resource", grant.resource},
                              {"slots", fmt::format("{}", fmt::join(grant.slots, ","))},
                              {"pool", grant.pool},
                              {"limits", grant.pool.empty() ? "" : limits_text(grant)}});
  }
  for (const auto& [resource, error] : answered.refused)
    log::warning("grant.refused", {{"resource", resource}, {"why", error}});
}

}  // namespace

Holdings::Holdings(os::Loop& loop, os::Worker& worker, std::string socket, OnListed on_listed)
    : loop_(loop), worker_(worker), socket_(std::move(socket)), on_listed_(std::move(on_listed)) {}

void Holdings::ask_in(Duration delay) {
  timer_.start(delay, [this] { ask(); });
}

void Holdings::ask() {
  if (asked_) {
    again_ = true;
    return;
  }
  asked_ = true;
  worker_.run([this, socket = socket_, asked = loop_.now()] {
    auto listed = kubelet::list_pod_resources(socket, kKubeletDeadline);
    loop_.post([this, asked, listed = std::move(listed)] {
      asked_ = false;
      on_listed_(listed, asked);
    });
  });
}

void Holdings::settle(bool behind, bool pods_reported) {
  behind_wait_ = !behind ? Duration::zero() : std::clamp<Duration>(behind_wait_ * 2, kFirstBehind, kHoldingsEvery);
  if (std::exchange(again_, false)) return ask();
  ask_in(behind ? behind_wait_ : pods_reported ? kHoldingsEveryWhenReported : kHoldingsEvery);
}

void NodeProgram::on_config() {
  inputs_.config = config_.view();
  report_events({config_event(inputs_.config)});
  open_driver();
  choose_gpus();
  step({.plan = true});
  look_at_partitions();
}

// After this, a GPU that the configuration excludes is not advertised, watched, labelled or measured.
void NodeProgram::choose_gpus() {
  if (!scanned_) return;
  auto chosen = plan::keep_gpus(inputs_.config.config.devices, *scanned_);
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
  const bool look = health_.on_event(event, known_inventory(inputs_), loop_.now());
  if (look) nvml_.ask_use();
  using What = gpu::GpuEvent::What;
  if (event.what == What::kBack) nvml_.rescan();
  if (event.what == What::kSilent || event.what == What::kAnswering)
    guarding_.driver_is_silent(event.what == What::kSilent);
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
  const auto before = std::exchange(inputs_.pools, next);
  follow_clients(next);
  claims_.on_pools(next);
  if (next == before) return;
  log_pools(before, next, !decision_.plan.pools.empty());
  if (before.pages_problem.empty() && !next.pages_problem.empty())
    report_events({pages_event("mps", next.pages_problem)});
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
  if (const auto due = gpu_figures_.next_measurement())
    measure_timer_.start(std::max<Duration>(*due - loop_.now(), 0s), [this] {
      gpu_figures_.begin_measurement();
      if (inputs_.inventory) nvml_.measure();
    });
}

void NodeProgram::on_answered() {
  const Answered answered = answers_.take_answered();
  log_answered(answered);
  if (answered.given.empty()) return;
  for (const auto& grant : answered.given) {
    ledger_.given(grant, answered.last_given);
    notices_.given(grant.id);
  }
  inputs_.holdings = ledger_.as_listed();
  decision_.holders = holders({inputs_, decision_}, cluster_.pods());  // without a former holder of the slots
  grants_file_.keep(ledger_.shares());
  guarding_.granted(answered.given);
  holdings_.ask_in(kHoldingsAfterGrant);
  if (mig_) mig_->use_is(mig_use(false));
}

void NodeProgram::on_holdings(const Result<std::vector<grants::Held>>& listed, MonoTime asked) {
  // Processes grants that were just made before kubelet's list: a grant without an entry would count as one without
  // MPS, and the free slots of its GPU would be withheld until it has one.
  on_answered();
  const bool watching = cluster_.watching(), was_read = listed.has_value();
  std::error_code unknown;
  if (change_.answered(was_read, std::filesystem::exists(options_.pod_resources_socket, unknown)))
    log::warning("change.unguarded", {{"why",
                                       "kubelet's PodResources socket is not there, so it is not known what containers "
                                       "hold: a changed configuration is applied at once"}});
  inputs_.holdings_problem = was_read ? "" : to_string(listed.error());
  if (was_read) {
    const auto running = [this](const grants::Held& held) {
      const auto* pod = cluster_.pods().find(held.pod_namespace, held.pod);
      return pod == nullptr || pod->over() ? std::string() : pod->uid;
    };
    ledger_.listed(*listed, asked, watching ? running : grants::Ledger::RunningPod{});
    inputs_.holdings = ledger_.as_listed();
    inputs_.holdings_read = asked;
  } else {
    ledger_.not_answered(inputs_.holdings_problem);
  }
  step({.offer = true, .holdings = was_read});
  if (mig_) mig_->use_is(mig_use(true));
  holdings_.settle(ledger_.behind() || ledger_.awaits_name(loop_.now()), watching);
  if (change_.awaits_kubelet() || retiring_) holdings_.ask_in(grants::kPatience.confirm);
}

void NodeProgram::on_endings(const std::vector<kube::PodEnding>& endings) {
  bool ended = false;
  for (const auto& [over, pod] : endings) {
    ended = ended || over;
    std::vector<std::string> grants;
    for (const auto& holder : decision_.holders) {
      if (holder.grant.empty() || holder.pod_namespace != pod.pod_namespace || holder.pod != pod.name) continue;
      grants.push_back(holder.grant);
      // Its endpoint goes after kubelet's next answer without it. Deleting a mirror pod ends nothing.
      if (over && !pod.mirror && !holder.pool.empty()) ledger_.pod_ended(holder.pool, holder.grant, loop_.now());
    }
    if (grants.empty()) continue;
    std::ranges::sort(grants);
    log::info(over ? "pod.ended" : "pod.deleting", {{"pod", pod.pod_namespace + "/" + pod.name},
                                                    {"uid", pod.uid},
                                                    {"grants", fmt::format("{}", fmt::join(grants, ","))},
                                                    {"grace_s", pod.deletion_grace_seconds.value_or(-1)}});
  }
  if (ended) holdings_.ask();  // kubelet's list has changed
}

void NodeProgram::report_events(const std::vector<NodeEvent>& events) {
  for (const auto& [reason, message] : events) cluster_.emit_on_node(*reason, message);
}

void NodeProgram::look_at_nodes() {
  const auto& imex = inputs_.config.config.imex;
  nodes_ = cdi::find_device_nodes(imex, inputs_.inventory->platform, driver_settings_.driver_root);
  inputs_.node_problems = cdi::imex_problems(imex, nodes_.imex_channel);
  inputs_.node_block = cdi::imex_block(imex, nodes_.imex_channel);
  nodes_timer_.stop();
  if (!inputs_.node_problems.empty()) await_channel();
}

// A configured channel that is missing may appear.
void NodeProgram::await_channel() {
  nodes_timer_.start(kLookForChannel, [this] {
    if (!cdi::imex_channel_exists(driver_settings_.driver_root)) return await_channel();
    step({.plan = true});
  });
}

// What the agent's parts report, and the files of the node as the newest configuration and inventory name them.
void NodeProgram::collect() {
  const auto& config = inputs_.config.config;
  if (inputs_.fresh.plan) {
    on_answered();  // grants that were just made count as held
    cdi_.follow(inputs_.config, inputs_.inventory);
    if (inputs_.inventory) look_at_nodes();
  }
  inputs_.cdi_problem = cdi_.problem();
  inputs_.allocation = {config.flags,        {host_mps_root(config)}, nodes_.control,
                        nodes_.imex_channel, cdi_.classes(),          config.sharing.framework_environment};
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
