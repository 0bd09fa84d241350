#include "simulate/published.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"
#include "dra/quantity.h"

namespace tranche::simulate {
namespace {

using Parsed = nlohmann::json;

std::uint64_t quantity_at(const Parsed& object, const char* key) {
  return dra::parse_quantity(tranche::text_at(object, key)).value_or(0);
}

std::optional<std::uint64_t> given_at(const Parsed& object, const char* key) {
  if (!object.contains(key)) return std::nullopt;
  return quantity_at(object, key);
}

Capacity capacity_of(const Parsed& json) {
  Capacity capacity;
  capacity.value = quantity_at(json, "value");
  const Parsed& policy = tranche::map_at(json, "requestPolicy");
  capacity.usual = given_at(policy, "default");
  const Parsed& range = tranche::map_at(policy, "validRange");
  capacity.least = given_at(range, "min");
  capacity.most = quantity_at(range, "max");
  capacity.step = std::max<std::uint64_t>(1, quantity_at(range, "step"));
  for (const Parsed& value : tranche::list_at(policy, "validValues"))
    if (value.is_string()) capacity.values.push_back(dra::parse_quantity(value.get<std::string>()).value_or(0));
  return capacity;
}

std::map<std::string, std::string> attributes_of(const Parsed& device, const std::string& driver) {
  std::map<std::string, std::string> attributes;
  for (const auto& [name, value] : tranche::map_at(device, "attributes").items()) {
    const std::string qualified = name.contains('/') ? name : driver + "/" + name;
    for (const auto& [type, content] : value.items())  // a version is no text, and equals none
      attributes[qualified] = type == "version" ? "version " + json_text(content) : json_text(content);
  }
  return attributes;
}

Counters counters_of(const Parsed& json) {
  Counters counters;
  for (const auto& [name, value] : tranche::map_at(json, "counters").items())
    counters[name] = quantity_at(value, "value");
  return counters;
}

}  // namespace

std::optional<std::uint64_t> consumed(const Capacity& capacity, std::optional<std::uint64_t> asked) {
  std::uint64_t amount = asked ? *asked : capacity.usual.value_or(capacity.value);
  if (!capacity.values.empty()) {
    const auto value = std::ranges::lower_bound(capacity.values, amount);
    if (value == capacity.values.end()) return std::nullopt;
    amount = *value;
  } else if (capacity.least) {
    const std::uint64_t above = amount > *capacity.least ? amount - *capacity.least : 0;
    const std::uint64_t steps = above / capacity.step + (above % capacity.step != 0 ? 1 : 0);
    if (steps > capacity.value / capacity.step) return std::nullopt;
    amount = *capacity.least + steps * capacity.step;
  }
  const std::uint64_t most = capacity.most == 0 ? capacity.value : std::min(capacity.most, capacity.value);
  return amount > most ? std::nullopt : std::optional(amount);
}

Published published(const std::vector<dra::Device>& devices, const dra::Pool& pool) {
  Published all;
  all.driver = pool.driver;
  for (const auto& slice : dra::slices_of(devices, pool).list) {
    const Parsed spec = json_of(slice.spec);
    for (const Parsed& set : tranche::list_at(spec, "sharedCounters"))
      all.counters[tranche::text_at(set, "name")] = counters_of(set);
    for (const Parsed& json : tranche::list_at(spec, "devices")) {
      PublishedDevice device;
      device.name = tranche::text_at(json, "name");
      device.shared = tranche::truth_at(json, "allowMultipleAllocations");
      device.attributes = attributes_of(json, pool.driver);
      for (const auto& [name, capacity] : tranche::map_at(json, "capacity").items())
        device.capacity[name] = capacity_of(capacity);
      for (const Parsed& draw : tranche::list_at(json, "consumesCounters"))
        device.draws[tranche::text_at(draw, "counterSet")] = counters_of(draw);
      device.device = dra::find_device(devices, device.name);
      if (device.device != nullptr) all.devices.push_back(std::move(device));
    }
  }
  return all;
}

}  // namespace tranche::simulate
