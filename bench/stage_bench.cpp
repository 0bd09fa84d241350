// The pure stages, by Google Benchmark: plan, advertise, prefer, allocate, and the aligned choice of whole GPUs.
#include <benchmark/benchmark.h>

#include "advertise/advertise.h"
#include "allocate/align.h"
#include "allocate/grant.h"
#include "allocate/prefer.h"
#include "config/parse.h"
#include "plan/make_plan.h"
#include "property/generate.h"

namespace tranche {
namespace {

constexpr const char* kConfig =
    "version: v1\nsharing:\n  mps:\n    failRequestsGreaterThanOne: false\n    resources:\n    - {name: "
    "nvidia.com/gpu, replicas: 48}\n";

config::Config config_of_48() {
  auto config = config::parse(kConfig, "bench").config;
  config.flags.mps_root = "/run/nvidia/mps";
  return config;
}

inventory::Inventory gpus(std::uint32_t count, std::uint32_t seed) {
  property::Random random(seed);
  inventory::Inventory inventory;
  for (std::uint32_t i = 0; i < count; ++i) {
    inventory.gpus.push_back(property::any_gpu(random, i));
    inventory.gpus.back().compute_capability = {9, 0};
    inventory.gpus.back().sm_count = 132;
  }
  for (std::uint32_t a = 0; a < count; ++a)
    for (std::uint32_t b = a + 1; b < count; ++b)
      inventory.links.push_back(
          {a, b, static_cast<int>(random.number(0, 5)) * 10, random.chance(30) ? random.number(1, 18) : 0});
  return inventory;
}

void ParseConfig(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(config::parse(kConfig, "bench"));
}
BENCHMARK(ParseConfig);

void MakePlan(benchmark::State& state) {
  const auto inventory = gpus(static_cast<std::uint32_t>(state.range(0)), 1);
  const auto config = config_of_48();
  for (auto _ : state) benchmark::DoNotOptimize(plan::make_plan(config, inventory));
}
BENCHMARK(MakePlan)->Arg(1)->Arg(4)->Arg(16);

void Advertise(benchmark::State& state) {
  const auto plan = *plan::make_plan(config_of_48(), gpus(static_cast<std::uint32_t>(state.range(0)), 1));
  for (auto _ : state) benchmark::DoNotOptimize(advertise::advertise(plan, {}));
}
BENCHMARK(Advertise)->Arg(16);

void PreferSlots(benchmark::State& state) {
  const auto inventory = gpus(16, 1);
  const auto plan = *plan::make_plan(config_of_48(), inventory);
  std::vector<std::string> ids;
  for (const auto& slot : advertise::advertise(plan, {})[0].slots) ids.push_back(slot.id);
  for (auto _ : state)
    benchmark::DoNotOptimize(allocate::prefer(plan.resources[0], inventory, ids, {},
                                              static_cast<std::uint32_t>(state.range(0)),
                                              config::AllocationPolicy::kDistributed));
}
BENCHMARK(PreferSlots)->Arg(1)->Arg(4)->Arg(48);

void AllocateOne(benchmark::State& state) {
  const auto plan = *plan::make_plan(config_of_48(), gpus(16, 1));
  const std::vector<std::string> ids{advertise::advertise(plan, {})[0].slots[0].id};
  for (auto _ : state) benchmark::DoNotOptimize(allocate::allocate(plan.resources[0], {}, ids, {}));
}
BENCHMARK(AllocateOne);

// size of 16 GPUs with a random topology: NVIDIA's search takes 2.3 s for 2 and 31 s for 3.
void AlignOf16(benchmark::State& state) {
  const auto inventory = gpus(16, 7);
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 0; i < 16; ++i) all.push_back(i);
  for (auto _ : state)
    benchmark::DoNotOptimize(allocate::align(inventory, all, {}, static_cast<std::uint32_t>(state.range(0))));
}
BENCHMARK(AlignOf16)->DenseRange(1, 16)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tranche

BENCHMARK_MAIN();
