#include "node/reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "guard/tenant_shares.h"
#include "node/decide.h"

namespace tranche::node {
namespace {

// "" if kubelet has the resource.
std::string not_with_kubelet(const NodeView& node, const std::string& resource) {
  const auto& [in, decision] = node;
  const auto plugin = std::ranges::find(in.plugins, resource, &kubelet::PluginState::resource);
  if (plugin == in.plugins.end()) return resource + " is not served yet";
  if (!plugin->serving) return resource + " is not served: " + plugin->problem;
  if (plugin->registered || in.config.config.run.kubelet_socket.empty()) return {};
  return resource + " is not registered with kubelet" + (plugin->problem.empty() ? "" : ": " + plugin->problem);
}

constexpr const char* kYes = "yes";
constexpr const char* kPartly = "partly";
constexpr const char* kNo = "no";

// A promise of each pool; `fault` is why one breaks it: "gpu-1: why; gpu-2: why".
template <typename Fault>
view::Promise of_pools(const Snapshot& s, const char* promise, const char* by, const Fault& fault) {
  std::vector<std::string> parts;
  for (const auto& pool : s.plan.pools) {
    const auto report = s.pools.pools.find(pool.id);
    const std::string why = report == s.pools.pools.end() ? "tranche mps does not report it" : fault(report->second);
    if (!why.empty()) parts.push_back(pool.id + ": " + why);
  }
  const char* state = parts.empty() ? kYes : parts.size() < s.plan.pools.size() ? kPartly : kNo;
  return {promise, state, by, join(parts, "; ")};
}

view::Promise limits_of_clients(const Snapshot& s) {
  return of_pools(s, "memory and SMs of a client", "MPS limits, read back", [](const mps::PoolReport& pool) {
    return pool.state == "serving" ? std::string() : pool.state + (pool.reason.empty() ? "" : ", " + pool.reason);
  });
}

view::Promise memory_of_containers(const Snapshot& s) {
  view::Promise row{"memory of a container", kYes, "guard", ""};
  if (!s.guard.off.empty()) return {row.what, kNo, row.by, s.guard.off};
  row.by = fmt::format("guard, every {} ms", milliseconds_of(s.guard.interval));
  std::vector<std::string> observed;
  for (const auto& [resource, policy] : s.guard.policies)
    if (policy == config::GuardMemory::kObserve) observed.push_back(resource);
  if (!observed.empty()) {
    row.state = observed.size() == s.guard.policies.size() ? kNo : kPartly;
    row.why = "only reported, not ended, for " + join(observed, ", ") + " (guard.memory: observe)";
  } else if (!s.guard.not_in_force.empty()) {
    row.state = kPartly;
    row.why = join(s.guard.not_in_force, "; ");
  }
  return row;
}

view::Promise only_through_mps(const Snapshot& s) {
  const auto leaves = [](const auto& pool) { return pool.compute_mode == config::ComputeModePolicy::kLeave; };
  const auto left = static_cast<std::size_t>(std::ranges::count_if(s.plan.pools, leaves));
  if (left == 0) return {"nothing runs beside MPS", kYes, "compute mode EXCLUSIVE_PROCESS", ""};
  const bool ends =
      s.guard.off.empty() && s.guard.foreign_processes_policy == config::GuardForeignProcesses::kTerminate;
  return {"nothing runs beside MPS", left < s.plan.pools.size() || ends ? kPartly : kNo,
          ends ? "guard, which ends containers' processes that avoid MPS" : "guard, which only names them",
          "the compute mode is left alone, so a process that avoids MPS starts, without limits"};
}

// The daemon has only one set of limits at a time, so only a relay can give each client those of its grant.
view::Promise each_its_own(const Snapshot& s) {
  return of_pools(s, "a client has its own grant's limits", "relay, server's limits per client",
                  [](const mps::PoolReport& pool) -> std::string {
                    if (pool.endpoint == "relay") return {};
                    return pool.endpoint == "link" ? "the endpoint is a link: the limits of a grant of several slots "
                                                     "stand in its environment only"
                                                   : "no endpoint yet";
                  });
}

view::Promise commands_are_relayed(const Snapshot& s) {
  return of_pools(s, "no tenant commands MPS", "relay", [](const mps::PoolReport& pool) -> std::string {
    if (pool.endpoint == "relay") return {};
    if (pool.endpoint != "link") return "no endpoint yet";
    return "the endpoint is a link" + (pool.endpoint_reason.empty() ? "" : " (" + pool.endpoint_reason + ")");
  });
}

// Where it was measured (docs/internals/evidence/deaths.md).
constexpr std::string_view kMeasuredDriver = "580.";
constexpr std::array<std::string_view, 2> kMeasuredGpus{"H100", "H200"};
constexpr std::uint64_t kFilesOfClient = 28;  // a PyTorch program on one GPU, with its pidfd
constexpr int kFirstDriver = 535;             // an older one tears down at a death whatever another process holds

bool is_too_old(const std::string& driver) {
  const auto branch = parse_unsigned(std::string_view(driver).substr(0, driver.find('.')));
  return branch && *branch < kFirstDriver;
}

std::string not_measured(const gpu::Inventory& on) {
  const auto& driver = on.driver_version;
  if (!driver.starts_with(kMeasuredDriver)) return "measured with drivers 580, and not with " + driver;
  for (const auto& gpu : on.gpus)
    if (std::ranges::none_of(kMeasuredGpus, [&](auto known) { return gpu.name.find(known) != std::string::npos; }))
      return "measured on H100 and H200, and not on " + gpu.name;
  return {};
}

// A kernel of NCCL waits for the other ranks, also for dead ones.
std::ptrdiff_t tenants_of_several_gpus(const grants::Shares& shares) {
  return std::ranges::count_if(guard::tenants_of(shares), [](const auto& each) {
    return !each.second.pool.empty() && each.second.devices.size() > 1;
  });
}

// What lets a death hurt others although no client is refused; "" = nothing.
std::string not_yet_or_not_all(const Snapshot& s, std::size_t starting) {
  std::vector<std::string> parts;
  if (starting > 0) parts.push_back(fmt::format("clients that are not completely held yet: {}", starting));
  std::uint64_t most = 0;
  for (const auto& pool : s.plan.pools) most += pool.max_clients;
  if (const auto clients = s.pools.keeper_files / kFilesOfClient; clients > 0 && clients < most)
    parts.push_back(fmt::format(
        "the keeper may open {} descriptors, which is enough for about {} of {} clients: raise LimitNOFILE of the "
        "container runtime",
        s.pools.keeper_files, clients, most));
  if (const auto several = tenants_of_several_gpus(s.shares); several > 0)
    parts.push_back(fmt::format(
        "containers with shares of several GPUs: {}; if a rank dies, work of NCCL over these GPUs does not end",
        several));
  if (s.inventory) parts.push_back(not_measured(*s.inventory));
  std::erase(parts, "");
  return join(parts, "; ");
}

view::Promise deaths_are_safe(const Snapshot& s) {
  std::size_t starting = 0;
  auto row =
      of_pools(s, "a client's death hurts no neighbour", "keeper, for work that ends within 5 s of the death",
               [&starting](const mps::PoolReport& pool) -> std::string {
                 if (pool.endpoint == "link") return "the endpoint is a link, so clients are not known when they start";
                 std::size_t unprotected = 0;
                 std::string first;
                 for (const auto& endpoint : pool.endpoints)
                   for (const auto& client : endpoint.protection) {
                     starting += client.state == "starting" ? 1 : 0;
                     if (client.state == "no" && unprotected++ == 0) first = client.why;
                   }
                 return unprotected == 0 ? "" : fmt::format("clients that are not held: {} ({})", unprotected, first);
               });
  if (s.inventory && is_too_old(s.inventory->driver_version)) {
    row.state = kNo;
    row.why = "the driver " + s.inventory->driver_version + " is older than 535: it tears down whatever is held";
  } else if (const auto rest = not_yet_or_not_all(s, starting); !rest.empty()) {
    if (row.state == kYes) row.state = kPartly;
    row.why += (row.why.empty() ? "" : "; ") + rest;
  }
  return row;
}

view::Promise proven(const Snapshot& s) {
  return of_pools(s, "pools serve", "a real CUDA start", [](const mps::PoolReport& pool) -> std::string {
    if (pool.proof.state == "proven" || pool.proof.state == "running") return {};
    return "proof " + (pool.proof.state.empty() ? "not reported" : pool.proof.state) +
           (pool.proof.reason.empty() ? "" : ", " + pool.proof.reason);
  });
}

}  // namespace

kube::NodeCondition readiness(const NodeView& node) {
  const auto& [in, decision] = node;
  if (!in.inventory) {
    if (in.config.config.flags.fail_on_init_error)
      return {false, "NoDriver", "waiting for the driver: " + in.driver_problem};
    return {true, "", "idle without a driver, which failOnInitError: false allows: " + in.driver_problem};
  }
  if (!in.driver_problem.empty())
    return {false, "NoDriver", "the driver does not answer any more: " + in.driver_problem};
  const auto error = std::ranges::find(decision.plan_problems, Severity::kError, &Problem::severity);
  if (error != decision.plan_problems.end()) return {false, "ConfigRefused", to_string(*error)};
  for (const auto& list : decision.advertised) {
    if (std::string reason = not_with_kubelet(node, list.resource); !reason.empty())
      return {false, "NotRegistered", std::move(reason)};
  }
  const bool given_up = in.claims && in.claims->standing == ClaimsStanding::kGivenUp;  // its pods are a newer agent's
  if (in.claims && !given_up && !in.claims->server.registered)
    return {false, "NotRegistered",
            fmt::format("the driver {} is not registered with kubelet{}{}", in.claims->driver,
                        in.claims->server.problem.empty() ? "" : ": ", in.claims->server.problem)};
  const bool any_healthy = std::ranges::any_of(decision.advertised, [](const plan::Advertised& list) {
    return list.slots.empty() || std::ranges::any_of(list.slots, &plan::AdvertisedSlot::healthy);
  });
  if (!decision.advertised.empty() && !any_healthy && !decision.plan.pools.empty() && !in.pools.connected)
    return {false, "PoolDown", "no slot is healthy: tranche mps does not answer: " + in.pools.problem};
  if (in.claims && decision.advertised.empty())
    return {true, "", "claims of the driver " + in.claims->driver + " are served"};
  if (decision.advertised.empty()) return {true, "", "there is no device to advertise"};
  return {true, "",
          fmt::format("{} {} served", decision.advertised.size(),
                      decision.advertised.size() == 1 ? "resource is" : "resources are")};
}

kube::NodeCondition node_condition(const NodeView& node) {
  const auto& [in, decision] = node;
  auto ready = readiness(node);
  if (!ready.ready) return ready;
  if (in.config.last_good) return {true, "ConfigRefused", config_event(in.config).message};
  if (!decision.faults.pools.empty()) {
    const auto& [id, why] = *decision.faults.pools.begin();
    return {decision.faults.pools.size() < decision.plan.pools.size(), "PoolDown", "MPS pool " + id + ": " + why};
  }
  if (const auto step = std::ranges::find_if(decision.change, &grants::Step::waits); step != decision.change.end())
    return {true, "Waiting", "a change of the configuration waits: " + grants::to_string(*step)};
  ready.reason = in.inventory ? "Serving" : "NoDriver";
  return ready;
}

std::vector<view::Promise> in_force(const Snapshot& snapshot) {
  if (snapshot.plan.pools.empty()) return {};
  return {limits_of_clients(snapshot),
          each_its_own(snapshot),
          memory_of_containers(snapshot),
          only_through_mps(snapshot),
          commands_are_relayed(snapshot),
          deaths_are_safe(snapshot),
          proven(snapshot)};
}

}  // namespace tranche::node
