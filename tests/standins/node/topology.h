#pragma once
// How the GPUs of a simulated node are connected: bus addresses, NUMA nodes, PCIe switches, NVLinks. Pure; plain data.
#include <cstdint>
#include <string_view>
#include <vector>

namespace tranche::sim {

enum class LinkWeb : std::uint32_t {
  kNone,           // no NVLink in use
  kSwitchVisible,  // every link ends at an NVSwitch with an address
  kSwitchHidden,   // … whose address the driver does not report (virtual machines)
  kBridgedPairs,   // GPUs 0 and 1, 2 and 3, … joined directly by all their links
  kCube,           // eight V100, six links each
};

struct TopologySlot {
  std::uint32_t domain, bus, device;
  std::int32_t numa;  // -1: unknown
};

// Names of topologies, for messages.
std::vector<std::string_view> topology_names();
bool topology_known(std::string_view name);
TopologySlot topology_slot(std::string_view name, int gpu);
LinkWeb topology_links(std::string_view name);

// NVML's number for the closest PCIe ancestor: 0, 10, 20, 30, 40, 50. numa_a and numa_b may come from node.yaml.
std::uint32_t topology_ancestor(std::string_view name, int a, int b, std::int32_t numa_a, std::int32_t numa_b);

// The CPUs nearby, as a mask of 64-bit words (at most `words`).
std::vector<std::uint64_t> topology_cpus(std::string_view name, std::int32_t numa, std::uint32_t words);

// The GPU at the far end of a link, -1 if it is a switch or nothing. gpus: how many GPUs the node has.
int topology_link_peer(LinkWeb web, int gpu, std::uint32_t link, int gpus);
// The bus of the switch at the far end of a link (kSwitchVisible).
std::uint32_t topology_link_switch(std::uint32_t link, std::uint32_t links);

}  // namespace tranche::sim
