#include "guard/figures.h"

#include <algorithm>
#include <limits>

namespace tranche::guard {
namespace {

struct Held {
  Bytes memory;
  std::uint32_t clients = 0;
  bool known = true;
};

Held held_by(const std::string& tenant, const Device& device) {
  Held held;
  for (const Process& process : device.processes) {
    if (process.ours || process.grant != tenant) continue;
    held.memory = held.memory + process.memory;
    held.clients += process.mps_client ? 1 : 0;
    held.known = held.known && process.memory.value > 0;  // a process on a GPU holds at least a context
  }
  return held;
}

void follow_limit(Figure& figure, const std::map<GrantOnDevice, Limit>& limits, const GrantOnDevice& key,
                  MonoTime now) {
  const auto limit = limits.find(key);
  const bool limited = limit != limits.end() && limit->second.memory.value < std::numeric_limits<std::uint64_t>::max();
  const bool over = figure.used && limited && *figure.used > limit->second.memory + kRounding;
  if (over && !figure.over_since) figure.over_since = now;
  if (over || !figure.over_since) return;
  figure.over = time_over(figure, now);
  figure.over_since.reset();
}

void unknown(Figure& figure) {
  figure.used.reset();
  figure.clients.reset();
}

}  // namespace

void take_figures(Figures& figures, const std::vector<Device>& devices, const Tenants& tenants,
                  const std::map<GrantOnDevice, Limit>& limits, MonoTime now) {
  std::erase_if(figures, [&](const auto& entry) {
    const auto tenant = tenants.find(entry.first.first);
    return tenant == tenants.end() || !tenant->second.devices.contains(entry.first.second);
  });
  for (const auto& [name, tenant] : tenants) {
    for (const auto& [uuid, on_device] : tenant.devices) {
      Figure& figure = figures[{name, uuid}];
      const auto device = std::ranges::find(devices, uuid, &Device::uuid);
      if (device == devices.end() || !device->complete || device->pool != tenant.pool ||
          device->sampled == MonoTime{}) {
        unknown(figure);
      } else {
        const Held use = held_by(name, *device);
        figure.clients = use.clients;
        figure.used = use.known ? std::optional(use.memory) : std::nullopt;
        if (use.known) figure.peak = std::max(figure.peak.value_or(Bytes{}), use.memory);
      }
      follow_limit(figure, limits, {name, uuid}, now);
    }
  }
}

void forget_use(Figures& figures) {
  for (auto& [key, figure] : figures) unknown(figure);
}

Duration time_over(const Figure& figure, MonoTime now) {
  return figure.over + (figure.over_since ? std::max(Duration{}, now - *figure.over_since) : Duration{});
}

}  // namespace tranche::guard
