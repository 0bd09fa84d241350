#pragma once
// A cluster as one page: nodes and their GPUs as a map, what is free, what would still fit, and where a pod is. From
// what the node agents report at one moment; there is no history, and nothing is asked or changed here. One thread at a
// time. Pure.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "observe/view/view.h"
#include "simulate/land.h"

namespace tranche::web {

struct Node {
  std::string name;
  std::string problem = {};                            // why there are no devices; "" = they are known
  std::vector<view::Device> devices = {};              // with their tenants
  std::map<std::string, simulate::Offer> offers = {};  // of its resources
};

// `status_json` is of the agent's page /status. A document that is none becomes the node's problem.
Node make_node(std::string name, std::string_view status_json);

// How many more containers of one size fit, as the simulator predicts, and what they leave.
struct Fit {
  std::uint64_t request = 0;                     // slots of one container
  bool whole = false;                            // all slots of a GPU
  std::uint64_t memory_mib = 0;                  // of the share, where it is the same on all GPUs; 0: it is not
  std::uint64_t containers = 0;                  // that fit now
  std::uint64_t stranded = 0;                    // free slots that are left when they are all there
  std::map<std::string, std::uint64_t> by_node;  // containers, where there are some
  friend bool operator==(const Fit&, const Fit&) = default;
};

// The slots of one resource. A container's slots lie on one GPU, so what is free on several of them does not add up.
struct Resource {
  std::uint64_t slots = 0;
  std::uint64_t held = 0;
  std::uint64_t unhealthy = 0;  // and not held
  std::uint64_t free = 0;       // healthy and not held
  std::uint64_t whole = 0;      // of them on devices of which nothing is held
  std::uint64_t largest = 0;    // request of one container that fits now
  // Of 1 to 4 slots, then doubled, and of a whole GPU; without sizes that no node would take if it were empty.
  std::vector<Fit> fits;
};
using Resources = std::map<std::string, Resource>;
// Some milliseconds for each node with hundreds of slots: once for each reading of the cluster.
Resources resources_of(const std::vector<Node>& nodes);

struct Shown {
  std::vector<Node> nodes = {};
  Resources resources = {};
  std::string server = {};   // of the cluster
  std::string when = {};     // "2026-01-02T03:04:05"
  std::string problem = {};  // of the last look at the cluster as a whole
};

std::string page(const Shown& shown);
std::string to_json(const Shown& shown);

}  // namespace tranche::web
