#include "agent/demo/scene.h"

#include <fmt/format.h>

#include <algorithm>

namespace tranche::agent {
namespace {

constexpr const char* kResource = "nvidia.com/gpu.shared";

std::string deployment(const char* name, std::uint32_t replicas, std::uint32_t slots, const char* command) {
  return fmt::format(
      "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {}}}\nspec:\n  replicas: {}\n  template:\n    "
      "spec:\n"
      "      containers:\n      - name: main\n        command: {}\n        resources: {{limits: {{{}: {}}}}}\n",
      name, replicas, command, kResource, slots);
}

std::string pod(const char* name, std::uint32_t slots, const char* command) {
  return fmt::format(
      "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {}}}\nspec:\n  restartPolicy: Never\n  containers:\n  - name: "
      "main\n"
      "    command: {}\n    resources: {{limits: {{{}: {}}}}}\n",
      name, command, kResource, slots);
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
  text += deployment("train", options.gpus > 1 ? 1 : 0, whole, "[sim-cuda, --allocate, 80%, --hold]");
  text += deployment("finetune", options.gpus > 2 ? 2 : 0, half, "[sim-cuda, --allocate, 60%, --hold]");
  text += deployment("inference", std::min(4u, options.gpus), fifth, "[sim-cuda, --allocate, 45%, --hold]");
  text += deployment("notebook", std::min(6u, options.slots), 1, "[sim-cuda, --allocate, 2GiB, --hold]");
  text += pod("greedy", 1, "[sim-cuda, --allocate, 100GiB]");
  text += pod("batch", half + 1, "[sim-cuda, --allocate, 50%, --hold]");
  text += pod("big-train", whole, "[sim-cuda, --allocate, 80%, --hold]");
  return text;
}

}  // namespace tranche::agent
