#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/text.h"
#include "grants/change/change.h"
#include "plan/select.h"

namespace tranche::grants {
namespace {

using config::SharingStrategy;
using plan::Plan;
using plan::PlannedDevice;
using plan::PlannedResource;
using Devices = std::vector<const PlannedDevice*>;

// The effect on what is held, by What.
constexpr std::array<std::string_view, 7> kMeans{"held slots stay until they are free",
                                                 "held slots stay until they are free",
                                                 "as soon as nothing of it is held",
                                                 "for containers to come, those that run keep theirs",
                                                 "takes effect with the next client",
                                                 "",
                                                 ""};

// "14377 MiB and 12 SMs (10 %)"
std::string limits_text(const plan::ShareLimits& limits) {
  const std::string memory =
      limits.memory.value == 0 ? "memory without a limit" : fmt::format("{} MiB", limits.memory.in_mib());
  if (limits.threads.hundredths == 0) return memory;
  if (limits.sms == 0) return fmt::format("{} and {} % of the SMs", memory, to_string(limits.threads));
  return fmt::format("{} and {} SMs ({} %)", memory, limits.sms, to_string(limits.threads));
}

class Steps {
 public:
  Steps(const Plan& before, const Plan& after) : before_(before), after_(after) {}

  std::vector<Step> all() {
    std::set<std::string> names;
    for (const auto* plan : {&before_, &after_})
      for (const auto& resource : plan->resources) names.insert(resource.name);
    for (const auto& name : names) resource(name);
    modes();
    limits();
    std::ranges::stable_sort(found_, {}, &Step::what);
    return std::move(found_);
  }

 private:
  void resource(const std::string& name) {
    const auto* was = plan::find_resource(before_, name);
    const auto* is = plan::find_resource(after_, name);
    const auto slots_before = was == nullptr ? 0 : slots_of(*was), slots_after = is == nullptr ? 0 : slots_of(*is);
    if (slots_after == 0 && slots_before > 0) {
      add(What::kVanishes, name, {},
          fmt::format("{} {} its {}", name, is == nullptr ? "vanishes with" : "loses",
                      count_text(slots_before, "slot")));
    } else if (slots_before == 0 && slots_after > 0) {
      add(What::kAppears, name, {}, fmt::format("{} appears with {}", name, count_text(slots_after, "slot")));
    } else if (was != nullptr && is != nullptr) {
      numbers(name, *was, *is);
      limit_changes(name, *was, *is);
    } else if (was == nullptr) {
      add(What::kAppears, name, {}, name + " appears without slots");
    } else {
      add(What::kVanishes, name, {}, name + " vanishes without slots").affects_held = false;
    }
  }

  // Devices with the same numbers are one step.
  void numbers(const std::string& name, const PlannedResource& was, const PlannedResource& is) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, Devices> by_numbers;
    for (const auto& device : is.devices) {
      const auto* old = find_device(was, device.uuid);
      by_numbers[{old == nullptr ? 0 : old->slots, device.slots}].push_back(&device);
    }
    for (const auto& device : was.devices)
      if (find_device(is, device.uuid) == nullptr) by_numbers[{device.slots, 0}].push_back(&device);
    for (const auto& [numbers, devices] : by_numbers)
      if (numbers.first != numbers.second)
        add(numbers.second < numbers.first ? What::kShrinks : What::kGrows, name, devices,
            fmt::format("{} on {}: {} → {}", name, name_of(devices), numbers.first,
                        count_text(numbers.second, "slot")));
  }

  void limit_changes(const std::string& name, const PlannedResource& was, const PlannedResource& is) {
    std::map<std::string, Devices> by_text;
    for (const auto& device : is.devices) {
      const auto* old = find_device(was, device.uuid);
      if (old == nullptr || device.pool.empty() || old->pool.empty()) continue;
      if (old->share != device.share)
        by_text[fmt::format("a slot has {} instead of {}", limits_text(device.share), limits_text(old->share))]
            .push_back(&device);
      else if (old->policy != device.policy || was.one_slot_per_request != is.one_slot_per_request)
        by_text["several slots of one container have different limits"].push_back(&device);
    }
    for (const auto& [text, devices] : by_text)
      add(What::kShare, name, devices, fmt::format("{} on {}: {}", name, name_of(devices), text));
  }

  void modes() {
    std::map<std::string, Devices> by_text;
    for (const auto& resource : after_.resources) {
      for (const auto& device : resource.devices) {
        const auto* old = find_device(before_, device.uuid);
        if (old == nullptr || mode_of(*old) == mode_of(device)) continue;
        by_text[change_text(mode_of(*old), mode_of(device))].push_back(&device);
      }
    }
    for (const auto& [text, devices] : by_text)
      add(What::kSharingMode, {}, devices, fmt::format("{}: {}", name_of(devices), text));
  }

  void limits() {
    for (const auto& pool : after_.pools) {
      const auto* old = plan::find_pool(before_, pool.id);
      if (old == nullptr || old->limits == pool.limits) continue;
      std::vector<std::string> texts;
      for (const auto& limit : pool.limits) {
        const std::string text = limits_text(limit.client);
        if (std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
      }
      add(What::kLimits, pool.id, {},
          fmt::format("pool {}: a client gets at most {}", pool.id, fmt::join(texts, " or ")))
          .devices = pool.devices;
    }
  }

  Step& add(What what, const std::string& resource, const Devices& devices, std::string text) {
    Step& step = found_.emplace_back(what, resource, std::vector<std::string>{}, std::move(text));
    for (const auto* device : devices) step.devices.push_back(device->uuid);
    return step;
  }

  const Plan& before_;
  const Plan& after_;
  std::vector<Step> found_;
};

}  // namespace

std::vector<Step> steps(const Plan& before, const Plan& after) {
  if (before == after) return {};
  return Steps(before, after).all();
}

std::string to_string(const Step& step) {
  if (step.waits()) return fmt::format("{} (waits: {})", step.text, step.waits_for);
  const auto means = step.affects_held ? kMeans.at(static_cast<std::size_t>(step.what)) : "";
  return means.empty() ? step.text : fmt::format("{} ({})", step.text, means);
}

std::string name_of(const std::vector<const PlannedDevice*>& devices) {
  std::vector<std::uint32_t> numbers;
  std::vector<std::string> indices;
  for (const auto* device : devices) {
    indices.push_back(device->index);
    if (const auto number = parse_unsigned(device->index)) numbers.push_back(static_cast<std::uint32_t>(*number));
  }
  if (numbers.size() == indices.size()) return plan::list_of(numbers);
  return (indices.size() == 1 ? "GPU " : "GPUs ") + join(indices, ", ");
}

SharingMode mode_of(const PlannedDevice& device) {
  if (!device.pool.empty()) return {SharingStrategy::kMps, device.pool};
  return {device.replicated ? SharingStrategy::kTimeSlicing : SharingStrategy::kNone, {}};
}

SharingMode mode_of(const HeldShare& share) {
  if (!share.pool.empty()) return {SharingStrategy::kMps, share.pool};
  const bool divided = !share.slots.empty() && plan::device_of(share.slots.front()) != share.slots.front();
  return {divided ? SharingStrategy::kTimeSlicing : SharingStrategy::kNone, {}};
}

std::string change_text(const std::optional<SharingMode>& before, const SharingMode& after) {
  const auto text_of = [](const SharingMode& mode) {
    return std::string(enum_name<SharingStrategy::kMps>(mode.strategy, {"exclusive", "time-slicing", "MPS"}));
  };
  if (!before) return "to " + text_of(after);
  if (before->strategy == SharingStrategy::kMps && after.strategy == SharingStrategy::kMps)
    return fmt::format("MPS pool {} → MPS pool {}", before->pool, after.pool);
  return text_of(*before) + " → " + text_of(after);
}

}  // namespace tranche::grants
