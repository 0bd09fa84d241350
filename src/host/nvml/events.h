#pragma once
// Events of all GPUs that answer, in one event set. Registration is per GPU and per bit: a GPU that supports no events
// leaves the others alone. The set must be freed before the library is shut down; one thread.
#include <cstdint>
#include <optional>
#include <vector>

#include "host/nvml/library.h"
#include "host/nvml/scan.h"

namespace tranche::host::nvml {

class Events {
 public:
  Events(const Library& library, const std::vector<Held>& gpus);
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  ~Events();

  bool any() const { return registered_ > 0; }  // false: no GPU of this node reports events
  // One event if one is there by `timeout_ms`. kTimeout also comes early; kGpuIsLost comes at once and for ever until
  // the set is rebuilt without the lost GPU.
  Return wait(std::uint32_t timeout_ms, EventData& event) const;

 private:
  const Library& library_;
  EventSet set_ = nullptr;
  int registered_ = 0;
};

}  // namespace tranche::host::nvml
