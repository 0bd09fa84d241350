#pragma once
// Seeded generators for properties: configurations, inventories, requests. Every failure message carries the seed.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "config/model.h"
#include "dra/dra_devices.h"
#include "gpu/inventory/inventory.h"

namespace tranche::property {

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  // From `low` to `high`, both included.
  std::uint32_t number(std::uint32_t low, std::uint32_t high) {
    return std::uniform_int_distribution<std::uint32_t>(low, high)(engine_);
  }
  bool chance(std::uint32_t percent) { return number(1, 100) <= percent; }
  template <class T>
  const T& one_of(const std::vector<T>& values) {
    return values[number(0, static_cast<std::uint32_t>(values.size()) - 1)];
  }
  template <class T>
  void shuffle(std::vector<T>& values) {
    std::shuffle(values.begin(), values.end(), engine_);
  }

 private:
  std::mt19937 engine_;
};

// How many seeds a property tries: `everyday`, or $TRANCHE_PROPERTY_ROUNDS (the slow run of ctest tries 10,000).
std::uint32_t rounds(std::uint32_t everyday);

gpu::Gpu any_gpu(Random& random, std::uint32_t index);
gpu::Inventory any_inventory(Random& random, std::uint32_t most_gpus = 16);
// Often: some of the GPUs in MIG mode, partitioned on demand, as GPUs of any model with MIG, with instances of others.
dra::Partitionable any_partitions(Random& random, config::Config& config, gpu::Inventory& inventory);
config::Config any_config(Random& random);

}  // namespace tranche::property
