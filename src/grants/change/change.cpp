#include "grants/change/change.h"

#include <algorithm>

namespace tranche::grants {
namespace {

bool concerns(const Step& waiting, const Step& step) {
  if (waiting.what != step.what || waiting.resource != step.resource) return false;
  return step.devices.empty() || std::ranges::find_first_of(waiting.devices, step.devices) != waiting.devices.end();
}

// What waits takes the place of the step that it is of, which else may be of several devices.
std::vector<Step> merge(const std::vector<Step>& planned, const std::vector<Step>& waiting) {
  std::vector<Step> all;
  const auto comes_with_its_gpu = [&](const std::string& uuid) {
    return std::ranges::any_of(waiting, [&](const Step& one) {
      return one.what == What::kSharingMode && std::ranges::find(one.devices, uuid) != one.devices.end();
    });
  };
  for (const auto& step : planned) {
    if (step.what != What::kSharingMode && !step.devices.empty() &&
        std::ranges::all_of(step.devices, comes_with_its_gpu))
      continue;
    const bool waits = std::ranges::any_of(waiting, [&](const Step& one) { return concerns(one, step); });
    if (!waits) {
      all.push_back(step);
      continue;
    }
    const auto still = [&](const std::string& uuid) {
      return std::ranges::any_of(waiting, [&](const Step& one) {
        return one.what == step.what && std::ranges::find(one.devices, uuid) != one.devices.end();
      });
    };
    if (!step.devices.empty() && !std::ranges::all_of(step.devices, still)) all.push_back(step);
  }
  all.insert(all.end(), waiting.begin(), waiting.end());
  std::ranges::stable_sort(all, {}, &Step::what);
  return all;
}

}  // namespace

void Change::aim(plan::Plan newest) {
  if (newest_ == newest) return;
  planned_ = newest_ ? grants::steps(now_.plan, newest) : std::vector<Step>{};
  newest_ = std::move(newest);
}

// What was given since is known also then.
Holdings Change::with_assumed(const Holdings& holdings) {
  if (holdings.unknown.empty()) {
    assumed_.reset();
    return holdings;
  }
  if (!assumed_) assumed_ = shown(now_);
  Holdings all = holdings;
  for (auto share : *assumed_) {
    for (const auto& known : holdings.held) {
      if (known.resource != share.resource || known.device != share.device) continue;
      std::erase_if(share.slots,
                    [&](const std::string& slot) { return std::ranges::find(known.slots, slot) != known.slots.end(); });
    }
    if (!share.slots.empty()) all.held.push_back(std::move(share));
  }
  return all;
}

bool Change::follow(const Holdings& holdings) {
  if (!newest_) return false;
  auto next = settle(now_, *newest_, with_assumed(holdings));
  auto steps = merge(planned_, next.waiting);
  const bool changed = next != now_ || steps != steps_;
  now_ = std::move(next);
  steps_ = std::move(steps);
  return changed;
}

}  // namespace tranche::grants
