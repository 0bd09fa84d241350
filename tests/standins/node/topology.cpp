#include "topology.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.h"

namespace tranche::sim {
namespace {

struct NumaCpus {
  std::int32_t numa;
  std::string_view cpus;  // "0-55,112-167"
};

struct Topology {
  std::string_view name;
  LinkWeb links;
  std::array<TopologySlot, 8> slots;
  std::uint32_t gpus_per_switch;  // consecutive GPUs behind one PCIe switch; 1: none shared
  std::uint32_t inside_switch;    // ancestor number of those
  std::uint32_t inside_numa;      // … of others in the same NUMA node
  std::string_view all_cpus;
  std::array<NumaCpus, 4> near;
};

constexpr std::array<TopologySlot, 8> kDgxHopper{{{0, 0x1B, 0, 0},
                                                  {0, 0x43, 0, 0},
                                                  {0, 0x52, 0, 0},
                                                  {0, 0x61, 0, 0},
                                                  {0, 0x9D, 0, 1},
                                                  {0, 0xC3, 0, 1},
                                                  {0, 0xD1, 0, 1},
                                                  {0, 0xDF, 0, 1}}};
constexpr std::array<NumaCpus, 4> kXeonPair{{{0, "0-55,112-167"}, {1, "56-111,168-223"}, {-2, ""}, {-2, ""}}};
constexpr std::array<TopologySlot, 8> kVmSlots{{{0, 0, 6, -1},
                                                {0, 0, 7, -1},
                                                {0, 0, 8, -1},
                                                {0, 0, 9, -1},
                                                {0, 0, 10, -1},
                                                {0, 0, 11, -1},
                                                {0, 0, 12, -1},
                                                {0, 0, 13, -1}}};
constexpr std::array<NumaCpus, 4> kNoNuma{{{-2, ""}, {-2, ""}, {-2, ""}, {-2, ""}}};

constexpr std::array<Topology, 9> kTopologies{{
    {"vm", LinkWeb::kSwitchHidden, kVmSlots, 1, 30, 30, "0-63", kNoNuma},
    {"vm-pcie", LinkWeb::kNone, kVmSlots, 1, 30, 30, "0-63", kNoNuma},
    {"dgx-h200", LinkWeb::kSwitchVisible, kDgxHopper, 1, 40, 40, "0-223", kXeonPair},
    {"dgx-h100", LinkWeb::kSwitchVisible, kDgxHopper, 1, 40, 40, "0-223", kXeonPair},
    {"dgx-b200", LinkWeb::kSwitchHidden, kDgxHopper, 1, 40, 40, "0-223", kXeonPair},
    {"dgx-a100",
     LinkWeb::kSwitchVisible,
     {{{0, 0x07, 0, 3},
       {0, 0x0F, 0, 3},
       {0, 0x47, 0, 1},
       {0, 0x4E, 0, 1},
       {0, 0x87, 0, 7},
       {0, 0x90, 0, 7},
       {0, 0xB7, 0, 5},
       {0, 0xBD, 0, 5}}},
     2,
     20,
     40,
     "0-255",
     {{{3, "48-63,176-191"}, {1, "16-31,144-159"}, {7, "112-127,240-255"}, {5, "80-95,208-223"}}}},
    {"dgx-1",
     LinkWeb::kCube,
     {{{0, 0x06, 0, 0},
       {0, 0x07, 0, 0},
       {0, 0x0A, 0, 0},
       {0, 0x0B, 0, 0},
       {0, 0x85, 0, 1},
       {0, 0x86, 0, 1},
       {0, 0x89, 0, 1},
       {0, 0x8A, 0, 1}}},
     2,
     10,
     30,
     "0-79",
     {{{0, "0-19,40-59"}, {1, "20-39,60-79"}, {-2, ""}, {-2, ""}}}},
    {"pcie",  // two sockets, bridged cards
     LinkWeb::kBridgedPairs,
     {{{0, 0x17, 0, 0},
       {0, 0x31, 0, 0},
       {0, 0xB1, 0, 1},
       {0, 0xCA, 0, 1},
       {0, 0x18, 0, 0},
       {0, 0x32, 0, 0},
       {0, 0xB2, 0, 1},
       {0, 0xCB, 0, 1}}},
     2,
     40,
     40,
     "0-127",
     {{{0, "0-31,64-95"}, {1, "32-63,96-127"}, {-2, ""}, {-2, ""}}}},
    {"pcie-1s",  // one socket, one host bridge
     LinkWeb::kNone,
     {{{0, 0x17, 0, 0},
       {0, 0x31, 0, 0},
       {0, 0xB1, 0, 0},
       {0, 0xCA, 0, 0},
       {0, 0x18, 0, 0},
       {0, 0x32, 0, 0},
       {0, 0xB2, 0, 0},
       {0, 0xCB, 0, 0}}},
     1,
     30,
     30,
     "0-63",
     {{{0, "0-63"}, {-2, ""}, {-2, ""}, {-2, ""}}}},
}};

// Neighbour of each of the six links of a V100 in the hybrid cube mesh.
constexpr std::array<std::array<int, 6>, 8> kCubePeers{{{1, 2, 3, 3, 4, 4},
                                                        {0, 2, 2, 3, 5, 5},
                                                        {0, 1, 1, 3, 3, 6},
                                                        {0, 0, 1, 2, 2, 7},
                                                        {0, 0, 5, 6, 7, 7},
                                                        {1, 1, 4, 6, 6, 7},
                                                        {2, 4, 5, 5, 7, 7},
                                                        {3, 4, 4, 5, 6, 6}}};

const Topology& topology(std::string_view name) {
  const auto found = std::ranges::find(kTopologies, name, &Topology::name);
  return found == kTopologies.end() ? kTopologies.front() : *found;
}

void add_range(std::vector<std::uint64_t>& mask, std::string_view range) {
  const auto ends = split(range, '-');
  const auto first = parse_unsigned(ends.front());
  const auto last = parse_unsigned(ends.back());
  if (!first || !last) return;
  for (std::uint64_t cpu = *first; cpu <= *last && cpu / 64 < mask.size(); ++cpu) {
    mask[cpu / 64] |= std::uint64_t{1} << (cpu % 64);
  }
}

}  // namespace

std::vector<std::string_view> topology_names() {
  std::vector<std::string_view> names;
  for (const auto& entry : kTopologies) names.push_back(entry.name);
  return names;
}

bool topology_known(std::string_view name) {
  return std::ranges::find(kTopologies, name, &Topology::name) != kTopologies.end();
}

TopologySlot topology_slot(std::string_view name, int gpu) {
  TopologySlot slot = topology(name).slots[static_cast<std::size_t>(gpu) % 8];
  slot.domain += static_cast<std::uint32_t>(gpu) / 8;  // a ninth GPU is in a second PCI domain
  return slot;
}

LinkWeb topology_links(std::string_view name) {
  return topology(name).links;
}

std::uint32_t topology_ancestor(std::string_view name, int a, int b, std::int32_t numa_a, std::int32_t numa_b) {
  if (a == b) return 0;
  const Topology& shape = topology(name);
  if (numa_a != numa_b) return 50;
  const int per_switch = static_cast<int>(shape.gpus_per_switch);
  if (a / per_switch == b / per_switch) return shape.inside_switch;
  return shape.inside_numa;
}

std::vector<std::uint64_t> topology_cpus(std::string_view name, std::int32_t numa, std::uint32_t words) {
  std::vector<std::uint64_t> mask(words);
  const Topology& shape = topology(name);
  std::string_view ranges = shape.all_cpus;
  for (const auto& near : shape.near) {
    if (near.numa == numa) ranges = near.cpus;
  }
  for (const auto range : split(ranges, ',')) add_range(mask, range);
  return mask;
}

int topology_link_peer(LinkWeb web, int gpu, std::uint32_t link, int gpus) {
  int peer = -1;
  if (web == LinkWeb::kBridgedPairs) peer = gpu ^ 1;
  if (web == LinkWeb::kCube && link < 6 && gpu < 8) peer = kCubePeers[static_cast<std::size_t>(gpu)][link];
  return peer < gpus ? peer : -1;
}

std::uint32_t topology_link_switch(std::uint32_t link, std::uint32_t links) {
  constexpr std::uint32_t kFirstBus = 0xC9;
  const std::uint32_t switches = links == 12 ? 6 : 4;  // A100: six, two links each; Hopper: four
  return kFirstBus + link % switches;
}

}  // namespace tranche::sim
