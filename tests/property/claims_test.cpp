// Claims as a scheduler that knows too little hands them out: devices that are still held (force-deleted pods), whole
// beside shared, more than a GPU has; beside pods with slots of the device plugin; with restarts that read the file
// back, or the CDI specifications where the file is lost. What is prepared never exceeds a GPU, never holds one
// exclusively beside another claim or beside slots, and ends empty.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "cdi/spec.h"
#include "dra/claim_spec.h"
#include "dra/prepare.h"
#include "dra/prepared_fixture.h"
#include "plan/plan.h"
#include "property/generate.h"

namespace tranche::property {
namespace {

constexpr std::uint32_t kSteps = 60;

struct Node {
  dra::Offered offered;
  dra::PreparedClaims prepared;
  std::map<std::string, std::string> specs;  // the CDI directory
};

Node any_node(Random& random) {
  config::Config config;
  config.dra.devices = config::DraDevices::kAll;
  Node node;
  auto inventory = any_inventory(random, 4);
  const auto partitionable = any_partitions(random, config, inventory);
  node.offered.devices = dra::devices_of(config, inventory, {}, partitionable).list;
  node.offered.driver = config.dra.driver_name;
  const bool joined = random.chance(50);
  for (const auto& gpu : inventory.gpus)
    node.offered.mps_pools[gpu.uuid] = joined ? "set-1" : "gpu-" + std::to_string(gpu.index);
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
    if (device.kind != dra::Kind::kWhole && device.kind != dra::Kind::kMig)
      allocated.share_id = "s" + std::to_string(i);
    if (device.kind == dra::Kind::kShared) {
      allocated.consumed["memory"] = std::uint64_t{random.number(0, 200)} << 30;
      allocated.consumed["cores"] = random.number(0, 110);
    }
    // The scheduler gives no device, and no share of one, twice to a request.
    const bool known = std::ranges::any_of(claim.devices, [&](const dra::Allocated& other) {
      return other.device == allocated.device && other.share_id == allocated.share_id;
    });
    if (!known) claim.devices.push_back(allocated);
  }
  return claim;
}

// What was prepared for claims on a GPU in MIG mode is made, lost by a reboot, or still as it was recorded.
void change_instances(Random& random, Node& node) {
  for (auto& [uid, claim] : node.prepared)
    for (auto& part : claim.parts) {
      if (!part.instance || random.chance(50)) continue;
      part.begun = random.chance(80);
      part.gpu_uuid = part.begun && random.chance(80) ? "MIG-" + uid + part.request : part.parent_uuid;
    }
}

void check_places(const Node& node) {
  std::map<std::string, std::vector<mig::Placement>> places;
  for (const auto& [uid, claim] : node.prepared)
    for (const auto& part : claim.parts) {
      if (!part.instance) continue;
      for (const auto& other : places[part.parent_uuid])
        ASSERT_FALSE(mig::overlap(other, part.instance->place)) << dra::to_string(claim.name);
      places[part.parent_uuid].push_back(part.instance->place);
    }
}

void check(const Node& node) {
  ASSERT_NO_FATAL_FAILURE(check_places(node));
  struct Sum {
    std::uint64_t memory = 0, cores = 0;
    std::size_t wholes = 0, shares = 0;
  };
  std::map<std::string, Sum> sums;
  for (const auto& [uid, claim] : node.prepared) {
    std::map<std::string, std::string> endpoints;  // of requests
    for (const auto& part : claim.parts) {
      if (part.kind == dra::Kind::kMonitor) continue;
      ASSERT_EQ(part.grant, endpoints.try_emplace(part.request, part.grant).first->second)
          << "a container has one endpoint";
    }
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
    ASSERT_TRUE(sum.wholes + sum.shares == 0 || !node.offered.slots_held.contains(device.gpu_uuid));
  }
}

bool holds_part(const Node& node, const std::string& gpu) {
  for (const auto& [uid, claim] : node.prepared)
    for (const auto& part : claim.parts)
      if (part.gpu_uuid == gpu && part.kind != dra::Kind::kMonitor) return true;
  return false;
}

void write_specs(Node& node) {
  node.specs.clear();
  for (auto [uid, claim] : node.prepared) {
    claim.driver = node.offered.driver;
    std::vector<grants::Grant> grants(claim.parts.size());
    for (auto& grant : grants) grant.envs["NVIDIA_VISIBLE_DEVICES"] = "GPU-x";
    node.specs[dra::claim_spec_file(claim.driver, uid)] = cdi::render(dra::claim_spec(claim, grants));
  }
}

// The record is lost, and the specifications are not.
void read_specs(Node& node) {
  const auto before = std::move(node.prepared);
  node.prepared.clear();
  for (const auto& [file, text] : node.specs) {
    auto read = dra::read_claim_spec(file, text);
    ASSERT_TRUE(read && read->claim) << text;
    read->claim->driver = before.at(read->claim->name.uid).driver;
    node.prepared[read->claim->name.uid] = *read->claim;
  }
  ASSERT_EQ(node.prepared, before);
}

// A pod takes slots of a GPU, as long as the device plugin says that they are healthy; or ends.
void toggle_slots(Random& random, Node& node) {
  if (node.offered.devices.empty()) return;
  const auto& gpu = random.one_of(node.offered.devices).gpu_uuid;
  if (node.offered.slots_held.erase(gpu) == 0 && !holds_part(node, gpu)) node.offered.slots_held[gpu] = "pod x/y";
}

TEST(ClaimsProperty, NeverExceedAGpuAndEndEmpty) {
  for (std::uint32_t seed = 0; seed < rounds(200); ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Node node = any_node(random);
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      if (random.chance(10)) {
        toggle_slots(random, node);
      } else if (random.chance(60)) {
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
        write_specs(node);
        ASSERT_NO_FATAL_FAILURE(read_specs(node));
      }
      change_instances(random, node);
      ASSERT_NO_FATAL_FAILURE(check(node));
    }
    node.offered.slots_held.clear();
    while (!node.prepared.empty()) node.prepared.erase(node.prepared.begin());
    for (const auto& device : node.offered.devices) {
      if (device.kind != dra::Kind::kWhole && device.kind != dra::Kind::kMig) continue;
      const dra::Claim all{
          {"default", "all", "u-all-" + device.name}, {{"r", "n", device.name, "", false, {}}}, {}, "p"};
      ASSERT_TRUE(dra::prepare(all, node.offered, node.prepared));
    }
  }
}

}  // namespace
}  // namespace tranche::property
