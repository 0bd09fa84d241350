#include "labels/own_labels.h"

#include <algorithm>

#include "plan/shares.h"

namespace tranche::label {
namespace {

constexpr const char* kOwn = "tranche.io/";
constexpr inventory::ComputeCapability kHopper{9, 0};

bool cut_to_a_wrong_count(const plan::Plan& plan) {
  for (const auto& resource : plan.resources)
    for (const auto& device : resource.devices) {
      if (device.pool.empty() || device.share.sms == 0) continue;
      const auto spans = plan::trusted_sm_counts(device.compute_capability, device.sm_count, device.driver_version);
      if (!plan::is_trusted(device.share.sms, spans)) return true;
    }
  return false;
}

}  // namespace

void add_model_labels(const Gpus& gpus, Labels& labels) {
  struct Model {
    std::size_t count = 0;
    std::uint64_t mib = UINT64_MAX;
  };
  const std::string prefix = "model.";
  const std::string longest_suffix = ".memory";
  std::map<std::string, Model> models;
  for (const inventory::Gpu* gpu : gpus) {
    Model& model = models[bounded(label_value(gpu->name), kLongestValue - prefix.size() - longest_suffix.size())];
    ++model.count;
    model.mib = std::min(model.mib, gpu->memory.in_mib());
  }
  models.erase("");
  for (const auto& [name, model] : models) {
    labels[kOwn + prefix + name + ".count"] = std::to_string(model.count);
    if (model.mib > 0) labels[kOwn + prefix + name + longest_suffix] = std::to_string(model.mib);
  }
}

void add_slot_labels(const plan::Plan& plan, Labels& labels) {
  struct Slot {
    std::uint64_t sms = UINT64_MAX;
    std::uint64_t mib = UINT64_MAX;
  };
  std::map<std::string_view, std::size_t> kinds;  // number of MPS resources by name before renaming
  for (const auto& resource : plan.resources)
    if (std::ranges::any_of(resource.devices, [](const auto& device) { return !device.pool.empty(); }))
      ++kinds[resource.original_name];
  // By the name before renaming, which the labels use; of several resources, the one that is advertised.
  std::map<std::string, Slot> slots;
  for (const auto& resource : plan.resources) {
    for (const auto& device : resource.devices) {
      if (device.pool.empty()) continue;
      const std::string& name = kinds[resource.original_name] > 1 ? resource.name : resource.original_name;
      Slot& least = slots[kOwn + name.substr(name.find('/') + 1)];
      least.sms = std::min<std::uint64_t>(least.sms, device.share.sms);
      least.mib = std::min<std::uint64_t>(least.mib, device.share.memory.in_mib());
    }
  }
  for (const auto& [name, slot] : slots) {
    if (slot.sms > 0) labels[name + ".slot.sms"] = std::to_string(slot.sms);  // 0 = unknown
    if (slot.mib > 0) labels[name + ".slot.memory"] = std::to_string(slot.mib);
  }
}

void add_hazard_labels(const Gpus& gpus, const plan::Plan& plan, const std::string& driver, Labels& labels) {
  bool known = false;
  bool unmeasured = false;
  for (const inventory::Gpu* gpu : gpus) {
    const bool measured = !plan::trusted_sm_counts(gpu->compute_capability, gpu->sm_count, driver).empty();
    known = known || measured;
    // If one GPU of an architecture is known to compute wrong results, unmeasured ones are not assumed to be correct.
    unmeasured = unmeasured || (!measured && gpu->compute_capability == kHopper);
  }
  if (!known && !unmeasured) return;
  labels[std::string(kOwn) + "hazard.sm-counts"] = cut_to_a_wrong_count(plan) ? "exposed"
                                                   : unmeasured               ? "unmeasured"
                                                                              : "avoided";
}

}  // namespace tranche::label
