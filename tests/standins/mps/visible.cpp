#include "standins/mps/visible.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

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

// The index into `gpus` that `name` means, or -1.
int position_of(const std::vector<VisibleGpu>& gpus, const std::string& name) {
  if (name.starts_with("GPU-")) {
    int found = -1;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      if (!gpus[i].facts.uuid.starts_with(name)) continue;
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
  for (auto& facts : node.gpus()) gpus.push_back({static_cast<int>(gpus.size()), std::move(facts)});
  return gpus;
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
    if (std::ranges::any_of(out, [&](const auto& one) { return one.facts.uuid == gpu.facts.uuid; })) return {};
    out.push_back(gpu);
  }
  return out;
}

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read before any thread of ours starts
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace tranche::sim
