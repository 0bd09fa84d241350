#include "mps/pool/pool_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "mps/protocol/pool_reports.h"
#include "os/log/log.h"

namespace tranche::mps {

std::vector<LifeAction> step(PoolLife& life, LifeEvent event, const LifeInputs& inputs, const std::string& why) {
  using enum LifeState;
  const bool wanted = inputs.planned && !inputs.closing;
  const bool failed = event == LifeEvent::kStartFailed;
  const bool again = event == LifeEvent::kRetry || event == LifeEvent::kPlanChanged;
  if (failed || event == LifeEvent::kModesSet) life.setting_modes = false;
  std::vector<LifeAction> actions;
  const auto go = [&](LifeState state, LifeAction action) {
    life.state = state;
    actions.push_back(action);
  };
  const auto set_modes = [&] {
    if (!std::exchange(life.setting_modes, true)) actions.push_back(LifeAction::kSetModes);
  };
  const auto fail = [&](LifeState state) {
    life.failed = true;
    life.reason = why;
    go(state, LifeAction::kRetryLater);
  };
  const auto start = [&] {
    life.failed = false;
    life.reason.clear();
    go(kServing, LifeAction::kStart);
  };
  const auto idle = [&] {
    if (failed) {
      fail(kIdle);
      actions.push_back(LifeAction::kDiscard);
    }
    if (!wanted && !life.setting_modes) life.state = kEnded;
    if (!wanted || life.setting_modes || (life.failed && !again)) return;
    if (event == LifeEvent::kModesSet && inputs.waits.empty()) return start();
    life.failed = false;
    life.reason = inputs.waits;
    if (inputs.waits.empty()) set_modes();
  };
  // Not planned any more, or the program ends.
  const auto leave = [&] {
    life.failed = false;
    if (inputs.forced && !inputs.users.empty()) {
      life.reason = "it is ended by force (tranche mps --end)";
      return go(kForcing, LifeAction::kEndClients);
    }
    if (inputs.closing || inputs.users.empty()) return go(kEnding, LifeAction::kStop);
    life.reason = "not configured any more: it ends when its last " + inputs.users;
  };
  const auto serve = [&] {
    if (failed && !inputs.has_daemon) return idle();
    if (!wanted) return leave();
    if (failed) return fail(kServing);
    if (!life.failed) life.reason.clear();
    if (inputs.held && inputs.users.empty() && !life.setting_modes) {  // it yields to the other holders
      life.reason = inputs.waits;
      return go(kEnding, LifeAction::kStop);
    }
    if (event == LifeEvent::kModesSet) start();
    if (again) set_modes();
  };
  if (life.state == kEnding && !inputs.has_daemon) {
    life.failed = false;
    go(kIdle, LifeAction::kDiscard);
  }
  if (life.state == kIdle) {
    idle();
  } else if (life.state == kServing) {
    serve();
  } else if (life.state == kForcing && event == LifeEvent::kClientsEnded) {
    go(kEnding, LifeAction::kStop);
  }
  return actions;
}

// --- a pool ----------------------------------------------------------------------------------------------------------

Pool::Pool(PoolSet& set, const std::string& id) : set_(set), id_(id), retry_(set.loop_) {
  planned_.id = id;
}

void Pool::set_planned(const plan::PlannedPool* planned) {
  is_planned_ = planned != nullptr;
  changed_ = planned != nullptr && (!daemon_ || planned_ != *planned);
  if (planned == nullptr) return;
  planned_ = *planned;
  set_places();
}

void Pool::follow_plan() {
  if (daemon_) {
    daemon_->prove_every(set_.sharing_.proof_every);
    daemon_->set_stop_patience(set_.sharing_.stop_patience);
  }
  feed(changed_ ? LifeEvent::kPlanChanged : LifeEvent::kInputs);
  if (!is_planned_ && daemon_) daemon_->look();
}

Status Pool::adopt(const LeftPool& left) {
  planned_.devices = left.devices;
  TRY_STATUS(open());
  life_.state = LifeState::kServing;
  daemon_->want({});  // adopts it; the limits are never set, because stop() comes before an answer
  return {};
}

bool Pool::waits() const {
  return life_.state == LifeState::kIdle && !life_.setting_modes && !life_.failed && set_.binary_;
}

// --- its life ------------------------------------------------------------------------------------------------------

void Pool::feed(LifeEvent event, const std::string& why) {
  const auto now = inputs();
  const std::string before = life_.reason;
  const auto actions = step(life_, event, now, why);
  if (life_.reason != before && !life_.reason.empty()) {
    if (event == LifeEvent::kStartFailed) log::error("pool.problem", {{"pool", id_}, {"why", life_.reason}});
    if (life_.reason == now.waits && set_.binary_) log::info("pool.waits", {{"pool", id_}, {"why", life_.reason}});
  }
  for (const auto action : actions) act(action);
  if (event == LifeEvent::kStartFailed) set_.on_change_();
}

LifeInputs Pool::inputs() const {
  LifeInputs inputs{.planned = is_planned_, .closing = set_.closing_, .forced = set_.ends_clients_};
  inputs.waits = set_.binary_ ? set_.waits_for(*this) : to_string(set_.binary_.error());
  inputs.held =
      std::ranges::any_of(planned_.devices, [this](const auto& uuid) { return set_.other_holders_.contains(uuid); });
  if (!daemon_) return inputs;
  if (live_clients(daemon_->supervisor()) > 0) {
    inputs.users = "client has left";
  } else if (endpoints_ && !endpoints_->is_empty()) {
    inputs.users = "container is gone";
  }
  inputs.has_daemon = !daemon_->gone();
  return inputs;
}

void Pool::act(LifeAction action) {
  switch (action) {
    case LifeAction::kSetModes:
      retry_.stop();
      return make_exclusive(is_exclusive() ? planned_.devices : std::vector<std::string>{});
    case LifeAction::kStart:
      return start();
    case LifeAction::kStop:
      return daemon_->stop();
    case LifeAction::kEndClients:
      return end_all_clients();
    case LifeAction::kDiscard:
      daemon_.reset();
      return;
    case LifeAction::kRetryLater:
      return retry_.start(set_.settings_.try_again, [this] { feed(LifeEvent::kRetry); });
  }
}

// Sets one GPU after the other.
void Pool::make_exclusive(std::vector<std::string> left) {
  if (left.empty() || set_.closing_) return modes_are({});
  const std::string uuid = left.back();
  left.pop_back();
  set_.modes_.make_exclusive(uuid, [this, left = std::move(left)](const Status& status) {
    if (status) return make_exclusive(left);
    Error error = status.error();
    // Only a missing permission leaves the operator a choice. A file that cannot be written, or a driver that does not
    // answer, must be fixed: leaving the mode unchanged would remove the protection.
    if (error.kind == Kind::kDenied) error.what += "; run as root, or set sharing.mps.computeMode: leave";
    modes_are(std::unexpected(error));
  });
}

void Pool::modes_are(const Status& set) {
  feed(set ? LifeEvent::kModesSet : LifeEvent::kStartFailed, set ? "" : to_string(set.error()));
  set_.look_soon();
}

void Pool::start() {
  if (!daemon_)
    if (const auto opened = open(); !opened) return feed(LifeEvent::kStartFailed, to_string(opened.error()));
  daemon_->want(limits_of(planned_));
}

Status Pool::open() {
  PoolSettings settings{set_.settings_.daemons};
  settings.id = id_;
  settings.devices = planned_.devices;
  settings.binary = *set_.binary_;
  settings.multiuser = set_.serves_all_users();
  if (set_.endpoints_) {
    if (!endpoints_) {
      TRY(endpoints_, Endpoints::open(*set_.endpoints_, id_, *this));
    }
    set_places();
    settings.admission = endpoints_.get();
  }
  TRY(daemon_, PoolDaemon::open(set_.loop_, std::move(settings), [this] { daemon_changed(); }));
  daemon_->set_stop_patience(set_.sharing_.stop_patience);
  return {};
}

// Endpoints stay on disk: they lead nowhere once the pool is gone, and to the same grants if it returns.
void Pool::end_all_clients() {
  const auto listed = client_pids(daemon_->supervisor().servers);
  std::set<int> pids(listed.begin(), listed.end());
  if (endpoints_) {
    for (const int pid : endpoints_->clients()) pids.insert(pid);
    endpoints_->hold();  // refuses new clients
  }
  log::warning("pool.forced", {{"pool", id_}, {"clients", pids.size()}, {"why", life_.reason}});
  if (pids.empty()) return feed(LifeEvent::kClientsEnded);
  daemon_->end_clients({pids.begin(), pids.end()}, [this](const auto& outcomes) {
    const auto ended = std::ranges::count(outcomes, TerminateOutcome::kTerminated, &Terminated::outcome);
    log::info("pool.drained", {{"pool", id_}, {"ended", ended}, {"of", outcomes.size()}});
    feed(LifeEvent::kClientsEnded);
  });
}

// --- its daemon ----------------------------------------------------------------------------------------------------

// The daemon may be discarded only after its own callback.
void Pool::daemon_changed() {
  look_at_memory();
  log_state();
  const auto note = capacity_note();
  if (!std::exchange(nearly_full_, !note.empty()) && nearly_full_)
    log::warning("pool.nearly_full", {{"pool", id_}, {"why", note}});
  set_.on_change_();
  set_.look_soon();
}

void Pool::look_at_memory() {
  if (!memory_) memory_.emplace(set_.settings_.daemons.paths.mps_root + "/" + kSharedMemoryFolder);
  const auto& servers = daemon_->supervisor().servers;
  const auto active = std::ranges::find(servers, "ACTIVE", &ServerSeen::status);
  if (!memory_->look(active == servers.end() ? 0 : active->pid) || memory_->where() != SharedMemory::kNamed) return;
  const bool given = memory_->is_to_be_given();
  (given ? log::info : log::warning)("pool.shared_memory",
                                     {{"pool", id_}, {"given", given}, {"why", memory_->problem()}});
}

void Pool::log_state() {
  const std::string state(daemon_->state_name());
  if (state == logged_state_) return;
  const std::string was = std::exchange(logged_state_, state);
  const bool bad =
      state == "backing-off" || state == "given-up" || state == "wedged" || (was == "serving" && state == "starting");
  const auto say = bad ? log::warning : log::info;
  say("pool.state", {{"pool", id_},
                     {"state", state},
                     {"was", was.empty() ? "absent" : was},
                     {"daemonPid", daemon_->daemon_pid()},
                     {"why", daemon_->reason()}});
  if (state == "serving") log_limits();
  if (state == "starting" || was != "starting") return;
  for (const auto& note : daemon_->start_notes()) log::warning("pool.note", {{"pool", id_}, {"text", note}});
}

void Pool::log_limits() const {
  for (const auto& limit : planned_.limits) {
    const auto* device = planned_device(limit.uuid);
    if (device == nullptr) continue;
    const double gib_of_memory = static_cast<double>(device->memory.in_mib()) / 1024.0;
    log::info("Set device pinned memory limit", {{"device", plan::by_index(*device).first},
                                                 {"total_memory_gb", std::round(gib_of_memory * 100.0) / 100.0},
                                                 {"replicas", device->slots},
                                                 {"limit_per_replica_mib", device->share.memory.in_mib()},
                                                 {"client_limit_mib", limit.client.memory.in_mib()},
                                                 {"client_limit_percent", limit.client.threads.value()},
                                                 {"uuid", limit.uuid}});
  }
}

std::string Pool::capacity_note() const {
  if (!daemon_) return {};
  const auto live = live_clients(daemon_->supervisor());
  const auto fullest = endpoints_ && planned_.devices.size() > 1 ? endpoints_->clients_on_fullest() : std::nullopt;
  const auto note = mps::capacity_note(fullest ? static_cast<std::uint32_t>(*fullest) : live, planned_.max_clients);
  return note.empty() || !fullest ? note : "of its fullest GPU: " + note;
}

// --- its limits ----------------------------------------------------------------------------------------------------

// The limits of a slot of a device, from the resource that it is advertised under.
const plan::PlannedDevice* Pool::planned_device(const std::string& uuid) const {
  const auto* device = plan::find_device(set_.plan_, uuid);
  return device != nullptr && device->pool == id_ ? device : nullptr;
}

void Pool::set_places() const {
  if (!endpoints_) return;
  std::size_t slots = 0;
  for (const auto& uuid : planned_.devices)
    if (const auto* device = planned_device(uuid)) slots = std::max<std::size_t>(slots, device->slots);
  endpoints_->set_places({planned_.max_clients, planned_.devices, set_.sharing_.processes_per_slot, slots});
}

// --- for its endpoints ---------------------------------------------------------------------------------------------

void Pool::end_clients(const std::vector<int>& clients, std::function<void(const std::vector<Terminated>&)> done) {
  if (daemon_) return daemon_->end_clients(clients, std::move(done));
  std::vector<Terminated> none;
  for (const int pid : clients) none.push_back({pid, TerminateOutcome::kNotAClient, "the pool has no daemon"});
  done(none);
}

void Pool::client_gone(int pid) {
  if (daemon_) daemon_->client_ended(pid);
}

void Pool::server_doubted() {
  if (daemon_) daemon_->doubt();
}

Result<DaemonLimits> Pool::limits_for(const std::optional<GrantLimits>& limits) const {
  if (!daemon_) return fail(Kind::kUnavailable, "the MPS pool has no daemon", id_);
  return limits ? mps::limits_for(*limits, daemon_->settings().devices) : daemon_->supervisor().desired;
}

void Pool::set_next_limits(const std::optional<GrantLimits>& limits, PoolDaemon::Done done) {
  const auto wanted = limits_for(limits);
  if (!wanted) return done(std::unexpected(wanted.error()));
  daemon_->set_next_limits(*wanted, std::move(done));
}

// --- the set --------------------------------------------------------------------------------------------------------

PoolSet::PoolSet(os::Loop& loop, PoolSetSettings settings, ComputeModes& modes, std::function<void()> on_change)
    : loop_(loop), settings_(std::move(settings)), modes_(modes), on_change_(std::move(on_change)) {
  if (!settings_.endpoints) return;
  endpoints_ = std::make_unique<EndpointsContext>(loop, *settings_.endpoints, [this] { look_again(); });
  settings_.daemons.killed_with = [this](const auto& processes) { return endpoints_->killed_with(processes); };
}

void PoolSet::answer(const std::string& request, const Endpoints::Reply& reply) {
  const auto parsed = parse_mps_request(request);
  if (!parsed) return reply(error_reply(parsed.error()));
  const auto pool_of = [](const auto& one) {
    if constexpr (requires { one.pool; })
      return one.pool;
    else
      return one.endpoint.pool;
  };
  const std::string pool = std::visit(pool_of, *parsed);
  const auto found = pools_.find(pool);
  if (found != pools_.end() && found->second.endpoints() != nullptr)
    return found->second.endpoints()->answer(*parsed, reply);
  reply(error_reply(
      {Kind::kNotFound, "tranche mps does not serve this pool (yet): it may run with another configuration", pool, 0}));
}

std::uint64_t PoolSet::keeper_files() const {
  return endpoints_ ? endpoints_->keeper.status().most_files : 0;
}

void PoolSet::set_binary(const Result<ControlBinary>& binary) {
  binary_ = binary;
  for (auto& [id, pool] : pools_) pool.look();
  on_change_();
}

void PoolSet::want(const plan::Plan& plan, const config::Sharing& sharing) {
  settings_.daemons.proof.every = sharing.proof_every;
  if (endpoints_) endpoints_->settings.policy = sharing.endpoint;
  sharing_ = sharing;
  plan_ = plan;
  for (const auto& planned : plan.pools) pools_.try_emplace(planned.id, *this, planned.id);
  for (auto& [id, pool] : pools_) pool.set_planned(plan::find_pool(plan, id));
  for (auto& [id, pool] : pools_) pool.follow_plan();
  sweep();
  on_change_();
}

void PoolSet::set_other_holders(std::set<std::string> devices) {
  if (devices == other_holders_) return;
  other_holders_ = std::move(devices);
  look_again();
}

void PoolSet::look_again() {
  listing_.start({}, [this] {
    for (auto& [id, pool] : pools_)
      if (!pool.is_planned() && pool.daemon() != nullptr) pool.daemon()->look();  // the list may be seconds old
    look();
    on_change_();
  });
}

void PoolSet::look() {
  for (auto& [id, pool] : pools_) pool.look();
  sweep();
}

std::string PoolSet::waits_for(const Pool& pool) const {
  for (const auto& uuid : pool.planned().devices) {
    if (const auto found = giving_back_.find(uuid); found != giving_back_.end() && !found->second)
      return fmt::format("waits: {} is being given back its compute mode; it begins after that", uuid);
    if (other_holders_.contains(uuid))
      return fmt::format("waits: containers hold {} without MPS; it begins when they are gone", uuid);
    for (const auto& [id, other] : pools_)
      if (&other != &pool && !other.is_planned() && std::ranges::count(other.planned().devices, uuid) > 0)
        return fmt::format("waits: pool {} still serves {}; it begins when that has ended", id, uuid);
  }
  return {};
}

void PoolSet::sweep() {
  const bool any_ended = std::erase_if(pools_, [](const auto& entry) { return entry.second.has_ended(); }) > 0;
  if (any_ended) look_again();  // at pools that waited for it
  give_back_unneeded();
}

void PoolSet::give_back_unneeded() {
  std::set<std::string> needed;
  for (const auto& [id, pool] : pools_)
    if (!pool.is_planned() || (pool.is_exclusive() && !pool.waits()))
      needed.insert(pool.planned().devices.begin(), pool.planned().devices.end());
  std::erase_if(giving_back_, [&](const auto& entry) { return entry.second && needed.contains(entry.first); });
  const EarlierModes changed = modes_.changed();
  for (const auto& [uuid, mode] : changed) {
    if (needed.contains(uuid) || giving_back_.contains(uuid)) continue;
    giving_back_[uuid] = false;
    modes_.give_back(uuid, [this, uuid = uuid](const Status& status) {
      if (status) {
        giving_back_.erase(uuid);
      } else {
        giving_back_[uuid] = true;
        log::warning("compute_mode.kept", {{"gpu", uuid}, {"why", status.error()}});
      }
      give_back_unneeded();
      look_again();  // at pools that waited for it
    });
  }
  const bool all_back = std::ranges::all_of(modes_.changed(), [&](const auto& entry) {
    const auto found = giving_back_.find(entry.first);
    return found != giving_back_.end() && found->second;
  });
  if (!stopped_ || !pools_.empty() || !all_back) return;
  const auto done = std::exchange(stopped_, [] {});
  done();
}

void PoolSet::end(const std::vector<LeftPool>& left, std::function<void()> done) {
  for (const auto& one : left) {
    Pool& pool = pools_.try_emplace(one.id, *this, one.id).first->second;
    if (const auto adopted = pool.adopt(one); !adopted)
      log::warning("pool.not_ended", {{"pool", one.id}, {"why", adopted.error()}});
  }
  stop(std::move(done));
}

void PoolSet::stop(std::function<void()> done, bool end_clients) {
  stopped_ = std::move(done);
  giving_back_.clear();
  closing_ = true;
  ends_clients_ = end_clients;
  look();
}

}  // namespace tranche::mps
