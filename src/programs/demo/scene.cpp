#include "programs/demo/scene.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "gpu/inventory/models.h"

namespace tranche::agent {
namespace {

constexpr const char* kResource = "nvidia.com/gpu.shared";

// Enough for pods to use a sensible part of their share. An unknown model gets little.
std::uint32_t memory_gib(std::string_view profile) {
  const auto* model = inventory::find_model(profile);
  return model == nullptr ? 8 : model->memory_mib / 1024;
}

// One pod's container: holds `slots` slots and uses `percent` of their limits.
std::string container(std::uint32_t slots, const std::string& size, bool stays, const char* indent) {
  return fmt::format(
      "{0}containers:\n{0}- name: main\n{0}  command: [sim-cuda, --allocate, {1}{2}]\n"
      "{0}  resources: {{limits: {{{3}: {4}}}}}\n",
      indent, size, stays ? ", --hold" : "", kResource, slots);
}

std::string part_of(const DemoOptions& options, std::uint32_t slots, std::uint32_t percent) {
  const std::uint64_t mib = std::uint64_t{1024} * memory_gib(options.profile) * slots / options.slots * percent / 100;
  return fmt::format("{}MiB", std::max<std::uint64_t>(mib, 64));
}

std::string deployment(const char* name, std::uint32_t replicas, std::uint32_t slots, const std::string& size) {
  return fmt::format(
      "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {}}}\nspec:\n  replicas: {}\n  template:\n    "
      "spec:\n{}",
      name, replicas, container(slots, size, true, "      "));
}

std::string pod(const char* name, std::uint32_t slots, const std::string& size, bool stays) {
  return fmt::format("---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {}}}\nspec:\n  restartPolicy: Never\n{}", name,
                     container(slots, size, stays, "  "));
}

}  // namespace

std::string scene_node(const DemoOptions& options) {
  return fmt::format("driver: 580.159.04\ncuda: 13000\ngpus: {{profile: {}, count: {}}}\n", options.profile,
                     options.gpus);
}

std::string scene_config(const DemoOptions& options) {
  return fmt::format(
      "version: v1\nsharing:\n  mps:\n    renameByDefault: true\n    failRequestsGreaterThanOne: false\n    "
      "resources:\n"
      "    - name: nvidia.com/gpu\n      replicas: {}\n",
      options.slots);
}

std::string scene_pods(const DemoOptions& options) {
  const std::uint32_t whole = options.slots;
  const std::uint32_t half = std::max(1u, options.slots / 2);
  const std::uint32_t fifth = std::max(1u, options.slots / 5);
  std::string text;
  text += deployment("train", options.gpus > 1 ? 1 : 0, whole, part_of(options, whole, 80));
  text += deployment("finetune", options.gpus > 2 ? 2 : 0, half, part_of(options, half, 60));
  text += deployment("inference", std::min(4u, options.gpus), fifth, part_of(options, fifth, 45));
  text += deployment("notebook", std::min(6u, options.slots), 1, part_of(options, 1, 15));
  text += pod("greedy", 1, part_of(options, 2, 100), false);  // twice its share: MPS refuses it, so it fails
  text += pod("batch", whole > 2 ? whole - 2 : whole, part_of(options, half, 50), true);
  text += pod("big-train", whole, part_of(options, whole, 80), true);
  return text;
}

}  // namespace tranche::agent
