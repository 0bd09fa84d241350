#include "plan/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/terminal_text.h"
#include "base/text.h"
#include "plan/shares.h"

namespace tranche::plan {

std::string mib_text(Bytes bytes) {
  return bytes.value == 0 ? "not limited" : fmt::format("{} MiB", bytes.in_mib());
}

std::string threads_text(const ShareLimits& share) {
  if (share.threads.hundredths == 0) return "not limited";
  if (share.sms == 0) return to_string(share.threads) + " %";
  return fmt::format("{} ({} %)", share.sms, to_string(share.threads));
}

std::vector<std::string> folded(const std::vector<std::string>& indices) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < indices.size();) {
    std::size_t end = i + 1;
    auto number = parse_unsigned(indices[i]);
    for (; number && end < indices.size() && parse_unsigned(indices[end]) == *number + 1; ++end) ++*number;
    parts.push_back(end - i > 1 ? indices[i] + "-" + indices[end - 1] : indices[i]);
    i = end;
  }
  return parts;
}

namespace {

using Row = TerminalText::Row;

void write_gpus(const gpu::Inventory& inventory, TerminalText& out) {
  const bool ordinary = inventory.platform == gpu::Platform::kNvml;
  out.heading(fmt::format("{}, driver {}{}", count_text(inventory.gpus.size(), "GPU"),
                          inventory.driver_version.empty() ? "unknown" : inventory.driver_version,
                          ordinary ? "" : fmt::format(", platform {}", to_string(inventory.platform))));
  if (inventory.gpus.empty()) return out.line("none");
  std::vector<Row> rows{{"GPU", "MODEL", "MEMORY", "SMS", "MIG", "UUID"}};
  for (const auto& gpu : inventory.gpus)
    rows.push_back({std::to_string(gpu.index), gpu.name, gpu.memory.value == 0 ? "unknown" : to_string(gpu.memory),
                    gpu.sm_count == 0 ? "unknown" : std::to_string(gpu.sm_count),
                    gpu.mig_enabled ? fmt::format("{} devices", gpu.mig_devices.size()) : "off", gpu.uuid});
  out.table(rows);
}

// ", threads factor 2, memory open, reserve 681 MiB, split span": settings that differ from NVIDIA's rule.
std::string policy_text(const PlannedResource& resource) {
  if (resource.devices.empty()) return {};
  const SharePolicy& policy = resource.devices.front().policy;
  std::string text;
  if (policy.threads != config::ThreadsPolicy{}) text += ", threads " + to_string(policy.threads);
  if (policy.memory != config::MemoryPolicy{}) text += ", memory " + to_string(policy.memory);
  if (policy.reserve.value != 0) text += fmt::format(", reserve {} MiB", policy.reserve.in_mib());
  if (resource.split == config::SplitPolicy::kSpan) text += ", split span";
  return text;
}

// The limits of several slots, a row for each number and kind of device.
void write_requests(const PlannedResource& resource, TerminalText& out) {
  if (resource.sharing != config::SharingStrategy::kMps || resource.one_slot_per_request) return;
  std::vector<Row> rows{{"DEVICES", "A REQUEST OF", "MEMORY", "SMS"}};
  std::vector<const PlannedDevice*> kinds;
  const auto alike = [](const PlannedDevice& a, const PlannedDevice& b) {
    return a.slots == b.slots && a.memory == b.memory && a.sm_count == b.sm_count && a.policy == b.policy;
  };
  for (const PlannedDevice& device : resource.devices) {
    if (device.slots < 2) continue;
    if (std::ranges::any_of(kinds, [&](const PlannedDevice* kind) { return alike(*kind, device); })) continue;
    kinds.push_back(&device);
    std::vector<std::string> indices;
    for (const PlannedDevice& other : resource.devices)
      if (alike(device, other)) indices.push_back(other.index);
    for (const std::uint32_t held : request_sizes(device.slots)) {
      const ShareLimits limits = share_of(device, held);
      rows.push_back(
          {held == 1 ? join(indices, ",") : "", std::to_string(held), mib_text(limits.memory), threads_text(limits)});
    }
  }
  if (rows.size() == 1) return;
  out.line("");
  out.table(rows);
}

void write_resource(const PlannedResource& resource, TerminalText& out) {
  std::string title = fmt::format("{}: {}", resource.name, slots_of(resource));
  if (resource.sharing != config::SharingStrategy::kNone)
    title += fmt::format(
        ", shared by {}, {}{}{}", to_string(resource.sharing),
        resource.replicas == 0 ? std::string("slots by device") : fmt::format("{} slots a device", resource.replicas),
        resource.one_slot_per_request ? ", one a container" : "", policy_text(resource));
  out.heading(title);
  if (resource.devices.empty()) return out.line("nothing is advertised under this name");
  std::vector<Row> rows{{"DEVICE", "SLOTS", "MEMORY A SLOT", "SMS A SLOT", "POOL", "UUID"}};
  for (const auto& device : resource.devices)
    rows.push_back({device.index, std::to_string(device.slots), mib_text(device.share.memory),
                    threads_text(device.share), device.pool.empty() ? "-" : device.pool, device.uuid});
  out.table(rows);
  write_requests(resource, out);
}

void write_for_claims(const Plan& plan, TerminalText& out) {
  if (plan.for_claims.empty()) return;
  out.heading("For claims (dra.devices)");
  std::vector<Row> rows{{"DEVICE", "MEMORY", "POOL", "UUID"}};
  for (const auto& device : plan.for_claims)
    rows.push_back({device.index, mib_text(device.share.memory), device.pool.empty() ? "-" : device.pool, device.uuid});
  out.table(rows);
}

void write_pools(const Plan& plan, TerminalText& out) {
  if (plan.pools.empty()) return;
  out.heading("MPS pools");
  std::vector<Row> rows{{"POOL", "A CLIENT'S MEMORY", "A CLIENT'S SMS", "CLIENTS", "COMPUTE MODE", "DEVICE"}};
  for (const auto& pool : plan.pools)
    for (const auto& limit : pool.limits)
      rows.push_back({pool.id, mib_text(limit.client.memory), threads_text(limit.client),
                      fmt::format("at most {}", pool.max_clients), std::string(to_string(pool.compute_mode)),
                      limit.uuid});
  out.table(rows);
}

}  // namespace

std::string render_table(const Plan& plan, const gpu::Inventory& inventory,
                         const std::map<std::string, std::string>& labels, const TableOptions& options) {
  TerminalText out(options.colour, options.width);
  if (!plan.left_out.empty()) out.heading("Left out");
  for (const LeftOut& left : plan.left_out) out.sentence("x", left.what + ": " + left.why, "33");
  if (!plan.notes.empty()) out.heading("Notes");
  for (const std::string& note : plan.notes) out.sentence("-", note, "36");
  write_gpus(inventory, out);
  for (const auto& resource : plan.resources) write_resource(resource, out);
  if (plan.resources.empty()) {
    out.heading("Resources");
    out.line("none");
  }
  write_for_claims(plan, out);
  write_pools(plan, out);
  if (!labels.empty()) out.heading("Labels");
  for (const auto& [key, value] : labels) out.line(key + "=" + value);
  return out.take();
}

}  // namespace tranche::plan
