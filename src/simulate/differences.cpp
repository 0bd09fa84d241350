#include "simulate/land.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
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

std::string text_of(const Json& value) {
  if (value.is_null()) return "none";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_array()) return json_text(value);
  return value.empty() ? "none" : join(value, ", ", text_of);
}

std::string slots_text(const Json& item) {
  return count_text(item.value("slots", std::uint64_t{0}), "slot");
}

using Leaves = std::map<std::string, std::string>;

// What a plan has: a resource, one of its devices, a pool, or a label.
struct Entry {
  std::string whole;                   // its text if the other plan does not have it
  Leaves fields{};                     // by what they are called
  std::vector<std::string> devices{};  // of a device, its index
};
using Entries = std::map<std::tuple<int, std::string, std::string>, Entry>;  // by kind, name, and UUID of a device

// Every leaf of an object by its path, without lists of objects.
void add_leaves(const Json& value, const std::string& path, Leaves& into) {
  if (value.is_object())
    for (const auto& [name, member] : value.items()) add_leaves(member, path.empty() ? name : path + "." + name, into);
  else if (!value.is_array() || value.empty() || !value.front().is_object())
    into[text_for(path)] = text_of(value);
}

Leaves leaves_of(const Json& object) {
  Leaves all;
  add_leaves(object, "", all);
  return all;
}

// The limits of several slots, as one text; one slot is the device's share.
void add_requests(const Json& requests, Leaves& into) {
  for (const Json& item : requests) {
    const auto slots = item.value("slots", std::uint64_t{0});
    if (slots < 2) continue;
    std::string percent = text_of(item["threadsPercent"]);
    if (percent.ends_with(".0")) percent.resize(percent.size() - 2);
    into[fmt::format("limits of {} slots", slots)] =
        fmt::format("{} MiB, SMs {} ({} %)", text_of(item["memoryMiB"]), text_of(item["sms"]), percent);
  }
}

Entries entries_of(const Side& side) {
  const Json plan = side.plan;
  Entries all;
  for (const Json& resource : plan["resources"]) {
    const std::string name = resource["name"];
    all[{0, name, ""}] = {slots_text(resource), leaves_of(resource)};
    for (const Json& device : resource["devices"]) {
      Entry& entry = all[{0, name, device["uuid"]}] = {slots_text(device), leaves_of(device), {device["index"]}};
      add_requests(device.value("requests", Json()), entry.fields);
    }
  }
  for (const Json& pool : plan["pools"]) {
    Entry& entry = all[{1, "pool " + pool["id"].get<std::string>(), ""}] = {text_of(pool["devices"]), leaves_of(pool)};
    for (const Json& limit : pool["limits"])
      for (const auto& [name, value] : limit["client"].items())
        entry.fields[fmt::format("{}: {}", text_of(limit["uuid"]), text_for(name))] = text_of(value);
  }
  for (const auto& [key, value] : side.labels) all[{2, "label " + key, ""}] = {value, {{"", value}}};
  return all;
}

// Both sides by key; nullptr where a side has none.
template <class Map>
auto paired(const Map& before, const Map& after) {
  using Value = const typename Map::mapped_type*;
  std::map<typename Map::key_type, std::pair<Value, Value>> pairs;
  for (const auto& [key, value] : before) pairs[key].first = &value;
  for (const auto& [key, value] : after) pairs[key].second = &value;
  return pairs;
}

void add(Difference difference, std::vector<Difference>& found) {
  for (Difference& known : found) {
    if (known.devices.empty() || difference.devices.empty() || known.what != difference.what ||
        known.field != difference.field || known.before != difference.before || known.after != difference.after)
      continue;
    known.devices.push_back(difference.devices.front());
    return;
  }
  found.push_back(std::move(difference));
}

void compare_entries(const Entries& before, const Entries& after, std::vector<Difference>& found) {
  const auto text_at = [](const std::string* text) { return text == nullptr ? std::string() : *text; };
  for (const auto& [key, entries] : paired(before, after)) {
    const auto& [kind, name, device] = key;
    const auto& [was, is] = entries;
    const bool both = was != nullptr && is != nullptr;
    if (both)
      for (const auto& [field, texts] : paired(was->fields, is->fields)) {
        Difference difference{name, was->devices, field, text_at(texts.first), text_at(texts.second)};
        if (difference.before != difference.after) add(std::move(difference), found);
      }
    else if (const Entries::key_type all{kind, name, ""};
             device.empty() || (before.contains(all) && after.contains(all)))
      add({name, (was ? was : is)->devices, "", was ? was->whole : "", is ? is->whole : ""}, found);
  }
}

void compare_sentences(const std::string& what, const std::vector<std::string>& before,
                       const std::vector<std::string>& after, std::vector<Difference>& found) {
  for (const auto& text : before)
    if (std::ranges::find(after, text) == after.end()) found.push_back({what, {}, "", text, ""});
  for (const auto& text : after)
    if (std::ranges::find(before, text) == before.end()) found.push_back({what, {}, "", "", text});
}

std::vector<std::string> left_out_of(const plan::Plan& plan) {
  std::vector<std::string> texts;
  for (const auto& left : plan.left_out) texts.push_back(left.what + ": " + left.why);
  return texts;
}

}  // namespace

std::vector<Difference> compare(const Side& before, const Side& after) {
  std::vector<Difference> found;
  compare_entries(entries_of(before), entries_of(after), found);
  compare_sentences("left out", left_out_of(before.plan), left_out_of(after.plan), found);
  compare_sentences("note", before.plan.notes, after.plan.notes, found);
  if (found.empty() && before.plan != after.plan)
    found.push_back({"plan", {}, "something that its document does not show", "one", "another"});
  return found;
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
