#pragma once
// Events of all GPUs that answer, in one event set. Registration is per GPU and per bit: a GPU that does not support
// events, or cannot be registered, does not affect the others, and watches() gives the reason. Destroy the set before
// the library is shut down. One thread.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gpu/driver/library.h"
#include "gpu/driver/scan.h"

namespace tranche::gpu::nvml {

// Whether the driver would report a GPU's faults.
struct Watch {
  enum class State {
    kWatched,
    kUnsupported,  // this GPU or driver does not have such events
    kFailed,       // supported, but registration failed: try again
  };
  std::string uuid;
  State state = State::kWatched;
  std::string why;
};

class Events {
 public:
  // Without `faults`, only events that are not health checks are registered: changes of the MIG layout.
  Events(const Library& library, const std::vector<Held>& gpus, bool faults);
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  ~Events();

  // One per GPU, in their order; empty without `faults`.
  const std::vector<Watch>& watches() const { return watches_; }
  void try_again(const std::vector<Held>& gpus);  // only registrations that failed; all others continue unchanged

  // How many GPUs have an event of any kind. If one of these is lost, wait() ends with kGpuIsLost.
  std::size_t registered() const { return registered_.size(); }
  // Waits up to `timeout_ms` for one event. kTimeout may come early. kGpuIsLost comes immediately, and on every call,
  // until the set is rebuilt without the lost GPU.
  Return wait(std::uint32_t timeout_ms, EventData& event) const;

 private:
  bool create();
  Watch watch(const Held& gpu);

  const Library& library_;
  const bool faults_;
  EventSet set_ = nullptr;
  std::string no_set_;  // why there is no set
  std::vector<Watch> watches_;
  std::set<std::string> registered_;
};

}  // namespace tranche::gpu::nvml
