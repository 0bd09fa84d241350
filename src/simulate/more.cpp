#include "simulate/more.h"

#include "simulate/node_ledger.h"

namespace tranche::simulate {

namespace {

// A node with one resource, whose slots are held as the offer states.
class HeldNode {
 public:
  explicit HeldNode(const Offer& offer)
      : plan_(plan_of(offer)), config_(config_of(offer)), ledger_(plan_, plan_.resources.front(), inventory_, config_) {
    ledger_.take(ledger_.positions(offer.taken));
  }
  ResourceLedger& ledger() { return ledger_; }

 private:
  static plan::Plan plan_of(const Offer& offer) {
    plan::Plan plan;
    plan.resources = {offer.resource};
    return plan;
  }
  static config::Config config_of(const Offer& offer) {
    config::Config config;
    config.flags.plugin.shared_devices_allocation_policy = offer.policy;
    return config;
  }

  plan::Plan plan_;
  config::Config config_;
  gpu::Inventory inventory_;  // only for which GPUs are close to each other
  ResourceLedger ledger_;
};

}  // namespace

std::uint64_t largest_that_fits(const Offer& offer) {
  return HeldNode(offer).ledger().largest();
}

More more_that_fit(const Offer& offer, std::uint64_t slots_of_each) {
  HeldNode node(offer);
  ResourceLedger& ledger = node.ledger();
  More more{.possible = ledger.fits_empty(slots_of_each)};
  while (more.possible && ledger.free() >= slots_of_each) {
    const auto served = ledger.serve(slots_of_each, {});
    if (!served) break;
    // Where a slot lies does not matter to a request for one.
    if (slots_of_each == 1) return {ledger.free(), true};
    ledger.take(served->slots);
    ++more.containers;
  }
  return more;
}

}  // namespace tranche::simulate
