#include "standins/mps/visible.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "standins/node/mig.h"

namespace tranche::sim {
namespace {

std::vector<std::string> pieces(const std::string& list) {
  std::vector<std::string> out;
  std::size_t at = 0;
  while (at <= list.size()) {
    const auto comma = std::min(list.find(',', at), list.size());
    out.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return out;
}

// The index into `gpus` that `name` refers to, or -1.
int position_of(const std::vector<VisibleGpu>& gpus, const std::string& name) {
  if (name.starts_with("GPU-") || name.starts_with("MIG-")) {
    int found = -1;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      if (!gpus[i].properties.uuid.starts_with(name)) continue;
      if (found >= 0) return -1;  // not unique
      found = static_cast<int>(i);
    }
    return found;
  }
  if (name.empty() || name.size() > 4 || !std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; })) {
    return -1;
  }
  const int ordinal = std::atoi(name.c_str());
  return ordinal < static_cast<int>(gpus.size()) ? ordinal : -1;
}

}  // namespace

std::vector<VisibleGpu> all_gpus(const Node& node) {
  std::vector<VisibleGpu> gpus;
  int index = -1;
  for (const auto& properties : node.gpus()) {
    const GpuState state = node.gpu_state(++index);
    if (state.mig_mode == 0) {
      gpus.push_back({index, properties});
      continue;
    }
    for (const MigDevice& mig : mig_devices(state)) {
      const auto* gi = find_gi(state, mig.gpu_instance);
      const auto* ci = gi == nullptr ? nullptr : find_ci(*gi, mig.compute_instance);
      if (ci == nullptr) continue;
      VisibleGpu device{index, properties, mig.gpu_instance, mig.compute_instance};
      device.properties.uuid = ci->uuid.view();
      device.properties.sm_count = ci->sm_count;
      device.properties.memory_total = std::uint64_t{state.profile.mig.profiles[gi->profile].memory_mib} << 20;
      device.properties.memory_reserved = 0;
      gpus.push_back(std::move(device));
    }
  }
  return gpus;
}

bool attach_to(Node& node, const VisibleGpu& gpu, pid_t pid, ProcessKind kind, std::uint32_t sms) {
  if (!node.attach(pid, gpu.node_index, kind, sms)) return false;
  return !gpu.is_mig() || node.place_in_instance(pid, gpu.node_index, gpu.gpu_instance, gpu.compute_instance);
}

std::uint64_t used_on(const Node& node, const VisibleGpu& gpu) {
  if (!gpu.is_mig()) return node.memory_used(gpu.node_index);
  std::uint64_t used = 0;
  for (const auto& row : node.processes(gpu.node_index)) used += row.gpu_instance == gpu.gpu_instance ? row.bytes : 0;
  return used;
}

int compute_mode_of(const Node& node, const VisibleGpu& gpu) {
  return gpu.is_mig() ? 0 : node.compute_mode(gpu.node_index);
}

std::vector<VisibleGpu> injected(std::vector<VisibleGpu> gpus, const std::optional<std::string>& variable) {
  if (!variable || *variable == "all") return gpus;
  std::vector<bool> kept(gpus.size(), false);
  for (const auto& name : pieces(*variable)) {
    const int at = position_of(gpus, name);
    if (at >= 0) kept[static_cast<std::size_t>(at)] = true;
  }
  std::vector<VisibleGpu> out;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (kept[i]) out.push_back(std::move(gpus[i]));
  }
  return out;
}

std::vector<VisibleGpu> selected(const std::vector<VisibleGpu>& gpus, const std::optional<std::string>& variable) {
  if (!variable) return gpus;
  std::vector<VisibleGpu> out;
  for (const auto& name : pieces(*variable)) {
    const int at = position_of(gpus, name);
    if (at < 0) break;
    const auto& gpu = gpus[static_cast<std::size_t>(at)];
    if (std::ranges::any_of(out, [&](const auto& one) { return one.properties.uuid == gpu.properties.uuid; }))
      return {};
    out.push_back(gpu);
  }
  return out;
}

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read before any thread of ours starts
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace tranche::sim
