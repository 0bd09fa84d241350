#pragma once
// What the drivers of an inventory list for MIG, as gpu/models/models.h has it, for tests of partitions.
#include "dra/dra_devices.h"
#include "gpu/inventory/inventory.h"
#include "gpu/models/models.h"

namespace tranche::dra {

inline Partitionable partitionable_by_model(const gpu::Inventory& inventory) {
  Partitionable partitionable;
  for (const auto& gpu : inventory.gpus)
    if (const auto* model = gpu::model_of(0, gpu.name); model != nullptr)
      partitionable.gpus[gpu.uuid].profiles = model->profiles;
  return partitionable;
}

}  // namespace tranche::dra
