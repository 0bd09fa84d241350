#pragma once
// Events of all GPUs that answer, in one event set. Registration is per GPU and per bit: a GPU that supports no events,
// or cannot be registered, leaves the others alone and says why. The set must be freed before the library is shut down;
// one thread.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gpu/driver/library.h"
#include "gpu/driver/scan.h"

namespace tranche::host::nvml {

// Whether the driver would tell of a GPU's faults.
struct Watch {
  enum class State {
    kWatched,
    kUnsupported,  // this GPU or driver has no such events
    kFailed,       // it should work and does not: try again
  };
  std::string uuid;
  State state = State::kWatched;
  std::string why;
};

class Events {
 public:
  // Without `faults` only what is no health check is registered: changes of the MIG layout.
  Events(const Library& library, const std::vector<Held>& gpus, bool faults);
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  ~Events();

  // One per GPU, in their order; empty without `faults`.
  const std::vector<Watch>& watches() const { return watches_; }
  void try_again(const std::vector<Held>& gpus);  // what failed; the rest goes on as it is

  // How many GPUs have an event of any kind: those would end a wait with kGpuIsLost when they are lost.
  std::size_t registered() const { return registered_.size(); }
  // One event if one is there by `timeout_ms`. kTimeout also comes early; kGpuIsLost comes at once and for ever until
  // the set is rebuilt without the lost GPU.
  Return wait(std::uint32_t timeout_ms, EventData& event) const;

 private:
  bool create();
  Watch watch(const Held& gpu);

  const Library& library_;
  const bool faults_;
  EventSet set_ = nullptr;
  std::string no_set_;  // why there is none
  std::vector<Watch> watches_;
  std::set<std::string> registered_;
};

}  // namespace tranche::host::nvml
