// A pool in tier v3: one server, and a namespace for each grant that has an endpoint.
#include <fmt/format.h>
#include <sys/un.h>

#include "mps/pool/namespaces.h"
#include "mps/pool/pool_set.h"
#include "os/log/log.h"

namespace tranche::agent {
namespace {

constexpr Duration kDeadline = std::chrono::seconds(5);
constexpr std::size_t kLongestSocketPath = sizeof(sockaddr_un::sun_path) - 1;
constexpr const char* kAnyGrant = "0123456789abcdef";

mps::GrantLimits own_worth(const plan::PlannedPool& pool) {
  mps::GrantLimits own;
  for (const auto& [uuid, client] : pool.limits) own.push_back({uuid, mib(client.memory.in_mib()), client.threads});
  return own;
}

}  // namespace

// A namespace has one memory limit for all devices, so grants of joined GPUs cannot have one for each.
Status PoolSet::may_have_namespaces(const Member& member) const {
  if (member.planned.devices.size() != 1)
    return fail(Kind::kUnsupported,
                "a namespace has one memory limit for all devices, and this pool serves several GPUs");
  const auto longest =
      fmt::format("{}/{}/{}/control", settings_.paths.pipe(member.planned.id), mps::v3::kServer, kAnyGrant);
  if (longest.size() > kLongestSocketPath)
    return fail(Kind::kInvalid,
                fmt::format("the path of a namespace's socket would have {} characters and may have {}; choose a "
                            "shorter MPS root",
                            longest.size(), kLongestSocketPath),
                longest);
  return {};
}

void PoolSet::open_namespaces(Member& member) {
  const std::string id = member.planned.id;
  const bool has = member.pool->settings().tier == mps::Tier::kV3;
  if (settings_.endpoints != nullptr) settings_.endpoints->use_namespaces(id, has ? mps::v3::kServer : "");
  member.namespaces.reset();
  if (!has) return;
  member.namespaces = std::make_unique<NamespaceKeeper>(NamespaceKeeper::World{
      .wanted = [this, id] { return wanted_namespaces(id); },
      .daemon = [pool = member.pool.get()]() -> const mps::Supervisor& { return pool->supervisor(); },
      .change = [this, id](const auto& all, auto done) { change_namespaces(id, all, std::move(done)); },
      .retell =
          [this, id] {
            Member* asking = running(id);
            if (asking == nullptr) return;
            const auto state = asking->pool->supervisor().state;
            if (state != mps::State::kAbsent && state != mps::State::kStopping) asking->pool->want(limits_of(*asking));
          },
      .remove = [this, id](const std::string& name, auto done) { remove_namespace(id, name, std::move(done)); }});
}

NamespaceKeeper::Namespaces PoolSet::wanted_namespaces(const std::string& id) {
  NamespaceKeeper::Namespaces wanted;
  const auto found = members_.find(id);
  if (found == members_.end() || settings_.endpoints == nullptr || found->second.planned.devices.empty()) return wanted;
  const auto& planned = found->second.planned;
  const auto& uuid = planned.devices.front();
  const auto* device = planned_device(uuid, id);
  const auto* keeper = found->second.namespaces.get();
  const auto worth = settings_.endpoints->worth(id, own_worth(planned));
  for (const auto& [grant, limits] : worth) {
    const auto* before = keeper == nullptr ? nullptr : mps::find(keeper->all(), grant);
    if (device == nullptr && before != nullptr) {  // no longer planned: keeps its earlier value
      wanted.push_back(*before);
      continue;
    }
    auto made = mps::namespace_for(grant, limits, uuid, device == nullptr ? 0 : device->sm_count);
    if (made) {
      wanted.push_back(*std::move(made));
    } else {
      log::error("namespace.none", {{"pool", id}, {"grant", grant}, {"why", made.error()}});
    }
  }
  return wanted;
}

void PoolSet::change_namespaces(const std::string& id, const NamespaceKeeper::Namespaces& all,
                                NamespaceKeeper::Done done) {
  Member* member = running(id);
  if (member == nullptr) return done(fail(Kind::kUnavailable, "the MPS daemon of this pool does not serve", id));
  auto limits = limits_of(*member);
  limits.namespaces = all;
  member->pool->change(limits, kDeadline, [done = std::move(done)](const Status& changed) { done(changed); });
}

void PoolSet::remove_namespace(const std::string& id, const std::string& name, NamespaceKeeper::Done done) {
  Member* member = running(id);
  if (member == nullptr) return done(fail(Kind::kUnavailable, "the MPS daemon of this pool does not serve", id));
  member->pool->aside(mps::delete_namespace(name), kDeadline, [done = std::move(done)](const mps::Event& event) {
    const auto* refused = std::get_if<mps::QuestionFailed>(&event);
    done(refused == nullptr ? Status() : std::unexpected(refused->error));
  });
}

void PoolSet::provide(const std::string& pool, NamespaceKeeper::Done done) {
  const auto found = members_.find(pool);
  if (found == members_.end() || !found->second.namespaces) return done({});
  found->second.namespaces->settle(std::move(done));
}

}  // namespace tranche::agent
