#include "simulate/land.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/json_text.h"
#include "base/text.h"
#include "plan/plan.h"
#include "plan/table.h"

namespace tranche::simulate {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kFieldText{{
    {"originalName", "name before renaming"},
    {"replicas", "slots of a device"},
    {"oneSlotPerRequest", "one slot a container"},
    {"share.memoryMiB", "memory of a slot (MiB)"},
    {"share.threadsPercent", "threads of a slot (%)"},
    {"share.sms", "SMs of a slot"},
    {"maxClients", "clients at most"},
    {"computeMode", "compute mode"},
    {"memoryMiB", "a client's memory (MiB)"},
    {"threadsPercent", "a client's threads (%)"},
    {"sms", "a client's SMs"},
    {"mig", "MIG device"},
    {"replicated", "divided"},
}};

std::string text_for(std::string_view path) {
  for (const auto& [field, text] : kFieldText)
    if (field == path) return std::string(text);
  return std::string(path);
}

// The last fields of a pool's limit: "limits.GPU-….client.sms" → "GPU-…: a client's SMs".
std::string field_name(const std::string& path) {
  constexpr std::string_view kLimits = "limits.";
  const auto client = path.find(".client.");
  if (!path.starts_with(kLimits) || client == std::string::npos) return text_for(path);
  return fmt::format("{}: {}", path.substr(kLimits.size(), client - kLimits.size()), text_for(path.substr(client + 8)));
}

std::string text_of(const Json& value) {
  if (value.is_null()) return "none";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_array()) return json_text(value);
  return value.empty() ? "none" : join(value, ", ", text_of);
}

// The field that identifies every entry of a list, "" when there is none.
std::string key_of(const Json& list) {
  for (const char* key : {"uuid", "name", "id", "slots", "what"}) {
    const auto has = [key](const Json& item) { return item.is_object() && item.contains(key); };
    if (!list.empty() && std::ranges::all_of(list, has)) return key;
  }
  return {};
}

using Leaves = std::map<std::string, std::string>;

// The limits of several slots, as one text; one slot is the device's share.
void request_leaves(const Json& requests, Leaves& into) {
  for (const Json& item : requests) {
    const auto slots = item.value("slots", std::uint64_t{0});
    if (slots < 2) continue;
    const auto field = [&item](const char* name) { return item.contains(name) ? text_of(item[name]) : ""; };
    std::string percent = field("threadsPercent");
    if (percent.ends_with(".0")) percent.resize(percent.size() - 2);
    into[fmt::format("limits of {} slots", slots)] =
        fmt::format("{} MiB, SMs {} ({} %)", field("memoryMiB"), field("sms"), percent);
  }
}

// Every leaf of an object by its path; lists of objects by the entry's key, other lists as one text.
void leaves(const Json& value, const std::string& path, Leaves& into) {
  const std::string key = value.is_array() ? key_of(value) : "";
  if (path == "requests" && value.is_array()) {
    request_leaves(value, into);
  } else if (value.is_object()) {
    for (const auto& [name, member] : value.items()) leaves(member, path.empty() ? name : path + "." + name, into);
  } else if (!key.empty()) {
    for (const Json& item : value) {
      Json rest = item;
      rest.erase(key);
      leaves(rest, path + "." + text_of(item[key]), into);
    }
  } else {
    into[path] = text_of(value);
  }
}

Leaves leaves_of(const Json& object) {
  Leaves all;
  leaves(object, "", all);
  return all;
}

// Both sides by key; "" where a side has none.
std::map<std::string, std::pair<std::string, std::string>> paired(const Leaves& before, const Leaves& after) {
  std::map<std::string, std::pair<std::string, std::string>> pairs;
  for (const auto& [key, text] : before) pairs[key].first = text;
  for (const auto& [key, text] : after) pairs[key].second = text;
  return pairs;
}

// By name, in the order of names: entries of both sides, absent ones as null.
std::map<std::string, std::pair<Json, Json>> paired(const Json& before, const Json& after, const char* key) {
  std::map<std::string, std::pair<Json, Json>> pairs;
  for (const Json& item : before) pairs[item[key].get<std::string>()].first = item;
  for (const Json& item : after) pairs[item[key].get<std::string>()].second = item;
  return pairs;
}

class Comparison {
 public:
  void add(Difference difference) {
    for (Difference& known : found) {
      if (known.devices.empty() || difference.devices.empty() || known.what != difference.what ||
          known.field != difference.field || known.before != difference.before || known.after != difference.after)
        continue;
      known.devices.push_back(difference.devices.front());
      return;
    }
    found.push_back(std::move(difference));
  }

  // One entry: its fields, or `text` of it when it came or went as a whole.
  void entry(const std::string& what, const std::vector<std::string>& devices, const Json& before, const Json& after,
             auto text) {
    if (before.is_null() || after.is_null()) return add({what, devices, "", text(before), text(after)});
    for (const auto& [path, texts] : paired(leaves_of(before), leaves_of(after)))
      if (const auto& [was, is] = texts; was != is) add({what, devices, field_name(path), was, is});
  }

  void sentences(const std::string& what, const std::vector<std::string>& before,
                 const std::vector<std::string>& after) {
    for (const auto& text : before)
      if (std::ranges::find(after, text) == after.end()) add({what, {}, "", text, ""});
    for (const auto& text : after)
      if (std::ranges::find(before, text) == before.end()) add({what, {}, "", "", text});
  }

  std::vector<Difference> found;
};

std::string slots_text(const Json& item) {
  return item.is_null() ? "" : count_text(item.value("slots", std::uint64_t{0}), "slot");
}

void compare_devices(const std::string& resource, const Json& before, const Json& after, Comparison& out) {
  for (const auto& [uuid, pair] : paired(before, after, "uuid")) {
    const auto& [was, is] = pair;
    out.entry(resource, {(was.is_null() ? is : was)["index"].get<std::string>()}, was, is, slots_text);
  }
}

void compare_resources(const Json& before, const Json& after, Comparison& out) {
  for (auto& [name, pair] : paired(before, after, "name")) {
    auto& [was, is] = pair;
    const bool both = !was.is_null() && !is.is_null();
    const Json devices_before = both ? std::exchange(was["devices"], Json()) : Json();
    const Json devices_after = both ? std::exchange(is["devices"], Json()) : Json();
    out.entry(name, {}, was, is, slots_text);
    compare_devices(name, devices_before, devices_after, out);
  }
}

void compare_pools(const Json& before, const Json& after, Comparison& out) {
  const auto text = [](const Json& pool) { return pool.is_null() ? "" : text_of(pool["devices"]); };
  for (const auto& [id, pair] : paired(before, after, "id")) out.entry("pool " + id, {}, pair.first, pair.second, text);
}

std::vector<std::string> left_out_of(const plan::Plan& plan) {
  std::vector<std::string> texts;
  for (const auto& left : plan.left_out) texts.push_back(left.what + ": " + left.why);
  return texts;
}

void compare_labels(const std::map<std::string, std::string>& before, const std::map<std::string, std::string>& after,
                    Comparison& out) {
  for (const auto& [key, values] : paired(before, after))
    if (values.first != values.second || before.contains(key) != after.contains(key))
      out.add({"label " + key, {}, "", values.first, values.second});
}

}  // namespace

std::vector<Difference> compare(const Side& before, const Side& after) {
  const Json was = before.plan;
  const Json is = after.plan;
  Comparison out;
  compare_resources(was["resources"], is["resources"], out);
  compare_pools(was["pools"], is["pools"], out);
  compare_labels(before.labels, after.labels, out);
  out.sentences("left out", left_out_of(before.plan), left_out_of(after.plan));
  out.sentences("note", before.plan.notes, after.plan.notes);
  if (out.found.empty() && before.plan != after.plan)
    out.add({"plan", {}, "something that its document does not show", "one", "another"});
  return std::move(out.found);
}

std::string summary(const PodOutcome& outcome) {
  if (outcome.fate != Fate::kLands) return std::string(to_string(outcome.fate));
  std::set<std::string> containers;
  for (const Holding& holding : outcome.holdings) containers.insert(holding.container);
  std::vector<std::string> parts;
  for (const Holding& holding : outcome.holdings) {
    for (const OnDevice& on : holding.devices) {
      std::string text = containers.size() > 1 ? holding.container + ": " : "";
      text += fmt::format("{} {} on GPU {}", on.slots, holding.resource, on.index);
      if (on.limits.memory.value > 0) text += fmt::format(", {}", plan::mib_text(on.limits.memory));
      if (on.limits.sms > 0) text += fmt::format(", {} SMs", on.limits.sms);
      parts.push_back(std::move(text));
    }
  }
  return join(parts, "; ");
}

std::vector<Difference> compare(const Simulation& before, const Simulation& after) {
  std::vector<Difference> pods;
  std::map<std::string, std::size_t> places;  // in `pods`
  for (const auto side : {&Difference::before, &Difference::after})
    for (const PodOutcome& pod : (side == &Difference::before ? before : after).pods) {
      const auto [place, is_new] = places.try_emplace(pod.full_name(), pods.size());
      if (is_new) pods.push_back({"pod " + place->first, {}, "", "", ""});
      pods[place->second].*side = summary(pod);
    }
  std::erase_if(pods, [](const Difference& pod) { return pod.before == pod.after; });
  return pods;
}

}  // namespace tranche::simulate
