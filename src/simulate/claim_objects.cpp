#include "simulate/claim_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.h"
#include "base/text.h"
#include "dra/quantity.h"
#include "simulate/tree.h"

namespace tranche::simulate {
namespace {

using config::Value;
using Parsed = nlohmann::json;

// Bounds of the API (staging/src/k8s.io/api/resource/v1/types.go).
constexpr std::size_t kMostEntries = 32;      // requests, selectors, constraints and configurations
constexpr std::size_t kMostAlternatives = 8;  // of firstAvailable
constexpr std::int64_t kMostCount = 1024;
constexpr std::size_t kMostPodClaims = 32;
constexpr std::size_t kLongestSelector = 10 << 10;
constexpr std::size_t kCost = 256;  // of an entry, beside its text
constexpr std::string_view kGroup = "resource.k8s.io/";
constexpr std::string_view kVersion = "resource.k8s.io/v1";
constexpr int kDeepestParameters = 16;
constexpr std::size_t kMostParameters = 2 * dra::kLargestParameters;  // texts and values of one configuration

void only(const Value& mapping, std::initializer_list<std::string_view> known) {
  if (!mapping.given() || mapping.node().kind != config::Node::Kind::kMapping) return;
  for (const auto& each : mapping.node().members) {
    if (std::ranges::find(known, each.key) != known.end()) continue;
    const std::string meant = did_you_mean(each.key, {known.begin(), known.end()});
    const std::string path = member(mapping, each.key).path();
    Value(each.value.get(), path, {mapping.place().source, each.line, each.column}, mapping.findings())
        .error("is not a field of " + std::string(kVersion),
               meant.empty() ? "write one of " + join(std::vector<std::string>(known.begin(), known.end()), ", ")
                             : "did you mean " + meant + "?");
  }
}

bool is_mapping(const Value& value, const char* what, const char* example) {
  if (value.given() && value.node().kind == config::Node::Kind::kMapping) return true;
  value.wrong_type(what, example);
  return false;
}

std::vector<Value> few(const Value& mapping, std::string_view key, std::size_t most = kMostEntries) {
  auto all = list_at(mapping, key);
  if (all.size() > most) {
    member(mapping, key).error(fmt::format("has {} entries, and the API allows {}", all.size(), most), "remove some");
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(most), all.end());
  }
  return all;
}

std::vector<std::string> words(const Value& mapping, std::string_view key) {
  std::vector<std::string> all;
  for (const Value& item : few(mapping, key)) {
    if (item.given() && item.node().kind == config::Node::Kind::kScalar)
      all.push_back(item.node().text);
    else
      item.wrong_type("text", "write one name");
  }
  return all;
}

std::string needed(const Value& mapping, std::string_view key, const std::string& remedy) {
  auto text = text_at(mapping, key);
  if (text.empty() && !member(mapping, key).given()) mapping.error("has no " + std::string(key), remedy);
  return text;
}

std::map<std::string, std::uint64_t> read_capacity(const Value& ask) {
  std::map<std::string, std::uint64_t> amounts;
  const Value capacity = mapping_at(ask, "capacity");
  only(capacity, {"requests"});
  const Value requests = mapping_at(capacity, "requests");
  if (requests.absent()) return amounts;
  for (const auto& each : requests.node().members) {
    const Value value = member(requests, each.key);
    if (!value.given() || value.node().kind != config::Node::Kind::kScalar) {
      value.wrong_type("a quantity", "write for example " + each.key + ": 6Gi");
      continue;
    }
    const auto amount = dra::parse_quantity(value.node().text);
    if (!amount)
      value.error("must be a quantity, but " + amount.error().what, "write for example 6Gi or \"20\"");
    else if (amounts.size() < kMostEntries)
      amounts[each.key] = *amount;
  }
  return amounts;
}

void read_constraint(const Value& item, ClaimSpec& spec) {
  if (!is_mapping(item, "a constraint", "write - matchAttribute: gpu.tranche.io/uuid")) return;
  only(item, {"requests", "matchAttribute", "distinctAttribute"});
  const std::string same = text_at(item, "matchAttribute"), distinct = text_at(item, "distinctAttribute");
  if (same.empty() == distinct.empty())
    return item.error("needs matchAttribute or distinctAttribute", "write one of them");
  ClaimConstraint constraint{words(item, "requests"), same.empty() ? distinct : same, same.empty()};
  if (!constraint.attribute.contains('/'))
    return item.error(in_quotes(constraint.attribute) + " has no domain",
                      "write for example gpu.tranche.io/" + constraint.attribute);
  for (const auto& name : constraint.requests)
    if (std::ranges::find(spec.requests, name.substr(0, name.find('/')), &ClaimRequest::name) == spec.requests.end())
      return item.error("names the request " + in_quotes(name) + ", which the claim does not have",
                        "write the name of a request");
  spec.constraints.push_back(std::move(constraint));
}

// A tree can be far larger than its text (aliases): what is beyond the bounds is null.
Parsed json_of_node(const config::Node& node, int depth, std::size_t& left) {
  if (left <= node.text.size() || depth == 0) {
    left = 0;
    return nullptr;
  }
  left -= node.text.size() + 1;
  Parsed made;
  switch (node.kind) {
    case config::Node::Kind::kNull:
      break;
    case config::Node::Kind::kScalar: {
      const bool plain = !node.quoted;
      const auto number = plain ? parse_signed(node.text) : std::nullopt;
      if (number)
        made = *number;
      else if (plain && (node.text == "true" || node.text == "false"))
        made = node.text == "true";
      else
        made = node.text;
      break;
    }
    case config::Node::Kind::kSequence:
      made = Parsed::array();
      for (const auto& item : node.items) made.push_back(json_of_node(*item, depth - 1, left));
      break;
    case config::Node::Kind::kMapping:
      made = Parsed::object();
      for (const auto& each : node.members) made[each.key] = json_of_node(*each.value, depth - 1, left);
      break;
  }
  return made;
}

template <class Map>
void put(Map& into, const std::string& key, typename Map::mapped_type value, const Value& object, const char* what) {
  const auto [known, is_new] = into.try_emplace(key, std::move(value));
  if (!is_new)
    object.error(fmt::format("is a second {} {}; the first is in line {}", what, key, known->second.place.line),
                 "remove one of them");
}

}  // namespace

std::map<std::string, ClassSpec> chart_classes(const std::string& driver) {
  std::map<std::string, ClassSpec> classes;
  const auto add = [&](const char* name, const char* type) {
    classes[name].selectors.push_back(
        parse_selector(fmt::format("device.driver == '{0}' && device.attributes['{0}'].type == '{1}'", driver, type)));
  };
  add("tranche-shared", "shared");
  add("tranche-gpu", "gpu");
  add("tranche-monitor", "monitor");
  add("tranche-mig", "mig");
  if (driver != kNvidiaDriver) return classes;
  add("gpu.nvidia.com", "gpu");
  add("mig.nvidia.com", "mig");
  classes["gpu.nvidia.com"].extended_resource = "nvidia.com/gpu";
  return classes;
}

bool ClaimReader::has_room(std::size_t bytes, const Value& at) {
  if (bytes <= room_) {
    room_ -= bytes;
    return true;
  }
  room_ = 0;
  if (!std::exchange(full_, true)) at.error("is beyond what is read of claims and classes", "give a part of them");
  return false;
}

std::vector<Selector> ClaimReader::read_selectors(const Value& mapping) {
  std::vector<Selector> all;
  for (const Value& item : few(mapping, "selectors")) {
    if (!is_mapping(item, "a selector", "write - cel: {expression: …}")) continue;
    only(item, {"cel"});
    const Value cel = mapping_at(item, "cel");
    only(cel, {"expression"});
    const std::string expression = text_at(cel, "expression");
    if (expression.empty())
      item.error("has no cel.expression", "write - cel: {expression: …}");
    else if (expression.size() > kLongestSelector)
      item.error(fmt::format("has {} bytes, and the API allows {}", expression.size(), kLongestSelector),
                 "write a shorter expression");
    else if (has_room(kCost + expression.size(), item))
      all.push_back(parse_selector(expression));
  }
  return all;
}

DeviceAsk ClaimReader::read_ask(const Value& value, bool one_of_several) {
  DeviceAsk ask;
  if (one_of_several) {
    only(value, {"name", "deviceClassName", "selectors", "allocationMode", "count", "tolerations", "capacity"});
    ask.name = needed(value, "name", "write name: and a word");
  } else {
    only(value, {"deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity"});
  }
  ask.device_class = needed(value, "deviceClassName", "write for example deviceClassName: tranche-shared");
  ask.selectors = read_selectors(value);
  ask.capacity = read_capacity(value);
  const Value mode = member(value, "allocationMode");
  const std::string word = text_at(value, "allocationMode");
  ask.all = word == "All";
  if (mode.given() && word != "All" && word != "ExactCount")
    mode.error("must be ExactCount or All, but is " + in_quotes(word), "write one of these words");
  if (const Value count = member(value, "count"); count.given()) {
    const auto number = count.integer();
    if (number && (*number < 1 || *number > kMostCount))
      count.error(fmt::format("must be from 1 to {}, but is {}", kMostCount, *number), "write for example 1");
    else if (number && ask.all)
      count.error("is given beside allocationMode: All, which the API server refuses", "remove one of them");
    else if (number)
      ask.count = static_cast<std::uint64_t>(*number);
  }
  if (const Value admin = member(value, "adminAccess"); admin.given())
    ask.admin_access = admin.boolean().value_or(false);
  return ask;
}

void ClaimReader::read_request(const Value& item, ClaimSpec& spec) {
  if (!is_mapping(item, "a request", "write - name: gpu and exactly:")) return;
  only(item, {"name", "exactly", "firstAvailable"});
  ClaimRequest request;
  request.name = needed(item, "name", "write name: and a word");
  const Value exactly = mapping_at(item, "exactly");
  const bool several = member(item, "firstAvailable").given();
  if (!exactly.absent()) request.either.push_back(read_ask(exactly, false));
  for (const Value& each : few(item, "firstAvailable", kMostAlternatives))
    if (is_mapping(each, "a subrequest", "write - name: first and deviceClassName:"))
      request.either.push_back(read_ask(each, true));
  if (exactly.absent() == !several)
    return item.error(several ? "has both exactly and firstAvailable" : "has neither exactly nor firstAvailable",
                      "write one of them");
  const bool known = std::ranges::find(spec.requests, request.name, &ClaimRequest::name) != spec.requests.end();
  if (known && !request.name.empty())
    return item.error("is a second request named " + in_quotes(request.name), "give one of them another name");
  if (!request.either.empty() && has_room(kCost * (1 + request.either.size()), item))
    spec.requests.push_back(std::move(request));
}

std::vector<OpaqueAsk> ClaimReader::read_configs(const Value& mapping, bool from_class) {
  std::vector<OpaqueAsk> all;
  std::size_t number = 0;
  for (const Value& item : few(mapping, "config")) {
    const auto field = fmt::format("{}[{}].opaque.parameters",
                                   from_class ? "the class's spec.config" : "spec.devices.config", number++);
    if (!is_mapping(item, "a configuration", "write - opaque: {driver: …, parameters: …}")) continue;
    if (from_class)
      only(item, {"opaque"});
    else
      only(item, {"requests", "opaque"});
    const Value opaque = mapping_at(item, "opaque");
    only(opaque, {"driver", "parameters"});
    OpaqueAsk ask;
    ask.driver = text_at(opaque, "driver");
    ask.config.from_class = from_class;
    ask.config.field = field;
    if (!from_class)
      for (const auto& name : words(item, "requests")) ask.config.requests.push_back(name);
    const Value parameters = mapping_at(opaque, "parameters");
    if (ask.driver.empty() || parameters.absent()) {
      item.error("needs opaque.driver and opaque.parameters", "write - opaque: {driver: …, parameters: {…}}");
      continue;
    }
    std::size_t left = kMostParameters;
    ask.config.parameters = json_text(json_of_node(parameters.node(), kDeepestParameters, left));
    if (ask.config.parameters.size() > dra::kLargestParameters || left == 0)
      parameters.error(fmt::format("is larger than the {} bytes that the API allows", dra::kLargestParameters),
                       "write a shorter configuration");
    else if (has_room(kCost + ask.config.parameters.size(), item))
      all.push_back(std::move(ask));
  }
  return all;
}

ClaimSpec ClaimReader::read_spec(const Value& object, const Value& spec) {
  ClaimSpec made;
  made.place = object.place();
  only(spec, {"devices"});
  const Value devices = mapping_at(spec, "devices");
  only(devices, {"requests", "constraints", "config"});
  for (const Value& item : few(devices, "requests")) read_request(item, made);
  if (made.requests.empty() && list_at(devices, "requests").empty())
    (spec.absent() ? object : spec).error("has no devices.requests", "write devices: and below it requests:");
  for (const Value& item : few(devices, "constraints")) read_constraint(item, made);
  made.configs = read_configs(devices, false);
  return made;
}

bool is_claim_object(std::string_view kind) {
  return kind == "ResourceClaim" || kind == "ResourceClaimTemplate" || kind == "DeviceClass";
}

void ClaimReader::read(std::string_view kind, const Value& object) {
  const Value version = member(object, "apiVersion");
  const std::string written = text_at(object, "apiVersion");
  if (!written.empty() && written != kVersion && (written != std::string(kGroup) + "v1beta2"))
    return version.error(in_quotes(written) + " is a version of these objects that is not read",
                         "write them as apiVersion: " + std::string(kVersion));
  const Value metadata = mapping_at(object, "metadata");
  const std::string name = text_at(metadata, "name");
  if (name.empty()) return object.error("has no metadata.name", "write metadata: and below it name: and a word");
  std::string key = text_at(metadata, "namespace");
  key = (key.empty() ? "default" : key) + "/" + name;
  const Value spec = mapping_at(object, "spec");
  if (kind == "ResourceClaim") return put(objects_.claims, key, read_spec(object, spec), object, "ResourceClaim");
  if (kind == "ResourceClaimTemplate") {
    only(spec, {"metadata", "spec"});
    return put(objects_.templates, key, read_spec(object, mapping_at(spec, "spec")), object, "ResourceClaimTemplate");
  }
  only(spec, {"selectors", "config", "extendedResourceName"});
  ClassSpec made{read_selectors(spec), text_at(spec, "extendedResourceName"), read_configs(spec, true),
                 text_at(metadata, "creationTimestamp"), object.place()};
  put(objects_.classes, name, std::move(made), object, "DeviceClass");
}

std::vector<PodClaim> read_pod_claims(const Value& pod_spec) {
  std::vector<PodClaim> claims;
  for (const Value& item : few(pod_spec, "resourceClaims", kMostPodClaims)) {
    if (!is_mapping(item, "a claim of the pod", "write - name: gpu and resourceClaimTemplateName:")) continue;
    only(item, {"name", "resourceClaimName", "resourceClaimTemplateName"});
    PodClaim claim{needed(item, "name", "write name: and a word"), text_at(item, "resourceClaimName"),
                   text_at(item, "resourceClaimTemplateName")};
    if (claim.claim.empty() == claim.from_template.empty())
      item.error("needs resourceClaimName or resourceClaimTemplateName", "write one of them");
    else if (std::ranges::find(claims, claim.name, &PodClaim::name) != claims.end())
      item.error("is a second claim named " + in_quotes(claim.name), "give one of them another name");
    else
      claims.push_back(std::move(claim));
  }
  return claims;
}

std::vector<ClaimUse> read_claim_uses(const Value& container, const std::vector<PodClaim>& claims) {
  std::vector<ClaimUse> uses;
  for (const Value& item : few(mapping_at(container, "resources"), "claims", kMostPodClaims)) {
    if (!is_mapping(item, "a claim", "write - name: and the name of one of the pod's resourceClaims")) continue;
    only(item, {"name", "request"});
    ClaimUse use{needed(item, "name", "write name: and a word"), text_at(item, "request")};
    if (use.name.empty()) continue;
    if (std::ranges::find(claims, use.name, &PodClaim::name) == claims.end())
      item.error("names " + in_quotes(use.name) +
                     ", which is not among the pod's resourceClaims, and the API server "
                     "refuses the pod",
                 "write the name of one of them");
    else
      uses.push_back(std::move(use));
  }
  return uses;
}

}  // namespace tranche::simulate
