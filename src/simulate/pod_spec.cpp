#include "simulate/pod_spec.h"

#include <fmt/format.h>

#include "base/quantity.h"
#include "base/text.h"
#include "simulate/object_tree.h"

namespace tranche::simulate {
namespace {

using config::Value;

constexpr std::size_t kMostContainers = 1000;  // of one pod
constexpr std::size_t kMostClaims = 32;        // of one pod: the API's bound
constexpr std::size_t kMostResources = 200;    // of one container

// "nvidia.com/gpu" is, "cpu", "hugepages-2Mi" and "attachable-volumes-csi.kubernetes.io/x" are not.
bool is_extended(std::string_view name) {
  const auto slash = name.find('/');
  return slash != std::string_view::npos && !name.substr(0, slash).ends_with("kubernetes.io");
}

std::map<std::string, std::uint64_t> read_amounts(const Value& amounts) {
  std::map<std::string, std::uint64_t> counts;
  if (amounts.absent()) return counts;
  for (const auto& each : amounts.node().members) {
    if (!is_extended(each.key)) continue;
    const Value value = member(amounts, each.key);
    if (!value.given() || value.node().kind != config::Node::Kind::kScalar) {
      value.wrong_type("a whole number of devices", "write for example " + each.key + ": 1");
      continue;
    }
    const auto count = parse_count(value.node().text);
    if (!count) {
      value.error("must be a whole number of devices, but " + count.error().what, "write for example 1");
    } else if (counts.size() < kMostResources) {
      counts[each.key] = *count;
    } else {
      value.error(fmt::format("is one of more than {} resources of this container", kMostResources), "remove some");
      return counts;
    }
  }
  return counts;
}

// The API server lets extended resources be asked for by limits alone, or by both alike.
std::map<std::string, std::uint64_t> read_resources(const Value& container) {
  const Value resources = mapping_at(container, "resources");
  auto limits = read_amounts(mapping_at(resources, "limits"));
  const Value requests = mapping_at(resources, "requests");
  for (const auto& [name, count] : read_amounts(requests)) {
    const Value value = member(requests, name);
    const auto limit = limits.find(name);
    if (limit == limits.end())
      value.error("is asked for under requests only, which the API server refuses for an extended resource",
                  fmt::format("write {}: {} under resources.limits", name, count));
    else if (limit->second != count)
      value.error(fmt::format("is {}, but its limit is {}, which the API server refuses", count, limit->second),
                  "write the same number in both, or the limit only");
  }
  std::erase_if(limits, [](const auto& entry) { return entry.second == 0; });
  return limits;
}

void read_claims(const Value& pod_spec, std::vector<std::string>& claims) {
  for (const Value& item : list_at(pod_spec, "resourceClaims")) {
    if (claims.size() == kMostClaims)
      return item.error(fmt::format("is one of more than {} claims of one pod", kMostClaims), "remove some");
    claims.push_back(text_at(item, "name"));
    if (claims.back().empty()) item.error("is a claim without a name", "write name: and a word");
  }
}

void read_list(const Value& pod_spec, std::string_view key, std::vector<ContainerAsk>& containers) {
  for (const Value& item : list_at(pod_spec, key)) {
    if (containers.size() == kMostContainers)
      return item.error(fmt::format("is one of more than {} containers of one pod", kMostContainers), "remove some");
    if (!item.given() || item.node().kind != config::Node::Kind::kMapping) {
      item.wrong_type("a container", "write for example - name: main");
      continue;
    }
    ContainerAsk container{text_at(item, "name"), Role::kMain, read_resources(item)};
    if (key == "initContainers")
      container.role = text_at(item, "restartPolicy") == "Always" ? Role::kSidecar : Role::kInit;
    if (container.name.empty()) item.error("is a container without a name", "write name: and a word");
    containers.push_back(std::move(container));
  }
}

}  // namespace

void read_pod_spec(const Value& pod_spec, PodAsk& pod) {
  read_claims(pod_spec, pod.claims);
  auto& containers = pod.containers;
  read_list(pod_spec, "initContainers", containers);
  const auto before_main = containers.size();
  read_list(pod_spec, "containers", containers);
  const Value list = member(pod_spec, "containers");
  if (containers.size() == before_main && (!list.given() || list.node().kind == config::Node::Kind::kSequence))
    pod_spec.error("has no containers", "write containers: and below it - name: main");
}

}  // namespace tranche::simulate
