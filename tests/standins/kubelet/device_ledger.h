#pragma once
// The state of kubelet's device manager in memory: the devices of each resource, their holders, and the plugin's
// recorded responses. No calls, no files, no clock, no locks.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "standins/kubelet/kubelet.h"

namespace tranche::sim {

// One container's devices of one resource, with the plugin's response as bytes on the wire.
struct Holding {
  std::string pod_uid;
  std::string container;
  std::string resource;
  std::vector<std::string> ids;  // sorted
  std::string response;          // a serialised ContainerAllocateResponse
  friend bool operator==(const Holding&, const Holding&) = default;
};

class DeviceLedger {
 public:
  // --- resources
  void expect(const std::string& resource);  // known from before a restart: no devices yet
  void set_devices(const std::string& resource, const std::vector<Device>& devices);
  void lose(const std::string& resource);         // its stream ended: every device is unhealthy
  bool knows(const std::string& resource) const;  // registered, or held by a pod: kubelet manages it
  std::vector<Device> devices(const std::string& resource) const;
  std::set<std::string> resources() const;

  // --- holdings
  const Holding* find(const std::string& pod_uid, const std::string& container, const std::string& resource) const;
  std::vector<const Holding*> of(const std::string& pod_uid, const std::string& container) const;
  std::set<std::string> allocated(const std::string& resource) const;
  void record(Holding holding);
  void remove_pod(const std::string& pod_uid);

  // The devices that a container requesting `required` still lacks: nullopt if it lacks none. The errors are kubelet's
  // reasons to refuse the pod. `running`: the runtime reports the container as running, so nothing is checked.
  Result<std::optional<std::set<std::string>>> available_for(const std::string& pod_uid, const std::string& container,
                                                             const std::string& resource, std::uint64_t required,
                                                             bool running) const;

 private:
  std::map<std::string, std::map<std::string, Device>> devices_;
  std::vector<Holding> holdings_;
};

// Preferred ids first if they are available, without duplicates, in any order; the rest from the available ones.
std::vector<std::string> choose(const std::vector<std::string>& available, const std::vector<std::string>& preferred,
                                std::uint64_t needed);

}  // namespace tranche::sim
