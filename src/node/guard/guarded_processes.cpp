#include "node/guard/guarding.h"

#include <fmt/format.h>
#include <linux/capability.h>

#include <algorithm>

#include "base/find_in.h"
#include "grants/allocate/grant.h"
#include "os/files/files.h"
#include "os/process/threads.h"

namespace tranche::node {
namespace {

using namespace std::chrono_literals;

constexpr Duration kRememberFor = 60s;  // one that holds no memory any more: its end may be reported a little later
constexpr Duration kLookAgain = 1s;     // at a process that was not visible
constexpr std::size_t kMostContainers = 4096;  // that are remembered

// `process`: its folder in /proc.
std::optional<containers::Container> container_of(const std::string& process) {
  const auto text = os::read_file(process + "/cgroup");
  return text ? containers::container_of_cgroup(*text) : std::nullopt;
}

bool is_host_daemon(const std::string& process, pid_t thread) {
  const auto program = os::read_link(process + "/exe");
  if (!program || !guard::has_host_daemons_name(*program)) return false;
  const auto users = os::read_link(process + "/ns/user");
  const auto ours = os::read_link("/proc/self/ns/user");
  return users && ours && *users == *ours && os::has_effective_capability(thread, CAP_SYS_ADMIN);
}

}  // namespace

GuardedProcesses::GuardedProcesses(os::Loop& loop, std::string mps_root, std::function<void(const KnownProcess&)> ended)
    : loop_(loop), mps_root_(std::move(mps_root)), ended_(std::move(ended)) {
  if (const auto own = container_of("/proc/self")) own_container_ = own->id;
}

KnownProcess GuardedProcesses::look_at(pid_t pid) {
  KnownProcess process;
  process.id.pid = pid;
  process.looked = loop_.now();
  const auto sight = os::look_at_process(pid);
  if (!sight) return process;
  process.id = sight->ref;
  process.name = sight->name;
  process.parent = sight->parent;
  if (auto handle = os::Process::adopt(loop_, sight->ref, [this, pid](os::ExitNote) {
        const auto it = known_.find(pid);
        if (it == known_.end()) return;
        it->second.exited = true;
        it->second.in_sight = false;
        ended_(it->second);
      }))
    process.handle = *std::move(handle);
  process.in_sight = os::look_at_living_thread(sight->ref.pid, [&](const std::string& folder, pid_t thread) {
    process.container = container_of(folder);
    process.host_daemon = is_host_daemon(folder, thread);
    return false;
  });
  process.first = os::is_first_of_namespace(sight->ref.pid);
  return process;
}

// Only of a process whose grant neither the relay nor its control group names.
void GuardedProcesses::find_endpoint(KnownProcess& process) const {
  process.endpoint_known = true;
  std::optional<os::DirectoryId> seen;
  os::look_at_living_thread(process.id.pid, [&](const std::string& folder, pid_t) {
    const auto directory = os::directory_seen_by(folder, grants::kEndpointInContainer);
    if (directory) seen = *directory;
    process.endpoint_known = directory || directory.error().kind != Kind::kUnavailable;
    return directory.has_value();
  });
  if (!seen) return;
  for (const auto& pool : os::names_in(mps_root_ + "/pools")) {
    const auto endpoints = os::Dir::open(grants::Paths{mps_root_}.endpoints(pool));
    const auto grant = endpoints ? os::name_of_directory(*endpoints, *seen) : std::nullopt;
    if (grant && containers::is_grant(*grant)) process.endpoint = *grant;
  }
}

bool GuardedProcesses::follow(const std::vector<pid_t>& pids) {
  for (auto it = known_.begin(); it != known_.end();) {
    KnownProcess& process = it->second;
    if (std::ranges::binary_search(pids, it->first)) {
      process.left.reset();
    } else if (!process.left) {
      process.left = loop_.now();
    }
    const bool ends = process.exited || !process.handle;
    const bool forget = process.left && (ends || loop_.now() - *process.left > kRememberFor);
    it = forget ? known_.erase(it) : std::next(it);
  }
  bool changed = false;
  for (const pid_t pid : pids) {
    const auto it = known_.find(pid);
    if (it != known_.end() && (it->second.in_sight || loop_.now() - it->second.looked < kLookAgain)) continue;
    auto process = look_at(pid);
    if (it != known_.end() && it->second.exited && !process.in_sight) continue;
    known_.insert_or_assign(pid, std::move(process));
    changed = true;
  }
  return changed;
}

void GuardedProcesses::given(const std::string& grant) {
  if (std::erase_if(grant_of_container_, [&](const auto& entry) { return entry.second == grant; }) > 0)
    given_.insert(grant);
  for (auto& [pid, process] : known_) {
    if (process.endpoint.empty() || process.endpoint != grant || process.exited) continue;
    const auto left = process.left;
    process = look_at(pid);
    process.left = left;
  }
}

void GuardedProcesses::attribute(const std::map<std::string, guard::PoolProcesses>& pools) {
  std::map<pid_t, std::string> through_relay;
  std::set<pid_t> own;
  for (const auto& [id, pool] : pools) {
    through_relay.insert(pool.grant_of.begin(), pool.grant_of.end());
    own.insert(pool.own.begin(), pool.own.end());
  }
  std::map<pid_t, std::string> containers;
  std::set<std::string> own_containers{own_container_};  // this process's, and those of the pools' daemons
  for (const pid_t pid : own) {
    const auto* const known = find_in(pool_containers_, pid);
    const auto found = known == nullptr ? container_of(fmt::format("/proc/{}", pid)) : std::nullopt;
    own_containers.insert(containers[pid] = known != nullptr ? *known : found ? found->id : "");
  }
  pool_containers_ = std::move(containers);
  own_containers.erase("");
  if (grant_of_container_.size() > kMostContainers) grant_of_container_.clear();
  for (auto& [pid, process] : known_) {
    if (process.exited) continue;
    const auto relay = through_relay.find(pid);
    process.grant = relay != through_relay.end() ? relay->second : process.endpoint;
    // The pools' earlier reports list the clients of the grant's former tenant.
    if (!process.grant.empty() && process.container && !given_.contains(process.grant))
      grant_of_container_[process.container->id] = process.grant;
  }
  for (auto& [pid, process] : known_) {
    if (process.exited) continue;
    const bool in_own = process.container && own_containers.contains(process.container->id);
    process.ours = own.contains(pid);
    if (!process.grant.empty() || process.ours) continue;
    if (process.container && !in_own)
      if (const auto* grant = find_in(grant_of_container_, process.container->id)) process.grant = *grant;
    const bool of_pool = own.contains(process.parent);  // a server's parent is its daemon
    process.ours = process.grant.empty() && (in_own || of_pool);
    if (process.grant.empty() && !process.ours && process.in_sight && !process.endpoint_known) {
      find_endpoint(process);
      process.grant = process.endpoint;
      if (!process.grant.empty() && process.container) grant_of_container_[process.container->id] = process.grant;
    }
  }
}

const KnownProcess* GuardedProcesses::find(pid_t pid) const {
  return find_in(known_, pid);
}

Status GuardedProcesses::signal(const os::ProcessRef& id, int number) {
  const auto it = known_.find(id.pid);
  if (it != known_.end() && it->second.id == id && it->second.handle) return it->second.handle->signal(number);
  if (id.start_ticks == 0) return fail(Kind::kNotFound, "the process is not visible", fmt::format("pid {}", id.pid));
  // A process that the agent knows only from before its restart.
  TRY(const auto process, os::Process::adopt(loop_, id, [](os::ExitNote) {}));
  return process->signal(number);
}

}  // namespace tranche::node
