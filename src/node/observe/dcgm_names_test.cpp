#include "node/reports.h"

#include <gmock/gmock.h>

#include "grants/allocate/grant.h"

namespace tranche::node {
namespace dcgm_names_test {

using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string> kTwo{"GPU-0::0", "GPU-0::1"};
constexpr const char* kGpu =
    R"({gpu="3",UUID="GPU-0",pci_bus_id="00000000:01:00.0",device="nvidia5",modelName="NVIDIA H100")";

Snapshot held(std::uint32_t slots) {
  Snapshot snapshot;
  gpu::Gpu gpu;
  gpu.uuid = "GPU-0";
  gpu.index = 3;
  gpu.minor = 5;
  gpu.name = "NVIDIA H100";
  gpu.pci_bus_id = "00000000:01:00.0";
  gpu.memory = gib(80);
  snapshot.inventory.emplace().gpus = {gpu};
  plan::PlannedDevice device;
  device.uuid = device.gpu_uuid = "GPU-0";
  device.slots = slots;
  device.pool = "gpu-0";
  plan::PlannedResource resource;
  resource.name = "nvidia.com/gpu";
  resource.devices = {device};
  snapshot.plan.resources = {resource};
  snapshot.holdings = {{"team", "a", "main", "nvidia.com/gpu", kTwo}};
  snapshot.shares.own()[{grants::grant_id(kTwo), "GPU-0"}] = {"gpu-0", "nvidia.com/gpu", mib(5000), Percent{1250}};
  snapshot.holders = holders(snapshot, {});
  snapshot.cluster.node = "n1";
  return snapshot;
}

std::vector<gpu::GpuTelemetry> measured() {
  gpu::GpuTelemetry gpu;
  gpu.uuid = "GPU-0";
  gpu.memory_used = gib(10);
  gpu.utilization = 0.5;
  gpu.energy_joules = 2;
  gpu.sm_hertz = 1.98e9;
  gpu.activity.sm = 0.47;
  return {gpu};
}

guard::Figures using_mib(std::uint64_t used) {
  guard::Figures figures;
  figures[{grants::grant_id(kTwo), "GPU-0"}].used = mib(used);
  return figures;
}

// Promise: metrics: Under DCGM's names a container has one row, whatever number of slots it holds.
TEST(DcgmNames, HaveTheExportersUnitsAndOneRowForAContainer) {
  const auto text = dcgm_metrics(held(10), using_mib(1500), measured()).str();
  const std::string gpu = std::string(kGpu) + R"(,hostname="n1"})";
  for (const auto& line :
       {"DCGM_FI_DEV_SM_CLOCK_HERTZ" + gpu + " 1980000000\n", "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL" + gpu + " 2\n",
        "DCGM_FI_DEV_GPU_UTIL_RATIO" + gpu + " 0.5\n", "DCGM_FI_DEV_FB_CAPACITY_BYTES" + gpu + " 85899345920\n",
        "DCGM_FI_DEV_FB_FREE_BYTES" + gpu + " 75161927680\n", "DCGM_FI_PROF_SM_UTIL_RATIO" + gpu + " 0.47\n",
        "\nDCGM_FI_DEV_FB_USED_BYTES" + std::string(kGpu) +
            R"(,hostname="n1",container="main",namespace="team",pod="a"} 1572864000)" + "\n"})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_THAT(text, HasSubstr("# TYPE DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL counter\n"));
  EXPECT_THAT(text, Not(HasSubstr("POWER_WATTS"))) << "not known";
}

TEST(DcgmNames, AGpuThatOneContainerHoldsWhollyNamesIt) {
  const auto text = dcgm_metrics(held(2), {}, measured()).str();
  EXPECT_THAT(text, HasSubstr(R"(hostname="n1",container="main",namespace="team",pod="a"} 0.5)"));
  EXPECT_THAT(text, Not(HasSubstr("FB_USED"))) << "not known";
}

TEST(DcgmNames, WithoutAReadingThereIsNoRow) {
  EXPECT_EQ(dcgm_metrics(held(10), {}, {}).str(), "");
  EXPECT_EQ(dcgm_metrics({}, {}, measured()).str(), "");
}

TEST(DcgmNames, MigDevicesHaveTheLabelsOfTheirInstance) {
  auto snapshot = held(10);
  gpu::MigDevice mig;
  mig.uuid = "MIG-1";
  mig.profile = "1g.10gb";
  mig.gpu_instance = 7;
  snapshot.inventory->gpus[0].mig_devices = {mig};
  auto gpus = measured();
  gpus[0].mig.push_back({"MIG-1", gib(1), {}});
  gpus[0].mig[0].activity.sm = 0.9;
  EXPECT_THAT(dcgm_metrics(snapshot, {}, gpus).str(),
              HasSubstr(std::string(kGpu) + R"(,GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",hostname="n1"} 0.9)"));
}

}  // namespace dcgm_names_test
}  // namespace tranche::node
