// What `tranche node` serves, of a node with 16 GPUs and 48 tenants on each.
#include <benchmark/benchmark.h>

#include <fmt/format.h>

#include "grants/allocate/grant.h"
#include "guard/figures.h"
#include "node/observe/tenant_metrics.h"
#include "node/reports.h"
#include "observe/metrics/page.h"

namespace tranche {
namespace {

constexpr int kGpus = 16, kTenants = 48;

struct Node {
  node::Snapshot snapshot;
  std::vector<guard::Device> devices;
  guard::Figures figures;
};

Node full_node() {
  Node node;
  std::vector<grants::Held> holdings;
  plan::PlannedResource resource;
  resource.name = "nvidia.com/gpu";
  resource.sharing = config::SharingStrategy::kMps;
  for (int gpu = 0; gpu < kGpus; ++gpu) {
    plan::PlannedDevice device;
    device.uuid = device.gpu_uuid = fmt::format("GPU-5ac67c6f-0000-0000-0000-{:012}", gpu);
    device.slots = kTenants;
    device.memory = gib(140);
    device.sm_count = 132;
    device.pool = fmt::format("gpu-{}", gpu);
    guard::Device sampled{.uuid = device.uuid, .pool = device.pool, .processes = {}, .clients_read = {}, .sampled = {}};
    sampled.sampled = MonoTime{std::chrono::seconds(1)};
    for (int tenant = 0; tenant < kTenants; ++tenant) {
      const std::vector<std::string> slots{fmt::format("{}::{}", device.uuid, tenant)};
      const auto grant = grants::grant_id(slots);
      holdings.push_back({"team-of-somebody", fmt::format("inference-server-7f9c6d5b8-{:05}", gpu * 100 + tenant),
                          "server", resource.name, slots});
      node.snapshot.shares.own()[{grant, device.uuid}] = {device.pool, resource.name, mib(2900), Percent{208}};
      guard::Process process;
      process.id = {1000 * gpu + tenant, 1};
      process.memory = mib(1000);
      process.mps_client = true;
      process.grant = grant;
      sampled.processes.push_back(process);
    }
    resource.devices.push_back(std::move(device));
    node.devices.push_back(std::move(sampled));
  }
  node.snapshot.holdings = std::move(holdings);
  node.snapshot.plan.resources.push_back(std::move(resource));
  node.snapshot.holders = node::holders(node.snapshot, {});
  const auto tenants = guard::tenants_of(node.snapshot.shares);
  guard::take_figures(node.figures, node.devices, tenants, {}, {});
  return node;
}

void TakeFigures(benchmark::State& state) {
  Node node = full_node();
  const auto tenants = guard::tenants_of(node.snapshot.shares);
  const auto limits = guard::limits_of(tenants, {}, {}, {});
  for (auto _ : state) guard::take_figures(node.figures, node.devices, tenants, limits, {});
}
BENCHMARK(TakeFigures)->Unit(benchmark::kMicrosecond);

void TenantMetrics(benchmark::State& state) {
  const Node node = full_node();
  std::size_t bytes = 0;
  for (auto _ : state) {
    const auto text = node::tenant_metrics(node.snapshot, node.figures, {});
    benchmark::DoNotOptimize(bytes = text.size());
  }
  state.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(TenantMetrics)->Unit(benchmark::kMillisecond);

void HtmlPage(benchmark::State& state) {
  const Node node = full_node();
  std::size_t bytes = 0;
  for (auto _ : state) {
    const auto text = node::html_page(node.snapshot, node.figures, {}, {});
    benchmark::DoNotOptimize(bytes = text.size());
  }
  state.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(HtmlPage)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tranche
