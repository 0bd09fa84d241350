#include "node/decide.h"

#include <gmock/gmock.h>

#include "gpu/models/models.h"

namespace tranche::node {
namespace dra_slices_test {

Snapshot two_gpus() {
  Snapshot s;
  s.config.config.dra.devices = config::DraDevices::kAll;
  s.inventory = *gpu::inventory_of_model("2xH200");
  return s;
}

// "gpu-0-shared gpu-0": the devices with a fault.
std::string faulty(const Snapshot& s) {
  std::string names;
  for (const auto& device : dra_devices(s).list)
    if (device.fault)
      names += (names.empty() ? "" : " ") + device.name + "=" + std::string(to_string(device.fault->cause));
  return names;
}

TEST(DraDevicesOfANode, AreNoneBeforeTheDriverReportsGpus) {
  Snapshot s = two_gpus();
  EXPECT_EQ(dra_devices(s).list.size(), 6u);
  EXPECT_EQ(faulty(s), "");
  s.inventory.reset();
  EXPECT_TRUE(dra_devices(s).list.empty());
}

TEST(DraDevicesOfANode, HaveTheFaultsOfTheirGpu) {
  Snapshot s = two_gpus();
  s.faults.devices[s.inventory->gpus[1].uuid] = {gpu::Cause::kXid, "XID 79"};
  EXPECT_EQ(faulty(s), "gpu-1-shared=xid gpu-1=xid gpu-1-monitor=xid");
  s.driver_problem = "the driver does not answer";
  EXPECT_EQ(faulty(s).find("gpu-0-shared=driver gpu-0=driver gpu-0-monitor=driver gpu-1-shared=xid"), 0u);
}

TEST(DraDevicesOfANode, AreNotSharedWhileTheirPoolDoesNotServe) {
  Snapshot s = two_gpus();
  plan::PlannedPool pool;
  pool.id = "gpu-a";
  pool.devices = {s.inventory->gpus[0].uuid};
  s.plan.pools = {pool};
  s.faults.pools["gpu-a"] = "the daemon is being started";
  EXPECT_EQ(faulty(s), "gpu-0-shared=pool");
}

}  // namespace dra_slices_test
}  // namespace tranche::node
