#pragma once
// What a person sees of a node: GPUs as bars of slots, the pods in them with memory used against their limit, what
// waits and why. Made from the node agent's status document (docs/reference/status.md), optionally with what a kubelet
// double knows, for a terminal. Pure: used by `tranche status`, `top`, `why`, `web` and `demo`; status documents come
// from another process, so reading them is strict about types and forgiving about absences. Fuzzed.
#include <algorithm>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tranche::view {

// A container and what it holds of one device. Figures that are absent are not known.
struct Tenant {
  std::string name;       // as full_name, without a container "main"
  std::string full_name;  // "default/train-0/main"
  std::string device;     // UUID
  std::string resource;
  std::uint32_t slots = 0;
  std::uint64_t limit_mib = 0;  // 0 = no limit
  std::optional<std::uint64_t> used_mib;
  std::optional<std::uint32_t> processes;
  std::string threads;    // percent; "" = not limited
  std::uint32_t sms = 0;  // 0 = not limited
};

struct Device {
  std::string index;
  std::string uuid;
  std::string name;
  std::string resource;
  std::string sharing;
  std::uint64_t memory_mib = 0;
  std::optional<std::uint64_t> used_mib;
  std::optional<std::uint64_t> busy_percent;  // of the driver's last period
  std::uint32_t sm_count = 0;
  std::optional<std::uint64_t> sm_percent;  // of them were active, as a mean over time
  bool healthy = true;
  std::string reason;      // with " (for 5m)"
  std::string pool;        // "" without MPS
  std::string pool_state;  // the same
  std::uint64_t slot_mib = 0;
  std::vector<int> slots;  // index into tenants, -1 = free
  std::vector<Tenant> tenants;

  std::size_t held() const { return slots.size() - static_cast<std::size_t>(std::ranges::count(slots, -1)); }
};

// What the node promises its tenants, and whether that holds now.
struct Promise {
  std::string what;   // "memory of a container"
  std::string state;  // "yes", "partly", "no"
  std::string by;     // what keeps it
  std::string why;    // not, or what is missing; "" for "yes"
};

struct Devices {
  std::vector<Device> planned;    // with their tenants
  std::vector<Tenant> elsewhere;  // on devices that are not planned any more, or for claims only
};
Devices read_devices(const nlohmann::json& status);
// One of a grant's devices; `device` is that of the status document, or null.
Tenant read_tenant(const nlohmann::json& grant, const nlohmann::json& part, const nlohmann::json& device);
// As `top` and `web` print them; a figure that is not known is null.
nlohmann::ordered_json to_json(const Device& device);
nlohmann::ordered_json to_json(const Tenant& tenant);

struct Look {
  bool colour = false;
  bool notes = true;
  bool folded = false;  // for a low terminal: what waits and ended first, a GPU with its pods in a line each
};
// `kubelet_json` is "" or the kubelet double's state file, for the pods that wait and those that have ended.
Result<std::string> render(std::string_view status_json, std::string_view kubelet_json, const Look& look);

}  // namespace tranche::view
