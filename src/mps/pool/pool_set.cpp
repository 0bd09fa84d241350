#include "mps/pool/pool_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "os/log/log.h"

namespace tranche::mps {
namespace {

const std::string& pool_of(const MpsRequest& request) {
  if (const auto* terminate = std::get_if<TerminateRequest>(&request)) return terminate->pool;
  if (const auto* open = std::get_if<OpenEndpointRequest>(&request)) return open->endpoint.pool;
  if (const auto* gone = std::get_if<RemoveEndpointRequest>(&request)) return gone->endpoint.pool;
  return std::get<AdmitRequest>(request).endpoint.pool;
}

}  // namespace

PoolSet::PoolSet(os::Loop& loop, PoolSetSettings settings, ComputeModes& modes, std::function<void()> on_change)
    : loop_(loop), settings_(std::move(settings)), modes_(modes), on_change_(std::move(on_change)) {
  if (!settings_.endpoints) return;
  endpoints_ = std::make_unique<EndpointsContext>(loop, *settings_.endpoints, [this] { look_again(); });
  settings_.daemons.killed_with = [this](const auto& processes) { return endpoints_->killed_with(processes); };
}

void PoolSet::answer(const std::string& request, const Endpoints::Reply& reply) {
  const auto parsed = parse_mps_request(request);
  if (!parsed) return reply(error_reply(parsed.error()));
  const auto found = pools_.find(pool_of(*parsed));
  if (found != pools_.end() && found->second.endpoints() != nullptr)
    return found->second.endpoints()->answer(*parsed, reply);
  reply(
      error_reply({Kind::kNotFound, "tranche mps does not serve this pool (yet): it may run with another configuration",
                   pool_of(*parsed), 0}));
}

std::uint64_t PoolSet::keeper_files() const {
  return endpoints_ ? endpoints_->keeper.status().most_files : 0;
}

void PoolSet::set_binary(const Result<ControlBinary>& binary) {
  binary_ = binary;
  for (auto& [id, pool] : pools_) pool.look();
  on_change_();
}

void PoolSet::want(const plan::Plan& plan, const gpu::Inventory& inventory, const config::Sharing& sharing) {
  settings_.daemons.proof.every = sharing.proof_every;
  if (endpoints_) endpoints_->settings.policy = sharing.endpoint;
  sharing_ = sharing;
  plan_ = plan;
  inventory_ = inventory;
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
      if (!pool.is_planned()) pool.list_clients();
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
      if (&other != &pool && !other.is_planned() && other.uses(uuid))
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
