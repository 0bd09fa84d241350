#include "simulate/allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "simulate/plan_text.h"

namespace tranche::simulate {
namespace {

constexpr std::uint64_t kMostSteps = 200'000;

// "gpu" is for all its subrequests, "gpu/first" for one.
bool is_of(const ClaimConstraint& constraint, const ClaimRequest& request, const DeviceAsk& ask) {
  return constraint.requests.empty() || std::ranges::any_of(constraint.requests, [&](const std::string& name) {
           return name == request.name || (!ask.name.empty() && name == request.name + "/" + ask.name);
         });
}

std::string device_text(const PublishedDevice& device) {
  return fmt::format("GPU {}", device.device->index);
}

}  // namespace

std::string amount_text(const std::string& capacity, std::uint64_t amount) {
  const bool in_mib = capacity == "memory" && amount % mib(1).value == 0;
  return in_mib ? dra::quantity_of(Bytes{amount}) + " of memory" : fmt::format("{} {}", amount, capacity);
}

Allocator::Allocator(const Published& published, const std::map<std::string, ClassSpec>& classes)
    : published_(published), classes_(classes), uses_(published.devices.size()) {}

Match Allocator::selected(const DeviceAsk& ask, const PublishedDevice& device) const {
  const SelectorView view{published_.driver, device.attributes, device.shared};
  Match all = Match::kYes;
  const auto add = [&](const std::vector<Selector>& selectors) {
    for (const auto& selector : selectors)
      if (all == Match::kYes) all = match(selector, view);
  };
  const auto found = classes_.find(ask.device_class);
  if (found == classes_.end()) return Match::kNo;
  add(found->second.selectors);
  add(ask.selectors);
  return all;
}

bool Allocator::has_counters(std::size_t device) const {
  for (const auto& [set, counters] : published_.devices[device].draws) {
    const auto all = published_.counters.find(set);
    if (all == published_.counters.end()) return false;
    const auto drawn = drawn_.find(set);
    for (const auto& [counter, amount] : counters) {
      const auto value = all->second.find(counter);
      if (value == all->second.end()) return false;
      std::uint64_t used = 0;
      if (drawn != drawn_.end())
        if (const auto known = drawn->second.find(counter); known != drawn->second.end()) used = known->second;
      if (used > value->second || value->second - used < amount) return false;
    }
  }
  return true;
}

Allocator::Fit Allocator::fit(const DeviceAsk& ask, std::size_t at) const {
  const PublishedDevice& device = published_.devices[at];
  const Use& use = uses_[at];
  if (const Match match = selected(ask, device); match != Match::kYes)
    return {match == Match::kNo ? Reason::kNotSelected : Reason::kFails, {}, 0, 0, {}};
  if (!device.shared && !ask.admin_access && use.shares > 0) return {Reason::kTaken, {}, 0, 0, {}};
  const bool drawn_already = device.shared && use.shares > 0;
  Fit fit;
  for (const auto& [name, amount] : ask.capacity) {  // names are compared as they are written
    if (!device.capacity.contains(name)) return {Reason::kNotThere, name, amount, 0, {}};
    if (!device.shared && device.capacity.at(name).value < amount)
      return {Reason::kTooLarge, name, amount, device.capacity.at(name).value, {}};
  }
  for (const auto& [name, capacity] : device.capacity) {
    if (!device.shared) break;
    const auto asked = ask.capacity.find(name);
    const auto wanted = asked == ask.capacity.end() ? std::nullopt : std::optional(asked->second);
    const auto amount = consumed(capacity, wanted);
    if (!amount) return {Reason::kTooLarge, name, wanted.value_or(0), capacity.value, {}};
    const auto taken = use.consumed.find(name);
    const std::uint64_t held = taken == use.consumed.end() ? 0 : taken->second;
    const std::uint64_t left = capacity.value - std::min(capacity.value, held);
    if (*amount > left && fit.reason == Reason::kFits) {
      fit.reason = Reason::kShort;
      fit.capacity = name;
      fit.asked = *amount;
      fit.left = left;
    }
    fit.consumed[name] = *amount;
  }
  if (!drawn_already && !has_counters(at)) return {Reason::kCounters, {}, 0, 0, {}};
  return fit;
}

bool Allocator::keeps_constraints(const Pick& pick) const {
  const ClaimSpec& spec = *(*claims_)[pick.claim].spec;
  const auto value_of = [&](const Pick& each, const std::string& attribute) -> const std::string* {
    const auto& attributes = published_.devices[each.device].attributes;
    const auto found = attributes.find(attribute);
    return found == attributes.end() ? nullptr : &found->second;
  };
  for (const auto& constraint : spec.constraints) {
    const auto concerns = [&](const Pick& each) {
      const auto& request = spec.requests[each.request];
      return is_of(constraint, request, request.either[each.either]);
    };
    if (!concerns(pick)) continue;
    const std::string* own = value_of(pick, constraint.attribute);
    if (own == nullptr) return false;
    for (const Pick& other : picks_) {
      if (other.claim != pick.claim || !concerns(other)) continue;
      const std::string* theirs = value_of(other, constraint.attribute);
      if (theirs == nullptr || (*theirs == *own) == constraint.distinct) return false;
    }
  }
  return true;
}

void Allocator::take(Pick pick) {
  Use& use = uses_[pick.device];
  if (!pick.admin_access) {
    if (use.shares == 0)
      for (const auto& [set, counters] : published_.devices[pick.device].draws)
        for (const auto& [counter, amount] : counters) drawn_[set][counter] += amount;
    ++use.shares;
    for (const auto& [name, amount] : pick.consumed) use.consumed[name] += amount;
    use.holders.push_back((*claims_)[pick.claim].holder);
  }
  picks_.push_back(std::move(pick));
}

void Allocator::take_back() {
  const Pick pick = std::move(picks_.back());
  picks_.pop_back();
  if (pick.admin_access) return;
  uses_[pick.device].holders.pop_back();
  release({pick});
}

void Allocator::release(const std::vector<Pick>& picks) {
  for (const Pick& pick : picks) {
    if (pick.admin_access) continue;
    Use& use = uses_[pick.device];
    --use.shares;
    for (const auto& [name, amount] : pick.consumed) use.consumed[name] -= amount;
    if (use.holders.size() > use.shares) use.holders.pop_back();
    if (use.shares > 0) continue;
    for (const auto& [set, counters] : published_.devices[pick.device].draws)
      for (const auto& [counter, amount] : counters) drawn_[set][counter] -= amount;
  }
}

bool Allocator::pick_all(const Pick& so_far) {
  const DeviceAsk& ask = (*claims_)[so_far.claim].spec->requests[so_far.request].either[so_far.either];
  const std::size_t before = picks_.size();
  bool all = true;
  for (std::size_t d = 0; d < published_.devices.size() && all; ++d) {
    Fit fitting = fit(ask, d);
    if (fitting.reason == Reason::kNotSelected) continue;
    Pick one = so_far;
    one.device = d;
    one.consumed = std::move(fitting.consumed);
    all = fitting.reason == Reason::kFits && keeps_constraints(one);
    if (all) take(std::move(one));
  }
  if (all && picks_.size() > before && next(so_far.claim, so_far.request + 1)) return true;
  while (picks_.size() > before) take_back();
  return false;
}

// `still` devices of those at `from` and after it.
bool Allocator::pick(Pick so_far, std::uint64_t still, std::size_t from) {
  if (still == 0) return next(so_far.claim, so_far.request + 1);
  const DeviceAsk& ask = (*claims_)[so_far.claim].spec->requests[so_far.request].either[so_far.either];
  for (std::size_t d = from; d < published_.devices.size(); ++d) {
    if (++steps_ > kMostSteps) return false;
    Fit fitting = fit(ask, d);
    if (fitting.reason != Reason::kFits) continue;
    Pick one = so_far;
    one.device = d;
    one.consumed = std::move(fitting.consumed);
    if (!keeps_constraints(one)) continue;
    take(std::move(one));
    if (pick(so_far, still - 1, d + 1)) return true;
    take_back();
  }
  return false;
}

bool Allocator::next(std::size_t claim, std::size_t request) {
  if (claim == claims_->size()) return true;
  const auto& requests = (*claims_)[claim].spec->requests;
  if (request == requests.size()) return next(claim + 1, 0);
  for (std::size_t either = 0; either < requests[request].either.size(); ++either) {
    const DeviceAsk& ask = requests[request].either[either];
    const Pick so_far{claim, request, either, 0, ask.admin_access, {}};
    if (ask.all ? pick_all(so_far) : pick(so_far, ask.count, 0)) return true;
  }
  return false;
}

Allocator::Answer Allocator::allocate(const std::vector<NeededClaim>& claims) {
  claims_ = &claims;
  steps_ = 0;
  picks_.clear();
  Answer answer;
  answer.found = next(0, 0);
  answer.given_up = !answer.found && steps_ > kMostSteps;
  answer.picks = std::exchange(picks_, {});
  claims_ = nullptr;
  return answer;
}

std::string Allocator::holder_of_counters(std::size_t at) const {
  for (std::size_t d = 0; d < uses_.size(); ++d) {
    if (d == at || uses_[d].shares == 0) continue;
    const auto& draws = published_.devices[d].draws;
    for (const auto& [set, counters] : published_.devices[at].draws)
      if (draws.contains(set)) return fmt::format("{} holds {}", uses_[d].holders.back(), published_.devices[d].name);
  }
  return "another device of it is in use";
}

std::string Allocator::text(const Fit& fit, std::size_t at) const {
  const PublishedDevice& device = published_.devices[at];
  switch (fit.reason) {
    case Reason::kFits:
      return fmt::format("{} fits", device_text(device));
    case Reason::kNotSelected:
      return {};
    case Reason::kFails:
      return fmt::format(
          "{}: a selector names an attribute that {} does not have, which fails the pod in the scheduler",
          device_text(device), device.name);
    case Reason::kTaken:
      return fmt::format("{}: {} holds it", device_text(device), uses_[at].holders.back());
    case Reason::kCounters:
      return fmt::format("{}: {}", device_text(device), holder_of_counters(at));
    case Reason::kNotThere:
      return fmt::format("{}: {} has no capacity {}", device_text(device), device.name, in_quotes(fit.capacity));
    case Reason::kTooLarge:
      return fmt::format("{}: {} has {} at most", device_text(device), device.name,
                         amount_text(fit.capacity, fit.left));
    case Reason::kShort:
      return fmt::format("{}: {} left", device_text(device), amount_text(fit.capacity, fit.left));
  }
  return {};
}

Allocator::WhyNot Allocator::why_not(const NeededClaim& claim, const ClaimRequest& request) const {
  WhyNot why;
  for (const DeviceAsk& ask : request.either) {
    std::vector<std::string> devices;
    std::vector<std::string> amounts;
    std::uint64_t fitting = 0;
    for (std::size_t d = 0; d < published_.devices.size(); ++d) {
      const Fit one = fit(ask, d);
      if (one.reason == Reason::kNotSelected) continue;
      if (one.reason == Reason::kFits) ++fitting;
      devices.push_back(text(one, d));
      if (amounts.empty())
        for (const auto& [name, amount] : one.consumed) amounts.push_back(amount_text(name, amount));
      if (one.reason != Reason::kShort && one.reason != Reason::kTooLarge) continue;
      auto& shortage = why.short_of[one.capacity];
      shortage.asked = one.asked;
      shortage.most_left = std::max(shortage.most_left, one.reason == Reason::kShort ? one.left : 0);
    }
    if (amounts.empty())
      for (const auto& [name, amount] : ask.capacity) amounts.push_back(amount_text(name, amount));
    std::string what = ask.all ? "every device" : count_text(ask.count, "device");
    if (!amounts.empty()) what += " with " + join(amounts, " and ");
    const std::string which = ask.name.empty() ? request.name : request.name + "/" + ask.name;
    if (devices.empty())
      devices.push_back("the node has no device that its selectors accept");
    else if (!ask.all && fitting > 0 && fitting < ask.count)
      devices.push_back("a request gets each device once");
    why.sentences.push_back(fmt::format("{}, request {}: asks for {} of class {}; {}", claim.name, which, what,
                                        ask.device_class, join(devices, "; ")));
  }
  return why;
}

}  // namespace tranche::simulate
