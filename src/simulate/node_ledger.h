#pragma once
// Private to src/simulate: what kubelet's device manager keeps in its head of one resource, and how it serves a
// container. Bookkeeping only; what is given and whether it may be is decided by src/grants/allocate.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "grants/allocate/grant.h"
#include "plan/plan.h"

namespace tranche::simulate {

class ResourceLedger {
 public:
  ResourceLedger(const plan::Plan& plan, const plan::PlannedResource& resource, const gpu::Inventory& inventory,
                 const config::Config& config);
  ResourceLedger(const ResourceLedger&) = delete;  // position_ points into ids_
  ResourceLedger& operator=(const ResourceLedger&) = delete;

  using Slots = std::set<std::size_t>;  // positions in driver order

  struct Served {
    grants::Grant grant;
    Slots slots;
  };
  // One container's request: what its pod's init containers left is used first (`reusable`), then what is preferred of
  // the rest. Changes nothing.
  Result<Served> serve(std::uint64_t count, const Slots& reusable) const;

  Slots positions(const std::set<std::string>& ids) const;  // of those that the resource has
  void take(const Slots& slots, bool taken = true);         // or release them
  // A container that runs is a client, or several, of the MPS server of each of its devices.
  void count_clients(const grants::Grant& grant, int more);

  // The largest request of one container that would be served now; and whether one of this size would be by an empty
  // node.
  std::uint64_t largest() const;
  bool fits_empty(std::uint64_t count) const;

  const plan::PlannedResource& resource() const { return resource_; }
  std::uint64_t slots() const { return ids_.size(); }
  std::uint64_t free() const { return free_; }
  std::uint32_t taken_on(std::size_t device) const { return taken_on_[device]; }

  // What the scheduler has counted for pods that are bound.
  std::uint64_t scheduled = 0;

 private:
  Result<Served> serve_from(const std::vector<char>& taken, const grants::Around& around, std::uint64_t count,
                            const Slots& reusable) const;

  const plan::PlannedResource& resource_;
  const gpu::Inventory& inventory_;
  config::AllocationPolicy policy_;
  grants::Settings settings_;
  const grants::Around around_empty_;
  grants::Around around_;
  std::vector<std::string> ids_;        // in driver order, then by ordinal
  std::vector<std::size_t> device_of_;  // of each id
  std::map<std::string_view, std::size_t> position_;
  std::vector<char> taken_;
  std::vector<std::uint32_t> taken_on_;
  std::uint64_t free_ = 0;
  mutable std::optional<std::uint64_t> largest_;  // until something is taken or released
};

}  // namespace tranche::simulate
