#include "topology.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

namespace tranche::sim {
namespace {

TEST(Topology, GivesSixteenGpusAddressesOfTheirOwn) {
  for (const auto name : topology_names()) {
    std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> seen;
    for (int gpu = 0; gpu < 16; ++gpu) {
      const TopologySlot slot = topology_slot(name, gpu);
      EXPECT_TRUE(seen.emplace(slot.domain, slot.bus, slot.device).second) << name << " " << gpu;
    }
  }
}

TEST(Topology, IsSymmetric) {
  for (const auto name : topology_names()) {
    for (int a = 0; a < 8; ++a) {
      for (int b = 0; b < 8; ++b) {
        const auto numa_a = topology_slot(name, a).numa;
        const auto numa_b = topology_slot(name, b).numa;
        EXPECT_EQ(topology_ancestor(name, a, b, numa_a, numa_b), topology_ancestor(name, b, a, numa_b, numa_a));
      }
    }
  }
}

TEST(Topology, PairsTheGpusOfADgxA100BehindSwitches) {
  const auto level = [](int a, int b) {
    return topology_ancestor("dgx-a100", a, b, topology_slot("dgx-a100", a).numa, topology_slot("dgx-a100", b).numa);
  };
  EXPECT_EQ(level(0, 1), 20u);
  EXPECT_EQ(level(1, 2), 50u);
  EXPECT_EQ(level(3, 3), 0u);
}

TEST(Topology, KnowsTheCpusNearAGpu) {
  const auto mask = topology_cpus("dgx-h200", 1, 4);
  EXPECT_EQ(mask[0], 0xff00000000000000u) << "56-63";
  EXPECT_EQ(mask[1], 0x0000ffffffffffffu) << "64-111";
  EXPECT_EQ(mask[2], 0xffffff0000000000u) << "168-191";
  EXPECT_EQ(mask[3], 0x00000000ffffffffu) << "192-223";
}

TEST(Topology, CubeLinksAreMutual) {
  for (int a = 0; a < 8; ++a) {
    int links[8] = {};
    for (std::uint32_t link = 0; link < 6; ++link) ++links[topology_link_peer(LinkWeb::kCube, a, link, 8)];
    for (int b = 0; b < 8; ++b) {
      int back = 0;
      for (std::uint32_t link = 0; link < 6; ++link) back += topology_link_peer(LinkWeb::kCube, b, link, 8) == a;
      EXPECT_EQ(links[b], back) << a << " " << b;
    }
  }
  EXPECT_EQ(topology_link_peer(LinkWeb::kBridgedPairs, 2, 0, 3), -1) << "the other card of the pair is not there";
}

}  // namespace
}  // namespace tranche::sim
