#include "programs/node/in_force.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tranche::agent {
namespace {

constexpr const char* kYes = "yes";
constexpr const char* kPartly = "partly";
constexpr const char* kNo = "no";

const PoolReport* report_of(const Snapshot& s, const std::string& pool) {
  const auto found = s.pools.pools.find(pool);
  return found == s.pools.pools.end() ? nullptr : &found->second;
}

// "gpu-1: why; gpu-2: why" for the pools with a `fault`.
template <typename Fault>
std::string by_pool(const Snapshot& s, const Fault& fault, std::size_t& count) {
  std::vector<std::string> parts;
  for (const auto& pool : s.plan.pools) {
    const auto* report = report_of(s, pool.id);
    const std::string why = report == nullptr ? "tranche mps does not report it" : fault(*report);
    if (!why.empty()) parts.push_back(pool.id + ": " + why);
  }
  count = parts.size();
  return join(parts, "; ");
}

const char* degree(std::size_t faulty, std::size_t all) {
  return faulty == 0 ? kYes : faulty < all ? kPartly : kNo;
}

InForce limits_of_clients(const Snapshot& s) {
  std::size_t faulty = 0;
  auto why = by_pool(
      s,
      [](const PoolReport& pool) {
        return pool.state == "serving" ? std::string() : pool.state + (pool.reason.empty() ? "" : ", " + pool.reason);
      },
      faulty);
  return {"memory and SMs of a client", degree(faulty, s.plan.pools.size()), "MPS limits, read back", std::move(why)};
}

InForce memory_of_containers(const Snapshot& s) {
  InForce row{"memory of a container", kYes, "guard", ""};
  if (!s.guard.off.empty()) return {row.promise, kNo, row.by, s.guard.off};
  row.by = fmt::format("guard, every {} ms",
                       std::chrono::duration_cast<std::chrono::milliseconds>(s.guard.interval).count());
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

InForce only_through_mps(const Snapshot& s) {
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
InForce each_its_own(const Snapshot& s) {
  std::size_t faulty = 0;
  auto why = by_pool(
      s,
      [](const PoolReport& pool) -> std::string {
        if (pool.endpoint == "relay") return {};
        return pool.endpoint == "link"
                   ? "the endpoint is a link: the limits of a grant of several slots stand in its environment only"
                   : "no endpoint yet";
      },
      faulty);
  return {"a client has its own grant's limits", degree(faulty, s.plan.pools.size()),
          "relay, server's limits per client", std::move(why)};
}

InForce commands_are_relayed(const Snapshot& s) {
  std::size_t faulty = 0;
  auto why = by_pool(
      s,
      [](const PoolReport& pool) -> std::string {
        if (pool.endpoint == "relay") return {};
        if (pool.endpoint == "link")
          return "the endpoint is a link" + (pool.endpoint_reason.empty() ? "" : " (" + pool.endpoint_reason + ")");
        return "no endpoint yet";
      },
      faulty);
  return {"no tenant commands MPS", degree(faulty, s.plan.pools.size()), "relay", std::move(why)};
}

InForce stops_are_safe(const Snapshot& s) {
  const bool hook = !s.stopping.offer.dir.empty();
  const bool watch = s.cluster.state == "watching";
  std::vector<std::string> by;
  if (hook) by.emplace_back("preStop hook (where the admission policy or the pod asks for it)");
  if (watch) by.emplace_back("pod watch");
  std::vector<std::string> why;
  if (!hook) why.push_back("no preStop program is offered: " + s.stopping.offer.problem);
  if (!watch) why.push_back("pods are not watched: " + s.cluster.reason);
  why.emplace_back("no layer intercepts a program's own exit with work in flight, an OOM kill or the loss of the node");
  return {"a stopped pod hurts no neighbour", by.empty() ? kNo : kPartly, by.empty() ? "nothing" : join(by, ", "),
          join(why, "; ")};
}

InForce proven(const Snapshot& s) {
  std::size_t faulty = 0;
  auto why = by_pool(
      s,
      [](const PoolReport& pool) -> std::string {
        if (pool.proof.state == "proven" || pool.proof.state == "running") return {};
        return "proof " + (pool.proof.state.empty() ? "not reported" : pool.proof.state) +
               (pool.proof.reason.empty() ? "" : ", " + pool.proof.reason);
      },
      faulty);
  return {"pools serve", degree(faulty, s.plan.pools.size()), "a real CUDA start", std::move(why)};
}

}  // namespace

std::vector<InForce> in_force(const Snapshot& snapshot) {
  if (snapshot.plan.pools.empty()) return {};
  return {limits_of_clients(snapshot),
          each_its_own(snapshot),
          memory_of_containers(snapshot),
          only_through_mps(snapshot),
          commands_are_relayed(snapshot),
          stops_are_safe(snapshot),
          proven(snapshot)};
}

}  // namespace tranche::agent
