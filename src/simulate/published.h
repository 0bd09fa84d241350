#pragma once
// Private to src/simulate: the devices of a planned node as its ResourceSlices have them (dra/slices.h), in the order
// in which the scheduler takes them. What is published is read here and not known, so that a device of a new kind is
// planned like any other.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dra/devices.h"
#include "dra/slices.h"

namespace tranche::simulate {

struct Capacity {
  std::uint64_t value = 0;
  std::optional<std::uint64_t> usual;  // default of its request policy
  std::optional<std::uint64_t> least;  // of validRange
  std::uint64_t most = 0;              // 0 = the value
  std::uint64_t step = 1;
  std::vector<std::uint64_t> values;  // validValues, ascending
};

// What the scheduler accounts for a request: raised to the minimum, rounded up to the step. nullopt: the device cannot
// serve it.
std::optional<std::uint64_t> consumed(const Capacity& capacity, std::optional<std::uint64_t> asked);

using Counters = std::map<std::string, std::uint64_t>;

struct PublishedDevice {
  std::string name;
  bool shared = false;                            // allowMultipleAllocations
  std::map<std::string, std::string> attributes;  // as SelectorView has them
  std::map<std::string, Capacity> capacity;
  std::map<std::string, Counters> draws;  // by counter set
  const dra::Device* device = nullptr;    // in the list that was given
};

struct Published {
  std::string driver;
  std::vector<PublishedDevice> devices;
  std::map<std::string, Counters> counters;  // of each set
};

Published published(const std::vector<dra::Device>& devices, const dra::Pool& pool);

}  // namespace tranche::simulate
