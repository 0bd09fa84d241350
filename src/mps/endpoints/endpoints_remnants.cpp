// Contexts of clients, and clients that have exited and that the server still has (mps/relay/client_table.h).
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "mps/endpoints/containers.h"
#include "mps/endpoints/endpoints.h"
#include "mps/relay/client_file.h"
#include "mps/relay/open_pipes.h"
#include "os/files/kept.h"
#include "os/log/log.h"

namespace tranche::agent {
namespace {

constexpr unsigned kMostTriesOfFormer = 8;
constexpr std::size_t kLongestClientFile = 8 << 20;  // about 9 KB for a client with the most open channels

// The process with this pid runs, and did when a list named its pid: a later one of the same pid is not that client.
bool is_client(int pid, std::uint64_t listed) {
  const auto now = host::look_at_process(pid);
  return now && now->state != 'Z' && now->state != 'X' && now->ref.start_ticks <= listed;
}

}  // namespace

void Endpoints::restore_clients(const std::string& id, Pool& pool) {
  const auto folder = host::Dir::open(settings_.paths.pool(id));
  if (!folder) return;
  auto kept = host::read_kept(*folder, mps::kClientFile, kLongestClientFile);
  if (kept.text && kept.lost.empty() && mps::render_clients(mps::parse_clients(*kept.text)) != *kept.text)
    kept.lost = host::put_aside(*folder, mps::kClientFile, "it has lines that are no client's");
  if (!kept.lost.empty())
    log::error("state.lost",
               {{"what", kept.lost},
                {"effect", "each client has one place, however many CUDA contexts it has, until it ends"}});
  if (!kept.text) return;
  const auto made = host::Dir::open(settings_.paths.endpoints(id));
  const auto grants = made ? made->list() : std::unexpected(made.error());
  pool.relay->restore(*kept.text, grants.value_or(std::vector<std::string>{}));
  for (const auto& grant : grants.value_or(std::vector<std::string>{}))
    for (const int pid : pool.relay->endpoint(grant).clients) keeper_.hold(pid, id + '/' + grant);
}

// Not synced to disk: a power failure ends the clients.
void Endpoints::store_clients(const std::string& id, const std::string& clients) {
  const auto folder = host::Dir::open(settings_.paths.pool(id));
  const Status stored = !folder           ? Status(std::unexpected(folder.error()))
                        : clients.empty() ? folder->remove_tree(mps::kClientFile)
                                          : host::write_kept(*folder, mps::kClientFile, clients, 0600);
  if (stored || !std::exchange(stored_, false)) {
    stored_ = stored_ || stored.has_value();
    return;
  }
  log::warning(
      "endpoint.clients_not_stored",
      {{"pool", id},
       {"why", stored.error()},
       {"effect", "after a crash of tranche mps each client has one place, however many CUDA contexts it has"}});
}

void Endpoints::note_container(const std::string& id, int pid) {
  const auto pool = pools_.find(id);
  const auto process = host::process_ref(pid);
  if (pool != pools_.end() && pool->second.relay && process)
    pool->second.relay->in_container(pid, container_of(pid), process->start_ticks);
}

void Endpoints::context_began(const std::string& id, int pid, std::uint32_t context) {
  const auto found = pools_.find(id);
  if (found == pools_.end() || !found->second.relay) return;
  found->second.relay->context_began(pid, context);
  keeper_.look(pid);
}

void Endpoints::context_ended(const std::string& id, int pid, std::uint32_t context) {
  const auto found = pools_.find(id);
  if (found != pools_.end() && found->second.relay) found->second.relay->context_ended(pid, context);
}

// A list may be older than an exit, so a process without a grant counts as still there once two lists have it.
void Endpoints::servers_listed(const std::string& id, std::uint64_t asked, const std::vector<int>& servers,
                               const std::vector<int>& pids) {
  const auto found = pools_.find(id);
  if (found == pools_.end() || !found->second.relay) return;
  Pool& pool = found->second;
  pool.servers = {servers.begin(), servers.end()};
  pool.relay->listed(asked, pids);
  std::map<int, std::uint64_t> gone;
  pool.gone_twice = 0;
  for (const int pid : pids) {
    const auto before = pool.gone.find(pid);
    if (pool.relay->grant_of(pid) != nullptr || pool.relay->remnant(pid)) continue;  // known since its admission
    if (is_client(pid, before == pool.gone.end() ? asked : before->second)) continue;
    gone.emplace(pid, before == pool.gone.end() ? asked : before->second);
    if (before != pool.gone.end()) ++pool.gone_twice;
  }
  pool.gone = std::move(gone);
  log_remnants(id, pool);
  end_former_remnants(id, pool);
}

std::optional<std::set<host::Channel>> Endpoints::open_pipes(const std::string& id) const {
  const auto found = pools_.find(id);
  if (found == pools_.end()) return std::nullopt;
  std::set<host::Channel> open;
  bool any = false;
  for (const int server : found->second.servers) any = host::add_open_pipes(server, open) || any;
  return any ? std::optional(std::move(open)) : std::nullopt;
}

// The first request was made when their endpoint was removed.
void Endpoints::end_former_remnants(const std::string& id, const Pool& pool) {
  std::vector<int> again;
  for (const int pid : pool.relay->former_remnants()) {
    const auto remnant = pool.relay->remnant(pid);
    if (remnant && remnant->listed && remnant->tries < kMostTriesOfFormer) again.push_back(pid);
  }
  if (!again.empty()) callbacks_.terminate(id, again, [](const Terminated&) {});
}

bool Endpoints::keeps_memory(const EndpointName& endpoint) const {
  return keeper_.keeps_memory(endpoint.pool + '/' + endpoint.grant);
}

// A new process waits while its grant would have its memory in addition to that of clients that have exited.
void Endpoints::look_at(const std::string& id, const std::string& grant, int pid, const ClientLooks::Done& done) {
  if (pools_.at(id).relay->grant_of(pid) != nullptr || !keeps_memory({id, grant}))
    return look_at_environment(id, grant, pid, done);
  newcomers_.push_back({{id, grant}, loop_.now() + settings_.dead_clients, [this, id, grant, pid, done] {
                          if (pools_.contains(id)) look_at_environment(id, grant, pid, done);
                        }});
  let_newcomers();
}

void Endpoints::let_newcomers() {
  for (auto& each : std::exchange(newcomers_, {})) {
    const auto& [pool, grant] = each.endpoint;
    if (keeps_memory(each.endpoint) && loop_.now() < each.until) {
      newcomers_.push_back(std::move(each));
      continue;
    }
    if (const auto suppressed =
            keeps_memory(each.endpoint) ? remnants_pace_.due(grant, "dead", loop_.now()) : std::nullopt)
      log::warning("endpoint.not_released",
                   {{"pool", pool},
                    {"grant", grant},
                    {"why", "tranche-keeper has not released clients of the share that have exited"},
                    {"effect", "a new client is admitted, and the share has its memory and theirs"},
                    {"suppressed", *suppressed}});
    each.go();
  }
  if (newcomers_.empty()) return;
  const auto next = std::ranges::min(newcomers_, {}, &Newcomer::until).until;  // go() may have added one before others
  newcomers_timer_.start(next - loop_.now(), [this] { let_newcomers(); });
}

void Endpoints::log_remnants(const std::string& id, Pool& pool) {
  std::set<int> remnants;
  for (const auto& [grant, endpoint] : pool.endpoints) {
    for (const int pid : pool.relay->endpoint(grant).remnants) {
      if (const auto remnant = pool.relay->remnant(pid); !remnant || !remnant->listed) continue;
      remnants.insert(pid);
      const auto suppressed = pool.remnants.contains(pid) ? std::nullopt : remnants_pace_.due(grant, "", loop_.now());
      if (!suppressed) continue;
      log::warning("endpoint.client_remains",
                   {{"pool", id},
                    {"grant", grant},
                    {"pid", pid},
                    {"why", "the client has exited, and a process keeps its connection"},
                    {"effect", "its memory and its places of the MPS server count for the grant until that ends"},
                    {"suppressed", *suppressed}});
    }
  }
  pool.remnants = std::move(remnants);
}

void Endpoints::find_heirs(const std::string& id, const std::vector<int>& pids, std::set<int> own,
                           const std::function<void(const Heirs&)>& done) {
  HeirsAsked asked{.remnants = {}, .own = std::move(own)};
  const auto found = pools_.find(id);
  if (found != pools_.end() && found->second.relay) {
    for (const int pid : pids) {
      auto remnant = found->second.relay->remnant(pid);
      if (!remnant) continue;
      found->second.relay->tried(pid);
      Remnant& one = asked.remnants.emplace_back();
      one.pid = pid;
      one.container = std::move(remnant->container);
      // The client exited before its container was read: only its pod is known.
      if (const auto of = found->second.endpoints.find(remnant->grant);
          one.container.empty() && of != found->second.endpoints.end())
        one.container = unknown_in_pod(of->second.pod);
      one.started = remnant->started;
      one.tries = remnant->tries;
      one.channels = std::move(remnant->channels);
    }
  }
  if (asked.remnants.empty()) return done({});
  heirs_.find(std::move(asked), [this, done](const FoundHeirs& heirs) {
    ending_containers_.note(heirs.first);
    done(heirs.of);
    ending_containers_.note({});
  });
}

std::vector<int> Endpoints::clients_in(const std::string& container) const {
  std::vector<int> pids;
  for (const auto& [id, pool] : pools_) {
    for (const auto& [pid, client] : pool.seen)
      if (host::process_ref(pid) == client.process && container_of(pid) == container) pids.push_back(pid);
    if (!pool.relay) continue;
    const auto known = pool.relay->clients_in(container);
    pids.insert(pids.end(), known.begin(), known.end());
  }
  return pids;
}

std::optional<std::vector<host::ProcessRef>> Endpoints::killed_with(const std::vector<host::ProcessRef>& processes) {
  std::optional<std::vector<host::ProcessRef>> killed;
  for (const auto& first : processes) {
    const auto container = ending_containers_.close_with(first);
    if (container.empty()) continue;
    if (!killed) killed.emplace();
    for (const int pid : clients_in(container)) {
      const auto ref = host::process_ref(pid);
      const auto is_in = [&ref](const auto& all) { return std::ranges::find(all, *ref) != all.end(); };
      if (ref && !is_in(processes) && !is_in(*killed) && EndingContainers::ends(first, pid)) killed->push_back(*ref);
    }
  }
  return killed;
}

// Bounds what a pod can keep where no attempt helps, and while one is made: a further client would add its memory.
std::string Endpoints::remains_of(const Pool& pool, const std::string& grant) {
  for (const int pid : pool.relay->endpoint(grant).remnants) {
    const auto remnant = pool.relay->remnant(pid);
    if (!remnant || remnant->tries == 0 || (!remnant->listed && remnant->channels.empty())) continue;
    return fmt::format(
        "a client of the share (process {}) has exited, and another process keeps its connection to the MPS server, so "
        "that its memory still counts for the share; end the processes that the client started or passed descriptors "
        "to, also in other containers of the pod, or delete the pod",
        pid);
  }
  return {};
}

}  // namespace tranche::agent
