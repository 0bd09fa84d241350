#include "agent/pools/pools.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace tranche::agent {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kAllThreads = 10000;  // hundredths of a percent

std::string text_at(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

std::int64_t number_at(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number_integer() ? it->get<std::int64_t>() : 0;
}

std::uint64_t count_at(const Json& object, const char* key) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, number_at(object, key)));
}

// A member that is an object or a list; nullptr otherwise.
const Json* object_at(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_object() ? &*it : nullptr;
}

template <class Each>
void each_object(const Json& object, const char* key, Each each) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_array()) return;
  for (const auto& one : *it) {
    if (one.is_object()) each(one);
  }
}

std::vector<std::int64_t> pids_at(const Json& object, const char* key) {
  std::vector<std::int64_t> pids;
  const auto it = object.find(key);
  if (it == object.end() || !it->is_array()) return pids;
  for (const auto& pid : *it) {
    if (pid.is_number_integer()) pids.push_back(pid.get<std::int64_t>());
  }
  return pids;
}

std::map<std::string, std::uint64_t> counts_at(const Json& object, const char* key) {
  std::map<std::string, std::uint64_t> counts;
  if (const Json* members = object_at(object, key)) {
    for (const auto& [name, value] : members->items()) {
      if (value.is_number_integer()) counts[name] = count_at(*members, name.c_str());
    }
  }
  return counts;
}

PoolProof read_proof(const Json& proof) {
  return {text_at(proof, "state"),   text_at(proof, "reason"),  number_at(proof, "ageMs"), number_at(proof, "pid"),
          count_at(proof, "passed"), count_at(proof, "failed"), counts_at(proof, "ended")};
}

// All of them as they should be, or none.
std::optional<DoorLimits> read_limits(const Json& door) {
  const auto list = door.find("limits");
  if (list == door.end() || !list->is_array() || list->empty()) return std::nullopt;
  DoorLimits limits;
  for (const auto& entry : *list) {
    const auto memory = entry.is_object() ? number_at(entry, "memoryMiB") : -1;
    const auto threads = entry.is_object() ? number_at(entry, "threadsHundredths") : -1;
    if (memory < 0 || threads < 0 || threads > kAllThreads || text_at(entry, "uuid").empty()) return std::nullopt;
    limits.push_back({text_at(entry, "uuid"), static_cast<std::uint64_t>(memory), static_cast<std::uint32_t>(threads)});
  }
  return limits;
}

// What newer versions of `tranche mps` say beside the rest.
void read_more(const Json& object, PoolReport& pool) {
  if (const Json* daemon = object_at(object, "daemon")) pool.daemon_state = text_at(*daemon, "state");
  each_object(object, "servers", [&](const Json& server) {
    if (const auto pid = number_at(server, "pid"); pid > 0) pool.servers[pid] = text_at(server, "status");
  });
  pool.door = text_at(object, "door");
  pool.door_reason = text_at(object, "doorReason");
  each_object(object, "doors", [&](const Json& door) {
    if (text_at(door, "grant").empty()) return;
    const auto admitting = door.find("admitting");
    pool.doors.push_back({text_at(door, "grant"), pids_at(door, "clients"),
                          admitting == door.end() || !admitting->is_boolean() || admitting->get<bool>(),
                          text_at(door, "reason"), read_limits(door), text_at(door, "refusedWhy"),
                          count_at(door, "limitsLifted"), count_at(door, "made")});
  });
  each_object(object, "faults", [&](const Json& fault) {
    pool.faults.push_back({number_at(fault, "atMs"), text_at(fault, "kind"), number_at(fault, "culprit"),
                           pids_at(fault, "victims"), number_at(fault, "server")});
  });
  pool.faults_total = counts_at(object, "faultsTotal");
  if (const Json* proof = object_at(object, "proof")) pool.proof = read_proof(*proof);
  if (const Json* clients = object_at(object, "clients")) {
    pool.clients_live = number_at(*clients, "live");
    pool.clients_most = number_at(*clients, "most");
  }
  pool.tier = text_at(object, "tier");
  if (const Json* memory = object_at(object, "sharedMemory")) {
    const auto mount = memory->find("mount");
    pool.shared_memory = mount != memory->end() && mount->is_boolean() && mount->get<bool>();
  }
}

PoolReport read_pool(const Json& object) {
  PoolReport pool;
  pool.id = text_at(object, "id");
  pool.state = text_at(object, "state");
  pool.reason = text_at(object, "reason");
  pool.daemon_pid = number_at(object, "daemonPid");
  pool.restarts = count_at(object, "restarts");
  each_object(object, "servers", [&](const Json& server) {
    const auto clients = pids_at(server, "clients");
    pool.clients.insert(pool.clients.end(), clients.begin(), clients.end());
  });
  read_more(object, pool);
  return pool;
}

}  // namespace

Result<PoolReports> parse_pool_reports(std::string_view json_line) {
  const Json document = Json::parse(json_line, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object())
    return fail(Kind::kInvalid, "tranche mps answered with something that is not a JSON object");
  const auto pools = document.find("pools");
  if (pools == document.end() || !pools->is_array())
    return fail(Kind::kInvalid, "tranche mps answered without a list of pools");
  PoolReports reports;
  reports.connected = true;
  if (const Json* pages = object_at(document, "pages")) reports.pages_problem = text_at(*pages, "problem");
  for (const auto& entry : *pools) {
    if (!entry.is_object()) return fail(Kind::kInvalid, "tranche mps answered with a pool that is not an object");
    PoolReport pool = read_pool(entry);
    if (pool.id.empty() || pool.state.empty())
      return fail(Kind::kInvalid, "tranche mps answered with a pool without id or state");
    std::string id = pool.id;
    reports.pools[std::move(id)] = std::move(pool);
  }
  return reports;
}

namespace {
// Words for a pool whose daemon serves.
bool says_pool(std::string_view state) {
  return state == "proving" || state == "wedged";
}
}  // namespace

std::map<std::string, std::string> pool_faults(const plan::Plan& plan, const PoolReports& reports) {
  std::map<std::string, std::string> faults;
  for (const auto& pool : plan.pools) {
    if (!reports.connected) {
      faults[pool.id] = reports.problem.empty() ? "tranche mps is not running" : reports.problem;
      continue;
    }
    const auto it = reports.pools.find(pool.id);
    if (it == reports.pools.end()) {
      faults[pool.id] = "tranche mps does not serve this pool (yet): it may run with another configuration";
    } else if (it->second.state != "serving") {
      faults[pool.id] = fmt::format("the MPS {} is {}{}{}", says_pool(it->second.state) ? "pool" : "control daemon",
                                    it->second.state, it->second.reason.empty() ? "" : ": ", it->second.reason);
    }
  }
  return faults;
}

}  // namespace tranche::agent
