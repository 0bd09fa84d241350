// The limits of an endpoint's clients: stored beside it, and set on the pool's daemon before one of them connects. And
// how many of their contexts the pool's server accepts. That limit is the server's on each GPU
// (docs/guide/share-sizes.md), so a pool of several GPUs counts each GPU separately. It is not known which of its GPUs
// a context of a grant is on. Beyond its promise a grant gets a context only if that fits with all contexts of each
// grant on one GPU; within it, as if each grant spread them evenly.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "mps/endpoints/containers.h"
#include "mps/endpoints/endpoints.h"
#include "mps/limits/tenant_limits.h"
#include "os/files/files.h"
#include "os/files/kept.h"
#include "os/log/log.h"
#include "os/process/threads.h"

namespace tranche::mps {
namespace {

// Of the places, at most this part is kept for containers that may still come: with more slots than that, a share of
// the places would be used by no program for as long as there are few containers.
constexpr std::size_t kKeptForLaterPart = 4;

constexpr mode_t kOursAlone = 0700;
constexpr std::size_t kLongestFile = 16 << 10;  // of a grant's limits

constexpr std::size_t kLongestBlock = std::size_t{1} << 20;  // of an environment
constexpr std::size_t kLongestVariable = 4096;               // bytes of a value; the rest is cut off

// "" also if the process cannot be inspected (no CAP_SYS_PTRACE): other rules decide then. Of the environment of the
// process's start; for a duplicate name, the first value, as getenv(3) returns.
std::string why_not(int pid, const std::vector<std::string>& devices) {
  Result<std::string> block = std::string();
  const bool is_known = os::look_at_living_thread(pid, [&](const std::string& folder, pid_t) {
    block = os::read_file(folder + "/environ", kLongestBlock);
    return false;
  });
  if (!is_known) return "its environment cannot be read: it has exited, or its threads end while they are read";
  if (!block) return {};
  const std::string wanted = fmt::format("{}=", plan::kPinnedLimitVariable);
  for (const auto entry : split(*block, '\0'))
    if (entry.starts_with(wanted)) return lifting(entry.substr(wanted.size(), kLongestVariable), devices).value_or("");
  return {};
}

bool holds(const EndpointTerms& terms, const std::string& device) {
  return !terms.limits || std::ranges::find(*terms.limits, device, &GrantLimit::uuid) != terms.limits->end();
}

}  // namespace

Result<EndpointTerms> GrantFiles::read(const std::string& grant) const {
  const auto dir = os::Dir::open(folder_);
  const auto text = dir ? dir->read(grant, kLongestFile) : std::unexpected(dir.error());
  if (!text && text.error().kind == Kind::kNotFound) return EndpointTerms{};
  auto terms = text ? parse_terms(*text) : std::unexpected(text.error());
  if (!terms) return std::unexpected(within(terms.error(), "the grant's limits cannot be read"));
  return terms;
}

// Not synced to the disk: a power failure ends the clients too, and kubelet asks for their shares again.
Status GrantFiles::keep(const std::string& grant, const EndpointTerms& terms) const {
  const bool none = terms == EndpointTerms();
  const auto dir = none ? os::Dir::open(folder_) : os::Dir::create(folder_, kOursAlone);
  if (none && !dir && dir.error().kind == Kind::kNotFound) return {};
  const Status kept = !dir   ? Status(std::unexpected(dir.error()))
                      : none ? dir->remove_tree(grant)
                             : os::write_kept(*dir, grant, render_terms(terms), 0600);
  if (!kept) return std::unexpected(within(kept.error(), "cannot keep the grant's limits"));
  return {};
}

Status GrantFiles::sweep(const std::vector<std::string>& endpoints) const {
  Status first;
  for (const auto& name : os::names_in(folder_)) {
    if (std::ranges::find(endpoints, name) != endpoints.end()) continue;
    if (const auto removed = keep(name, {}); !removed && first) first = removed;
  }
  return first;
}

// Grants with the same limits may connect together.
std::string Endpoints::kind_of(const std::string& grant) {
  const auto* const endpoint = find(grant);
  return endpoint == nullptr ? std::string() : render_terms({.limits = endpoint->terms.limits});
}

// Written first: if this program ends here, the endpoint does not listen yet, or the next start reads its limits.
Status Endpoints::keep(const std::string& grant, const EndpointTerms& terms) {
  const auto* const known = find(grant);
  const auto before = known == nullptr ? EndpointTerms() : known->terms;
  if (known != nullptr && before == terms) return {};
  // A file that cannot be read admits no client until a request has the limits.
  if (terms.limits || known == nullptr || known->unreadable.empty()) TRY_STATUS(files_.keep(grant, terms));
  Endpoint& endpoint = endpoint_of(grant);
  endpoint.terms = terms;
  if (terms.any_pod) endpoint.first_pod.clear();
  if (terms.limits && terms.limits != before.limits) {
    for (const auto& limit : *terms.limits) {
      log::info("endpoint.limits", {{"pool", id_},
                                    {"grant", grant},
                                    {"uuid", limit.uuid},
                                    {"memory_mib", limit.memory.in_mib()},
                                    {"percent", limit.threads.value()}});
    }
    endpoint.unreadable.clear();
    endpoint.not_limited.clear();
  }
  context_.on_change();
  return {};
}

void Endpoints::recall(const std::string& grant) {
  auto terms = files_.read(grant);
  Endpoint& endpoint = endpoint_of(grant);
  if (terms) {
    endpoint.terms = *std::move(terms);
    return;
  }
  endpoint.unreadable = endpoint.not_limited = to_string(terms.error());
  log::error("endpoint.limits_unreadable",
             {{"pool", id_}, {"grant", grant}, {"why", terms.error()}, {"effect", "its clients are not let in"}});
}

ProofTurn Endpoints::take_turn(std::function<void()> go) {
  if (!relay_) return Admission::take_turn(std::move(go));
  // The relay may be destroyed before the turn ends: with the pool, or when links replace it.
  const std::weak_ptr relay = relay_;
  const auto turn = relay_->take_turn(std::move(go));
  return {this, [relay, turn](void*) {
            if (const auto still = relay.lock()) still->end_turn(turn);
          }};
}

void Endpoints::prepare(const std::string& grant, const Prepared& done) {
  if (grant.empty()) return owner_.set_next_limits(std::nullopt, done);
  const Endpoint& endpoint = endpoints_[grant];
  if (!endpoint.unreadable.empty()) return done(fail(Kind::kInvalid, endpoint.unreadable, grant));
  owner_.set_next_limits(endpoint.terms.limits,
                         [this, grant, done, alive = std::weak_ptr(alive_)](const Status& status) {
                           if (!alive.expired()) note_prepared(grant, status);
                           done(status);
                         });
}

// The devices that the container holds, in the order in which it was given them; the pool's devices if it has the
// pool's own limits.
std::string Endpoints::answer(const std::string& grant, const RelayQuestion& question) {
  const auto* const endpoint = find(grant);
  if (endpoint == nullptr || !endpoint->unreadable.empty()) return {};
  const auto& own = endpoint->terms.limits;
  auto limits = owner_.limits_for(own);
  if (!limits) return {};
  if (own) {
    limits->memory.clear();
    for (const auto& limit : *own)
      limits->memory.emplace_back(limit.uuid, limit.memory.value == 0 ? kNoMemoryLimit : limit.memory);
  }
  return answer_to(question, *limits);
}

// A container may see devices of the pool that its grant does not hold: before kubelet has reported its other devices,
// and if it is privileged. Therefore all devices count here; the guard covers values that lift the limit for fewer
// devices.
void Endpoints::look_at_environment(const std::string& grant, int pid, const ClientLooks::Done& done) {
  auto devices = places_.devices;
  // Not measured: how the driver treats a GPU's UUID in a container that sees a MIG device.
  if (std::ranges::any_of(devices, [](const std::string& uuid) { return uuid.starts_with("MIG-"); })) devices.clear();
  context_.looks.look(pid, std::move(devices),
                      [this, grant, done, alive = std::weak_ptr(alive_)](const std::string& why_not) {
                        auto* const endpoint = why_not.empty() || alive.expired() ? nullptr : find(grant);
                        if (endpoint != nullptr) ++endpoint->limits_lifted;
                        done(why_not);
                      });
}

ClientLooks::~ClientLooks() {
  if (late_ > 0 || !waiting_.empty()) worker_->leave_behind();
}

void ClientLooks::look(int pid, std::vector<std::string> devices, Done done) {
  if (pid <= 0 || late_ > 0) return done("");
  const auto id = next_++;
  auto& waiting = waiting_.try_emplace(id, loop_, std::move(done)).first->second;
  waiting.timer.start(patience_, [this, id, pid] { late(id, pid); });
  worker_->run(loop_, [this, id, pid, devices = std::move(devices), awaited = waiting.awaited] {
    return [this, id, why = *awaited ? why_not(pid, devices) : std::string()] { answered(id, why); };
  });
}

void ClientLooks::answered(std::uint64_t id, const std::string& why_not) {
  auto waiting = waiting_.extract(id);
  if (waiting.empty()) {
    --late_;
    return;
  }
  waiting.mapped().done(why_not);
}

void ClientLooks::late(std::uint64_t id, int pid) {
  auto waiting = waiting_.extract(id);
  if (waiting.empty()) return;
  ++late_;
  *waiting.mapped().awaited = false;
  if (const auto suppressed = pace_.due("", "late", loop_.now())) {
    log::warning("endpoint.look_late", {{"pid", pid},
                                        {"effect",
                                         "until that is over, clients are let in without a look at whether their "
                                         "environment lifts their memory limit; the guard holds them"},
                                        {"suppressed", *suppressed}});
  }
  waiting.mapped().done("");
}

void Endpoints::ended_badly(const std::string& grant, const Passage& passage) {
  using enum RelayEnd;
  auto* const endpoint = find(grant);
  if (endpoint != nullptr && passage.end == kRefused) endpoint->refused_why = passage.why;
  const auto suppressed = pace_.due(grant, to_string(passage.end), context_.loop.now());
  if (!suppressed) return;
  const bool refused = passage.end == kRefused || passage.end == kAbandoned;
  const char* event = is_attempt(passage.end) ? "endpoint.attempt" : refused ? "endpoint.refused" : "endpoint.failed";
  log::warning(event, {{"pool", id_},
                       {"grant", grant},
                       {"pid", passage.client.pid != 0 ? passage.client.pid : passage.connected_by},
                       {"uid", passage.user},
                       {"what", to_string(passage.end)},
                       {"why", passage.why},
                       {"suppressed", *suppressed}});
}

void Endpoints::note_prepared(const std::string& grant, const Status& status) {
  Endpoint* const endpoint = find(grant);
  if (endpoint == nullptr) return;
  std::string why;
  if (!status) why = fmt::format("its limits could not be set: {}", to_string(status.error()));
  if (endpoint->not_limited == why) return;
  if (!why.empty()) log::warning("endpoint.not_limited", {{"pool", id_}, {"grant", grant}, {"why", why}});
  endpoint->not_limited = std::move(why);
  context_.on_change();
}

// --- places on the GPUs ----------------------------------------------------------------------------------------------

// Clients of no known grant that the servers list, as of their last list: each has a place. Not those of the node, as a
// start of our own that proves the server.
std::size_t Endpoints::unknown_clients() const {
  return static_cast<std::size_t>(std::ranges::count_if(seen_, [this](const auto& each) {
    const auto& [pid, client] = each;
    return relay_->clients().grant_of(pid) == nullptr && os::process_ref(pid) == client.process && !is_of_the_node(pid);
  }));
}

std::size_t Endpoints::taken_by(const std::string& grant, const Endpoint& endpoint) const {
  const std::size_t places = relay_->clients().places(grant);
  const auto devices = static_cast<std::size_t>(std::ranges::count_if(
      places_.devices, [&endpoint](const std::string& device) { return holds(endpoint.terms, device); }));
  return devices <= 1 ? places : (places + devices - 1) / devices;
}

std::size_t Endpoints::taken_on(const std::string& device, bool evenly) const {
  std::size_t taken = unknown_clients() + gone_twice_ + relay_->clients().places("");  // of former tenants
  for (const auto& [grant, endpoint] : endpoints_)
    if (holds(endpoint.terms, device)) taken += evenly ? taken_by(grant, endpoint) : relay_->clients().places(grant);
  return taken;
}

// Places reserved for the other grants that hold this device: their promised places without those that they have.
std::size_t Endpoints::kept_on(const std::string& device, const std::string& grant) const {
  std::size_t kept = 0, open = 0;
  for (const auto& [other, endpoint] : endpoints_) {
    if (!holds(endpoint.terms, device)) continue;
    ++open;
    if (other == grant || !endpoint.admitting) continue;
    kept += places_.promised - std::min(taken_by(other, endpoint), places_.promised);
  }
  const std::size_t may_come = (places_.slots - std::min(open, places_.slots)) * places_.promised;
  return kept + std::min(may_come, places_.most / kKeptForLaterPart);
}

// If the endpoints were promised more places than the server has, each still gets its promise as long as there is any
// place.
std::string Endpoints::no_capacity(const std::string& grant) const {
  if (places_.most == 0) return {};
  const auto* const endpoint = find(grant);
  const bool within_promise = endpoint == nullptr || taken_by(grant, *endpoint) < places_.promised;
  for (const auto& device : places_.devices) {
    if (endpoint != nullptr && !holds(endpoint->terms, device)) continue;
    const std::string name = places_.devices.size() == 1 ? "the GPU" : "GPU " + device;
    const std::size_t has = taken_on(device, within_promise);
    if (has >= places_.most) return fmt::format("{} has its {} clients", name, places_.most);
    if (within_promise) continue;
    if (const std::size_t kept = kept_on(device, grant); has + kept >= places_.most)
      return fmt::format("{} has {} of its {} clients, and the other places are kept for other containers", name, has,
                         places_.most);
  }
  return {};
}

std::optional<std::size_t> Endpoints::clients_on_fullest() const {
  if (!relay_) return std::nullopt;
  std::size_t most = 0;
  for (const auto& device : places_.devices) most = std::max(most, taken_on(device, true));
  return most;
}

}  // namespace tranche::mps
