// The clients of an endpoint: what is stored about them, the look at a process before it becomes one, the contexts that
// the pool's server accepts of them, and clients that have exited and that the server still has (mps/relay/relay.h).
//
// The number of contexts is limited by the server on each GPU (docs/guide/share-sizes.md), so a pool of several GPUs
// counts each GPU separately. It is not known which of its GPUs a context of a grant is on. Beyond its promise a grant
// gets a context only if that fits with all contexts of each grant on one GPU; within it, as if each grant spread them
// evenly.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "mps/endpoints/containers.h"
#include "mps/endpoints/endpoints.h"
#include "mps/limits/limits.h"
#include "os/clock/clock.h"
#include "os/files/files.h"
#include "os/log/log.h"
#include "os/process/threads.h"

namespace tranche::mps {
namespace {

// Of the places, at most this part is kept for containers that may still come: with more slots than that, a share of
// the places would be used by no program for as long as there are few containers.
constexpr std::size_t kKeptForLaterPart = 4;

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

constexpr unsigned kMostTriesOfFormer = 8;
constexpr std::size_t kLongestClientFile = 8 << 20;  // about 9 KB for a client with the most open channels

}  // namespace

Result<EndpointTerms> read_terms(const std::string& folder, const std::string& grant) {
  const auto dir = os::Dir::open(folder);
  const auto text = dir ? dir->read(grant, kLongestFile) : std::unexpected(dir.error());
  if (!text && text.error().kind == Kind::kNotFound) return EndpointTerms{};
  auto terms = text ? parse_terms(*text) : std::unexpected(text.error());
  if (!terms) return std::unexpected(within(terms.error(), "the grant's limits cannot be read"));
  return terms;
}

// Not synced to the disk: a power failure ends the clients too, and kubelet asks for their shares again.
Status keep_terms(const std::string& folder, const std::string& grant, const EndpointTerms& terms) {
  const auto dir = os::Dir::create(folder, 0700);
  const Status kept = !dir                       ? Status(std::unexpected(dir.error()))
                      : terms == EndpointTerms() ? dir->remove_tree(grant)
                                                 : os::write_kept(*dir, grant, render_terms(terms), 0600);
  if (!kept) return std::unexpected(within(kept.error(), "cannot keep the grant's limits"));
  return {};
}

// A container may see devices of the pool that its grant does not hold: before kubelet has reported its other devices,
// and if it is privileged. Therefore all devices count here; the guard covers values that lift the limit for fewer
// devices.
void Endpoints::look_at_environment(const std::string& grant, int pid, const ClientLooks::Done& done) {
  auto devices = places_.devices;
  // Not measured: how the driver treats a GPU's UUID in a container that sees a MIG device.
  if (std::ranges::any_of(devices, [](const std::string& uuid) { return uuid.starts_with("MIG-"); })) devices.clear();
  context_.looks.look(
      pid, std::move(devices), [this, grant, done, alive = std::weak_ptr(alive_)](const std::string& why_not) {
        auto* const endpoint = why_not.empty() || alive.expired() ? nullptr : find_in(endpoints_, grant);
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

// --- places on the GPUs ----------------------------------------------------------------------------------------------

// Clients that the relay does not know, as of the servers' last list: each has a place. Not those of the node, as a
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
    if (other == grant) continue;
    kept += places_.promised - std::min(taken_by(other, endpoint), places_.promised);
  }
  const std::size_t may_come = (places_.slots - std::min(open, places_.slots)) * places_.promised;
  return kept + std::min(may_come, places_.most / kKeptForLaterPart);
}

// If the endpoints were promised more places than the server has, each still gets its promise as long as there is any
// place.
std::string Endpoints::no_capacity(const std::string& grant) const {
  if (places_.most == 0) return {};
  const auto* const endpoint = find_in(endpoints_, grant);
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

// --- clients that have exited ---------------------------------------------------------------------------------------

void Endpoints::restore_clients() {
  const auto& paths = context_.settings.paths;
  const auto folder = os::Dir::open(paths.pool(id_));
  if (!folder) return;
  auto kept = os::read_kept(*folder, kClientFile, kLongestClientFile);
  if (kept.text && kept.lost.empty() && render_clients(parse_clients(*kept.text)) != *kept.text)
    kept.lost = os::put_aside(*folder, kClientFile, "it has lines that are no client's");
  if (!kept.lost.empty())
    log::error("state.lost",
               {{"what", kept.lost},
                {"effect", "each client has one place, however many CUDA contexts it has, until it ends"}});
  if (!kept.text) return;
  const auto grants = os::names_in(paths.endpoints(id_));
  relay_->restore(*kept.text, grants);
  for (const auto& grant : grants)
    for (const int pid : relay_->clients().of(grant)) context_.keeper.hold(pid, owner_name(grant));
}

// Not synced to disk: a power failure ends the clients.
void Endpoints::store_clients(const std::string& clients) {
  const auto folder = os::Dir::open(context_.settings.paths.pool(id_));
  const Status stored = !folder           ? Status(std::unexpected(folder.error()))
                        : clients.empty() ? folder->remove_tree(kClientFile)
                                          : os::write_kept(*folder, kClientFile, clients, 0600);
  if (!std::exchange(stored_, stored.has_value()) || stored) return;
  log::warning(
      "endpoint.clients_not_stored",
      {{"pool", id_},
       {"why", stored.error()},
       {"effect", "after a crash of tranche mps each client has one place, however many CUDA contexts it has"}});
}

// A list may be older than an exit, so a process without a grant counts as still there once two lists have it.
void Endpoints::servers_listed(std::uint64_t asked, const std::vector<int>& servers, const ListedProcesses& clients) {
  servers_ = {servers.begin(), servers.end()};
  std::vector<int> pids;
  for (const auto& [pid, process] : clients) pids.push_back(pid);
  if (relay_) relay_->listed(asked, pids);
  std::map<int, Seen> seen;
  std::set<int> gone;
  gone_twice_ = 0;
  for (const auto& [pid, process] : clients) {
    // Known since its admission.
    if (relay_ && (relay_->clients().grant_of(pid) != nullptr || relay_->clients().remnant(pid))) continue;
    if (!process) {
      gone.insert(pid);
      gone_twice_ += gone_.contains(pid) ? 1 : 0;
      continue;
    }
    const auto* const known = find_in(seen_, pid);
    if (known != nullptr && known->process == process) {
      seen.emplace(pid, *known);
      continue;
    }
    const auto grant = grant_by_mounts(pid, context_.settings.paths.mps_root, id_).value_or(std::string());
    if (relay_ && !grant.empty()) client_connects(grant, pid);
    seen.emplace(pid, Seen{*process, grant});
  }
  seen_ = std::move(seen);
  gone_ = std::move(gone);
  if (!relay_) return;
  log_remnants();
  end_former_remnants();
}

std::optional<std::set<Channel>> Endpoints::open_pipes() {
  std::set<Channel> open;
  bool any = false;
  for (const int server : servers_) any = add_open_pipes(server, open) || any;
  return any ? std::optional(std::move(open)) : std::nullopt;
}

// The first request was made when their endpoint was removed.
void Endpoints::end_former_remnants() {
  std::vector<int> again;
  for (const int pid : relay_->clients().remnants("")) {
    const auto remnant = relay_->clients().remnant(pid);
    if (remnant && remnant->listed && remnant->tries < kMostTriesOfFormer) again.push_back(pid);
  }
  if (!again.empty()) owner_.end_clients(again, [](const std::vector<Terminated>&) {});
}

// A new process waits until the clients of its grant's former tenant have ended, and while its grant would have its
// memory in addition to that of clients that have exited: until the keeper has released them, then until the guard has
// judged what other processes keep of them.
void Endpoints::look_at(const std::string& grant, int pid, const Looked& done) {
  const auto go = [this, grant, pid, done] { look_at_environment(grant, pid, done); };
  if (relay_->clients().grant_of(pid) != nullptr) return go();
  newcomers_.push_back({grant, context_.loop.now() + context_.settings.dead_clients, {}, go});
  let_newcomers();
}

void Endpoints::let_newcomers() {
  const auto now = context_.loop.now();
  for (auto& each : std::exchange(newcomers_, {})) {
    const bool ending = ending_.contains(each.grant), keeps = keeps_memory(each.grant);
    if (ending) each.until = now + context_.settings.dead_clients;
    if (ending || keeps)
      each.judged.reset();
    else if (!each.judged)
      each.judged = now + context_.settings.remnants;
    const bool remain = relay_ && !relay_->clients().remnants(each.grant).empty();
    if (ending || ((keeps || remain) && now < each.judged.value_or(each.until))) {
      newcomers_.push_back(std::move(each));
      continue;
    }
    if (const auto suppressed = keeps ? pace_.due(each.grant, "dead", now) : std::nullopt)
      log::warning("endpoint.not_released",
                   {{"pool", id_},
                    {"grant", each.grant},
                    {"why", "tranche-keeper has not released clients of the share that have exited"},
                    {"effect", "a new client is admitted, and the share has its memory and theirs"},
                    {"suppressed", *suppressed}});
    each.go();
  }
  if (newcomers_.empty()) return;
  const auto wakes = [](const Newcomer& each) { return each.judged.value_or(each.until); };
  const auto next = wakes(std::ranges::min(newcomers_, {}, wakes));  // go() may have added one before others
  newcomers_timer_.start(next - context_.loop.now(), [this] { let_newcomers(); });
}

void Endpoints::log_remnants() {
  std::set<int> remnants;
  for (const auto& [grant, endpoint] : endpoints_) {
    for (const int pid : relay_->clients().remnants(grant)) {
      if (const auto remnant = relay_->clients().remnant(pid); !remnant || !remnant->listed) continue;
      remnants.insert(pid);
      const auto suppressed = remnants_.contains(pid) ? std::nullopt : pace_.due(grant, "remnant", context_.loop.now());
      if (!suppressed) continue;
      log::warning("endpoint.client_remains",
                   {{"pool", id_},
                    {"grant", grant},
                    {"pid", pid},
                    {"why", "the client has exited, and a process keeps its connection"},
                    {"effect", "its memory and its places of the MPS server count for the grant until that ends"},
                    {"suppressed", *suppressed}});
    }
  }
  remnants_ = std::move(remnants);
}

void Endpoints::find_heirs(const std::vector<int>& pids, std::set<int> own,
                           const std::function<void(const Heirs&)>& done) {
  std::vector<KnownClient> remnants;
  for (const int pid : relay_ ? pids : std::vector<int>{}) {
    auto remnant = relay_->clients().remnant(pid);
    if (!remnant) continue;
    relay_->tried(pid);
    // The client exited before its container was read: only its pod is known.
    if (const auto* of = find_in(endpoints_, remnant->grant); remnant->container.empty() && of != nullptr)
      remnant->container = unknown_in_pod(of->pod());
    remnants.push_back(*std::move(remnant));
  }
  if (remnants.empty()) return done({});
  context_.heirs->run(context_.loop, [remnants, own = std::move(own), done, &ending = context_.ending_containers] {
    return [found = mps::find_heirs(remnants, own), done, &ending] {
      ending.note(found.first);
      done(found.of);
      ending.note({});
    };
  });
}

std::vector<int> Endpoints::clients_in(const std::string& container) const {
  std::vector<int> pids = relay_ ? relay_->clients().clients_in(container) : std::vector<int>{};
  for (const auto& [pid, client] : seen_)
    if (os::process_ref(pid) == client.process && container_of(pid) == container) pids.push_back(pid);
  return pids;
}

std::optional<std::vector<os::ProcessRef>> EndpointsContext::killed_with(const std::vector<os::ProcessRef>& processes) {
  std::optional<std::vector<os::ProcessRef>> killed;
  for (const auto& first : processes) {
    const auto container = ending_containers.close_with(first);
    if (container.empty()) continue;
    if (!killed) killed.emplace();
    for (const auto* const endpoints : all) {
      for (const int pid : endpoints->clients_in(container)) {
        const auto ref = os::process_ref(pid);
        const auto is_in = [&ref](const auto& each) { return std::ranges::find(each, *ref) != each.end(); };
        if (ref && !is_in(processes) && !is_in(*killed) && EndingContainers::ends(first, pid)) killed->push_back(*ref);
      }
    }
  }
  return killed;
}

// Bounds what a pod can keep where no attempt helps, and while one is made: a further client would add its memory.
std::string Endpoints::remains_of(const std::string& grant) const {
  for (const int pid : relay_->clients().remnants(grant)) {
    const auto remnant = relay_->clients().remnant(pid);
    if (!remnant || remnant->tries == 0 || (!remnant->listed && remnant->channels().empty())) continue;
    return fmt::format(
        "a client of the share (process {}) has exited, and another process keeps its connection to the MPS server, so "
        "that its memory still counts for the share; end the processes that the client started or passed descriptors "
        "to, also in other containers of the pod, or delete the pod",
        pid);
  }
  return {};
}

// --- their heirs -----------------------------------------------------------------------------------------------------

namespace {

constexpr std::size_t kMostHeirs = 16;  // of one remnant
constexpr unsigned kTriesBeforeThePod = 2;
// Of processor time: a tenant chooses how many descriptors its processes have, and how long the names of their files
// are. 65,536 usual descriptors take 0.2 s.
constexpr Duration kLongestLookAtOne = std::chrono::milliseconds(250);
constexpr Duration kLongestLook = std::chrono::seconds(1);
constexpr unsigned kLinksBetween = 32;  // looks at the clock

class Search {
 public:
  Search(const std::vector<KnownClient>& remnants, const std::set<int>& own) : remnants_(remnants), own_(own) {
    for (const auto& remnant : remnants) {
      found_.of[remnant.pid];
      if (remnant.container.empty()) continue;
      scopes_.insert(scope_of(remnant.container));
      for (const auto& channel : remnant.channels()) owner_.emplace(channel, &remnant);
    }
  }

  FoundHeirs run() {
    for (const pid_t pid : scopes_.empty() ? std::vector<pid_t>{} : os::all_processes()) look_at(pid);
    for (const auto& remnant : remnants_) {
      auto& found = found_.of[remnant.pid];
      if (remnant.tries == 0 && !found.empty() && found.size() <= kMostHeirs) continue;
      if (const auto whole = whole_containers(remnant); !whole.empty()) {
        found.clear();
        for (const auto& each : whole) found.push_back(each.process);
        found_.first.insert(found_.first.end(), whole.begin(), whole.end());
      } else if (found.size() > kMostHeirs) {
        found.resize(kMostHeirs);
      }
    }
    return std::move(found_);
  }

 private:
  // The containers in which a remnant's heirs are searched for: those of its pod, if that is known, or its own.
  static std::string scope_of(const std::string& container) {
    const auto pod = pod_in_name(container);
    return pod.empty() ? container : pod;
  }

  void look_at(int pid) {
    if (pid == ::getpid() || own_.contains(pid)) return;
    const auto ref = os::process_ref(pid);
    if (!ref) return;
    const auto container = container_of(pid, ancestors_).value_or(std::string());
    const auto scope = scope_of(container);
    if (!scopes_.contains(scope)) return;
    auto& first = first_[container];
    if (first.pid == 0 || ref->start_ticks < first.start_ticks) first = *ref;
    for (const auto* remnant : kept_by(pid))
      if (scope_of(remnant->container) == scope) found_.of[remnant->pid].push_back(*ref);
  }

  std::set<const KnownClient*> kept_by(int pid) {
    std::set<const KnownClient*> remnants;
    if (owner_.empty()) return remnants;
    const os::CpuBudget time(std::min(kLongestLookAtOne, left_));
    look_at_descriptors(pid, [&, read = 0U](std::string_view channel) mutable {
      const auto [from, to] = owner_.equal_range(channel);
      for (auto it = from; it != to; ++it) remnants.insert(it->second);
      return ++read % kLinksBetween != 0 || !time.spent();
    });
    left_ -= std::min(left_, time.used());
    return remnants;
  }

  std::vector<FirstProcess> whole_containers(const KnownClient& remnant) const {
    const bool of_pod = remnant.tries >= kTriesBeforeThePod && !pod_in_name(remnant.container).empty();
    std::vector<FirstProcess> all;
    for (const auto& [container, first] : first_) {
      const bool own = container == remnant.container && first.start_ticks <= remnant.started;
      if (own || (of_pod && scope_of(container) == scope_of(remnant.container))) all.push_back({container, first});
    }
    return all;
  }

  const std::vector<KnownClient>& remnants_;
  const std::set<int>& own_;
  FoundHeirs found_;
  std::set<std::string> scopes_;
  std::multimap<std::string, const KnownClient*, std::less<>> owner_;  // of a channel
  std::map<std::string, os::ProcessRef> first_;  // of each container: the process that started first
  Duration left_ = kLongestLook;
  // The limit is never reached: each process is inspected once.
  Ancestors ancestors_{"/proc", std::numeric_limits<std::size_t>::max(), Duration::max()};
};

}  // namespace

FoundHeirs find_heirs(const std::vector<KnownClient>& remnants, const std::set<int>& own) {
  return Search(remnants, own).run();
}

// --- containers that end -------------------------------------------------------------------------------------------

std::string EndingContainers::close_with(const os::ProcessRef& process) {
  if (!os::runs(process)) return {};
  const auto found_in = [&](const std::vector<FirstProcess>& all) {
    const auto found = std::ranges::find(all, process, &FirstProcess::process);
    return found == all.end() ? std::string() : found->container;
  };
  if (auto closed = found_in(closed_); !closed.empty()) return closed;
  auto container = found_in(noted_);
  if (container.empty() && os::is_first_of_namespace(process.pid)) container = container_of(process.pid);
  if (container.empty()) return {};
  log::info("container.ends", {{"container", container},
                               {"pid", process.pid},
                               {"why", "its first process is being ended, and the kernel ends all others with it"},
                               {"effect", "its clients are ended as well, and new ones are refused until then"}});
  closed_.push_back({container, process});
  return container;
}

bool EndingContainers::ends(const os::ProcessRef& first, int pid) {
  const auto pids = os::namespaced_pids(first.pid);
  if (pids.size() <= 2) return true;
  return pids.back() != 1 || is_below(pid, first.pid);
}

std::string EndingContainers::refuses(int pid) {
  // One that has exited has no namespaces any more: until it is reaped, another container may have got their numbers.
  std::erase_if(closed_, [](const FirstProcess& each) { return !os::runs(each.process); });
  if (closed_.empty()) return {};
  Ancestors ancestors;
  const auto container = container_of(pid, ancestors);
  if (!container) return "its container is not known, and a container is being ended; start the program again";
  if (std::ranges::find(closed_, *container, &FirstProcess::container) == closed_.end()) return {};
  return "the first process of its container is being ended; start the program again when the container has restarted";
}

}  // namespace tranche::mps
