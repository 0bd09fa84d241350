// The pure stages, by Google Benchmark: plan, advertise, prefer, allocate, and the aligned choice of whole GPUs.
#include <benchmark/benchmark.h>

#include "base/text.h"
#include "config/parse/parse.h"
#include "gpu/driver/processes.h"
#include "grants/allocate/grant.h"
#include "grants/allocate/prefer.h"
#include "grants/allocate/prefer_fixture.h"
#include "guard/judge.h"
#include "plan/plan.h"
#include "property/generate.h"

namespace tranche {
namespace {

std::string text_of(int slots) {
  return "version: v1\nsharing:\n  mps:\n    failRequestsGreaterThanOne: false\n    resources:\n    - {name: "
         "nvidia.com/gpu, replicas: " +
         std::to_string(slots) + "}\n";
}

config::Config config_of(int slots) {
  auto config = config::parse(text_of(slots), "bench").config;
  config.flags.mps_root = "/run/nvidia/mps";
  return config;
}

gpu::Inventory gpus(std::uint32_t count, std::uint32_t seed) {
  property::Random random(seed);
  gpu::Inventory inventory;
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
  const auto text = text_of(48);
  for (auto _ : state) benchmark::DoNotOptimize(config::parse(text, "bench"));
}
BENCHMARK(ParseConfig);

void MakePlan(benchmark::State& state) {
  const auto inventory = gpus(static_cast<std::uint32_t>(state.range(0)), 1);
  const auto config = config_of(48);
  for (auto _ : state) benchmark::DoNotOptimize(plan::make_plan(config, inventory));
}
BENCHMARK(MakePlan)->Arg(1)->Arg(4)->Arg(16);

void Advertise(benchmark::State& state) {
  const auto plan = *plan::make_plan(config_of(48), gpus(static_cast<std::uint32_t>(state.range(0)), 1));
  for (auto _ : state) benchmark::DoNotOptimize(plan::advertise(plan, {}));
}
BENCHMARK(Advertise)->Arg(16);

void PreferSlots(benchmark::State& state) {
  const auto inventory = gpus(16, 1);
  const auto plan = *plan::make_plan(config_of(48), inventory);
  std::vector<std::string> ids;
  const auto advertised = plan::advertise(plan, {});
  for (const auto& slot : advertised[0].slots) ids.push_back(slot.id);
  for (auto _ : state)
    benchmark::DoNotOptimize(grants::prefer(plan.resources[0], inventory, ids, {},
                                            static_cast<std::uint32_t>(state.range(0)),
                                            config::AllocationPolicy::kDistributed));
}
BENCHMARK(PreferSlots)->Arg(1)->Arg(4)->Arg(48);

// 16 GPUs of 1,000 slots each: what the choice costs beyond carrying a message of 16,000 ids.
void PreferOf16000(benchmark::State& state) {
  const auto inventory = gpus(16, 1);
  const auto plan = *plan::make_plan(config_of(1000), inventory);
  const auto advertised = plan::advertise(plan, {});
  std::vector<std::string> ids;
  for (const auto& slot : advertised[0].slots) ids.push_back(slot.id);
  const std::vector<std::string_view> offered(ids.begin(), ids.end());
  for (auto _ : state)
    benchmark::DoNotOptimize(grants::prefer(plan.resources[0], inventory, std::span<const std::string_view>(offered),
                                            {}, static_cast<std::uint32_t>(state.range(0)),
                                            config::AllocationPolicy::kDistributed));
}
BENCHMARK(PreferOf16000)->Arg(1)->Arg(10)->Arg(1000)->Unit(benchmark::kMillisecond);

void AllocateOne(benchmark::State& state) {
  const auto plan = *plan::make_plan(config_of(48), gpus(16, 1));
  const std::vector<std::string> ids{plan::advertise(plan, {})[0].slots[0].id};
  for (auto _ : state) benchmark::DoNotOptimize(grants::allocate(plan.resources[0], {}, ids, {}));
}
BENCHMARK(AllocateOne);

// size of 16 GPUs with a random topology: NVIDIA's search takes 2.3 s for 2 and 31 s for 3.
void AlignOf16(benchmark::State& state) {
  const auto inventory = gpus(16, 7);
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 0; i < 16; ++i) all.push_back(i);
  for (auto _ : state)
    benchmark::DoNotOptimize(grants::align(inventory, all, {}, static_cast<std::uint32_t>(state.range(0))));
}
BENCHMARK(AlignOf16)->DenseRange(1, 16)->Unit(benchmark::kMillisecond);

}  // namespace
// 8 GPUs with 48 clients each, as a driver would list them.
constexpr std::uint32_t kGpus = 8;
constexpr std::uint32_t kClients = 48;

gpu::nvml::Return list_of_48(gpu::nvml::Device, std::uint32_t* count, void* into) {
  struct Entry {
    std::uint32_t pid = 0;
    std::uint64_t memory = 0;
    std::uint32_t gpu_instance = 0xffffffff, compute_instance = 0xffffffff;
  };
  auto* entries = static_cast<Entry*>(into);
  for (std::uint32_t i = 0; i < kClients; ++i) entries[i] = {.pid = 1000 + i, .memory = std::uint64_t{1} << 30};
  *count = kClients;
  return gpu::nvml::Return::kSuccess;
}

// One round of sampling in which nothing has changed, the driver's own part left out.
void GuardUnchangedRound(benchmark::State& state) {
  for (auto _ : state)
    for (std::uint32_t gpu = 0; gpu < kGpus; ++gpu)
      benchmark::DoNotOptimize(gpu::nvml::list_processes(&list_of_48, nullptr));
}
BENCHMARK(GuardUnchangedRound);

// One sample judged: every client in a grant of its own, within its limit.
void GuardJudge(benchmark::State& state) {
  std::vector<guard::Device> devices;
  guard::Inputs inputs;
  for (std::uint32_t gpu = 0; gpu < kGpus; ++gpu) {
    guard::Device device;
    device.uuid = "GPU-" + std::to_string(gpu);
    device.pool = "gpu-" + std::to_string(gpu);
    for (std::uint32_t i = 0; i < kClients; ++i) {
      guard::Process process;
      process.id = {static_cast<pid_t>(gpu * 100 + i), i};
      process.memory = gib(1);
      process.mps_client = true;
      process.grant = hex16(gpu * 100 + i);
      inputs.limits[{process.grant, device.uuid}] = {device.pool, "nvidia.com/gpu", gib(2), {}};
      device.processes.push_back(std::move(process));
    }
    devices.push_back(std::move(device));
  }
  guard::Memory memory;
  MonoTime now{};
  for (auto _ : state) {
    now += std::chrono::milliseconds(100);
    benchmark::DoNotOptimize(guard::judge(devices, inputs, memory, now).open);
  }
}
BENCHMARK(GuardJudge);

}  // namespace tranche

BENCHMARK_MAIN();
