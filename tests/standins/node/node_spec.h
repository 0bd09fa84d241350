#pragma once
// node.yaml: the GPUs of a simulated node. Pure; reports every error with its place.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"

namespace tranche::sim {

struct GpuSpec {
  std::string profile;
  Place profile_place;
  std::string uuid;  // "" = derived from the profile, the seed and the index
  std::string pci;   // "" = from the topology; else "00000000:1B:00.0"
  std::int32_t minor = -1;
  std::int32_t numa = -2;        // -2 = from the topology
  std::vector<std::string> mig;  // GPU instance profile names; not empty = MIG is on
  bool mig_on = false;
};

struct NodeSpec {
  std::string driver = "580.159.04";
  std::uint32_t cuda = 13000;
  bool driver_present = true;
  bool require_root = false;  // changes through the driver library need effective user 0, as on a real node
  std::string topology;       // "" = the first GPU's
  std::string seed;           // different seeds give different UUIDs
  std::string proc_root;      // prefix of /proc/driver/nvidia/capabilities; "" = not written
  std::vector<GpuSpec> gpus;
};

NodeSpec parse_node_spec(std::string_view text, const std::string& source, std::vector<Problem>& problems);

}  // namespace tranche::sim
