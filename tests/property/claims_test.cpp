// Claims as a scheduler that knows too little hands them out: devices that are still held (force-deleted pods), whole
// beside shared, more than a GPU has; with restarts that read the file back. What is prepared never exceeds a GPU,
// never holds one exclusively beside another claim, and ends empty.
#include <gtest/gtest.h>

#include <map>

#include "dra/prepare.h"
#include "dra/prepared_file.h"
#include "property/generate.h"

namespace tranche::property {
namespace {

constexpr std::uint32_t kSteps = 60;

struct Node {
  dra::Offered offered;
  dra::PreparedClaims prepared;
};

Node any_node(Random& random) {
  config::Config config;
  config.dra.devices = config::DraDevices::kAll;
  Node node;
  const auto inventory = any_inventory(random, 4);
  node.offered.devices = dra::devices_of(config, inventory).list;
  node.offered.driver = config.dra.driver_name;
  for (const auto& gpu : inventory.gpus) node.offered.mps_pools[gpu.uuid] = "gpu-" + std::to_string(gpu.index);
  return node;
}

dra::Claim any_claim(Random& random, const Node& node, std::uint32_t number) {
  dra::Claim claim;
  claim.name = {"default", "c" + std::to_string(number), "u" + std::to_string(number)};
  const auto results = random.number(1, 3);
  for (std::uint32_t i = 0; i < results && !node.offered.devices.empty(); ++i) {
    const auto& device = random.one_of(node.offered.devices);
    dra::Allocated allocated{"r" + std::to_string(random.number(0, 2)), "n/tranche", device.name, "", false, {}};
    allocated.admin_access = random.chance(5);
    if (device.kind != dra::Kind::kWhole) allocated.share_id = "s" + std::to_string(i);
    if (device.kind == dra::Kind::kShared) {
      allocated.consumed["memory"] = std::uint64_t{random.number(0, 200)} << 30;
      allocated.consumed["cores"] = random.number(0, 110);
    }
    claim.devices.push_back(allocated);
  }
  return claim;
}

void check(const Node& node) {
  struct Sum {
    std::uint64_t memory = 0, cores = 0;
    std::size_t wholes = 0, shares = 0;
  };
  std::map<std::string, Sum> sums;
  for (const auto& [uid, claim] : node.prepared) {
    for (const auto& part : claim.parts) {
      auto& sum = sums[part.gpu_uuid];
      if (part.kind == dra::Kind::kWhole) ++sum.wholes;
      if (part.kind != dra::Kind::kShared) continue;
      ++sum.shares;
      sum.memory += part.limits.memory.value;
      sum.cores += part.cores;
      ASSERT_GT(part.limits.memory.value, 0u) << "0 would be no limit";
      ASSERT_GT(part.limits.threads.hundredths, 0u);
    }
  }
  for (const auto& device : node.offered.devices) {
    if (device.kind != dra::Kind::kShared) continue;
    const auto& sum = sums[device.gpu_uuid];
    ASSERT_LE(sum.memory, device.memory.value);
    ASSERT_LE(sum.cores, dra::kCoresAll);
    ASSERT_LE(sum.wholes, 1u);
    ASSERT_TRUE(sum.wholes == 0 || sum.shares == 0);
  }
}

TEST(ClaimsProperty, NeverExceedAGpuAndEndEmpty) {
  for (std::uint32_t seed = 0; seed < rounds(200); ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Node node = any_node(random);
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      if (random.chance(60)) {
        const auto claim = any_claim(random, node, random.number(0, 20));
        const auto made = dra::prepare(claim, node.offered, node.prepared);
        if (made) {
          node.prepared[claim.name.uid] = *made;
          ASSERT_EQ(dra::prepare(claim, node.offered, node.prepared), made) << "asked again";
        }
      } else if (random.chance(80)) {
        node.prepared.erase("u" + std::to_string(random.number(0, 20)));
      } else {
        const auto read = dra::parse_prepared(dra::render_prepared(node.prepared));
        ASSERT_EQ(read.claims, node.prepared);
        ASSERT_TRUE(read.lost.empty());
      }
      ASSERT_NO_FATAL_FAILURE(check(node));
    }
    while (!node.prepared.empty()) node.prepared.erase(node.prepared.begin());
    for (const auto& device : node.offered.devices) {
      if (device.kind != dra::Kind::kWhole) continue;
      const dra::Claim all{
          {"default", "all", "u-all-" + device.name}, {{"r", "n", device.name, "", false, {}}}, {}, "p"};
      ASSERT_TRUE(dra::prepare(all, node.offered, node.prepared));
    }
  }
}

}  // namespace
}  // namespace tranche::property
