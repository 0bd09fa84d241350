#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "config/document/document.h"
#include "config/document/fields.h"
#include "simulate/land.h"

namespace tranche::simulate {
namespace {

using NodeKind = config::Node::Kind;
using config::Value;

constexpr std::size_t kMostContainers = 1000;  // of one pod
constexpr std::size_t kMostClaims = 32;        // of one pod: the API's bound
constexpr std::size_t kMostResources = 200;    // of one container

// An object of Kubernetes has only a few fields of interest. A value of a wrong type is reported once and then counts
// as absent.
Value mapping_at(const Value& mapping, std::string_view key) {
  return mapping.member(key).of(NodeKind::kMapping, "a mapping", "write its fields below it, indented");
}

std::vector<Value> list_at(const Value& mapping, std::string_view key) {
  return mapping.member(key).of(NodeKind::kSequence, "a list", "begin each entry with a dash").items();
}

std::string text_at(const Value& mapping, std::string_view key) {
  return mapping.member(key).of(NodeKind::kScalar, "text", "write one word").node().text;
}

// "nvidia.com/gpu" is, "cpu", "hugepages-2Mi" and "attachable-volumes-csi.kubernetes.io/x" are not.
bool is_extended(std::string_view name) {
  const auto slash = name.find('/');
  return slash != std::string_view::npos && !name.substr(0, slash).ends_with("kubernetes.io");
}

std::map<std::string, std::uint64_t> read_amounts(const Value& amounts) {
  std::map<std::string, std::uint64_t> counts;
  for (const auto& each : amounts.node().members) {
    if (!is_extended(each.key)) continue;
    const Value value = amounts.member(each.key);
    if (!value.given() || !value.is(NodeKind::kScalar)) {
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
    const Value value = requests.member(name);
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
    if (!item.is(NodeKind::kMapping)) {
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

// The containers and claims of a pod and what they ask for. Every fault that the API server would refuse the pod for,
// as far as extended resources are concerned, is a Problem.
void read_pod_spec(const Value& pod_spec, PodAsk& pod) {
  read_claims(pod_spec, pod.claims);
  auto& containers = pod.containers;
  read_list(pod_spec, "initContainers", containers);
  const auto before_main = containers.size();
  read_list(pod_spec, "containers", containers);
  const Value list = pod_spec.member("containers");
  if (containers.size() == before_main && (!list.given() || list.is(NodeKind::kSequence)))
    pod_spec.error("has no containers", "write containers: and below it - name: main");
}

constexpr std::size_t kMostObjects = 100'000;
constexpr std::size_t kMostContainersInAll = 100'000;
constexpr std::array<std::string_view, 8> kKinds{"Pod",         "Deployment", "ReplicaSet", "ReplicationController",
                                                 "StatefulSet", "DaemonSet",  "Job",        "CronJob"};

constexpr std::array<std::string_view, 5> kGroups{"apps", "autoscaling", "batch", "extensions", "policy"};

struct Object {
  std::string api_version;
  std::string kind;
  Value value;

  // By its group; a text without apiVersion counts as Kubernetes' own.
  bool is_built_in() const {
    const auto slash = api_version.find('/');
    const std::string_view group(api_version.data(), slash == std::string::npos ? 0 : slash);
    return group.empty() || group.ends_with(".k8s.io") || std::ranges::find(kGroups, group) != kGroups.end();
  }
  bool makes_pods() const { return is_built_in() && std::ranges::find(kKinds, kind) != kKinds.end(); }
};

std::string namespace_of(const Value& object) {
  const std::string name = text_at(mapping_at(object, "metadata"), "namespace");
  return name.empty() ? "default" : name;
}

class Reader {
 public:
  explicit Reader(std::string_view source) { findings_.source = source; }

  void read(const std::vector<config::Document>& documents) {
    for (const auto& document : documents) {
      if (document.problem) {
        findings_.problems.add(*document.problem);
      } else {
        const Place place{findings_.source, document.root->line, document.root->column};
        take_apart({document.root.get(), "", place, findings_}, nullptr);
      }
    }
    find_owners();
    for (const Object& object : objects_) make_pods(object);
  }

  PodsRead take() { return {std::move(pods_), std::move(unknown_), findings_.problems.take()}; }

 private:
  // A list of the API server has its items' kind only in its own ("PodList"), and a List holds no Lists.
  void take_apart(const Value& value, const Object* list) {
    if (!value.is(NodeKind::kMapping))
      return value.wrong_type("an object of Kubernetes", "write kind: Pod, metadata: and spec:");
    Object object{text_at(value, "apiVersion"), text_at(value, "kind"), value};
    if (object.kind.empty() && list != nullptr) object = {list->api_version, list->kind, value};
    if (object.kind.empty()) return value.error("has no kind", "write kind: Pod, or the workload that it is");
    if (!object.kind.ends_with("List") || (!object.is_built_in() && value.member("items").absent())) {
      if (objects_.size() == kMostObjects && !full_) {
        full_ = true;
        value.error(fmt::format("is one of more than {} objects", kMostObjects), "give a part of them");
      }
      if (!full_) objects_.push_back(std::move(object));
      return;
    }
    if (list != nullptr) return value.error("is a list within a list", "write its items into the outer one");
    object.kind.resize(object.kind.size() - 4);
    for (const Value& item : list_at(value, "items")) take_apart(item, &object);
  }

  void find_owners() {
    for (const Object& object : objects_) {
      if (!object.makes_pods()) continue;
      for (const Value& owner : list_at(mapping_at(object.value, "metadata"), "ownerReferences"))
        owners_.insert(
            fmt::format("{}/{}/{}", namespace_of(object.value), text_at(owner, "kind"), text_at(owner, "name")));
    }
  }

  void make_pods(const Object& object) {
    if (object.makes_pods() && object.kind == "Pod") return make_pod(object.value);
    const std::string name = text_at(mapping_at(object.value, "metadata"), "name");
    if (owners_.contains(fmt::format("{}/{}/{}", namespace_of(object.value), object.kind, name))) return;
    if (!object.makes_pods()) return name_unknown(object, name);
    const Value spec = mapping_at(object.value, "spec");
    if (object.kind != "CronJob") return make_replicas(object, spec, count_of(object.kind, spec));
    const Value job = mapping_at(mapping_at(spec, "jobTemplate"), "spec");
    make_replicas(object, job, count_of("Job", job));
  }

  // Of Kubernetes' own kinds only a misspelled workload makes pods.
  void name_unknown(const Object& object, const std::string& name) {
    std::string meant;
    if (object.is_built_in()) {
      meant = did_you_mean(object.kind, {kKinds.begin(), kKinds.end()});
      if (meant.empty() && !mapping_at(object.value, "spec").member("template").given()) return;
    }
    const Value kind = object.value.member("kind");
    const std::string group = object.api_version.empty() ? "" : " of " + object.api_version;
    (kind.absent() ? object.value : kind)
        .warn(fmt::format("is {}{}, which Tranche does not know: its pods, if any, are not predicted",
                          in_quotes(object.kind), group),
              meant.empty() ? "if it makes pods, write them as a Deployment or Job" : "did you mean " + meant + "?");
    unknown_.push_back({object.api_version, object.kind, namespace_of(object.value), name});
  }

  void make_pod(const Value& object) {
    const Value metadata = mapping_at(object, "metadata");
    const Value spec = mapping_at(object, "spec");
    PodAsk pod{namespace_of(object), text_at(metadata, "name"), text_at(spec, "nodeName")};
    pod.created = text_at(metadata, "creationTimestamp");
    pod.place = object.place();
    if (const std::string prefix = text_at(metadata, "generateName"); pod.name.empty() && !prefix.empty())
      pod.name = fmt::format("{}{}", prefix, generated_[pod.pod_namespace + "/" + prefix]++);
    if (pod.name.empty()) return object.error("has no metadata.name", "write metadata: and below it name: and a word");
    if (spec.absent()) return object.error("has no spec", "write spec: and below it containers:");
    const std::string phase = text_at(mapping_at(object, "status"), "phase");
    pod.over = phase == "Succeeded" || phase == "Failed";
    read_pod_spec(spec, pod);
    add(std::move(pod));
  }

  void make_replicas(const Object& object, const Value& maker, std::uint64_t count) {
    const Value metadata = mapping_at(object.value, "metadata");
    const Value spec = mapping_at(mapping_at(maker, "template"), "spec");
    const std::string name = text_at(metadata, "name");
    if (name.empty())
      return object.value.error("has no metadata.name", "write metadata: and below it name: and a word");
    if (spec.absent())
      return (maker.absent() ? object.value : maker)
          .error("has no template.spec", "write the pod's spec below template:");
    PodAsk pod{namespace_of(object.value), "", text_at(spec, "nodeName")};
    read_pod_spec(spec, pod);
    pod.place = object.value.place();
    for (std::uint64_t i = 0; i < count; ++i) {
      pod.name = fmt::format("{}-{}", name, i);
      if (!add(pod)) return;
    }
  }

  // 0 if it is wrong, which is reported.
  std::uint64_t count_at(const Value& spec, std::string_view key, std::uint64_t otherwise) {
    const Value value = spec.member(key);
    if (!value.given()) return otherwise;
    return static_cast<std::uint64_t>(value.integer(0, kMostPods, "write for example 1").value_or(0));
  }

  // How many pods there are at a time.
  std::uint64_t count_of(const std::string& kind, const Value& spec) {
    if (kind == "DaemonSet") return 1;  // on a node
    if (kind != "Job") return count_at(spec, "replicas", 1);
    if (text_at(spec, "suspend") == "true") return 0;
    const auto parallelism = count_at(spec, "parallelism", 1);
    return std::min(parallelism, count_at(spec, "completions", kMostPods));
  }

  // false: reported
  bool add(PodAsk pod) {
    if (full_) return false;
    const auto report = [&](std::string what, std::string remedy) {
      findings_.problems.add({Severity::kError, pod.place, {}, std::move(what), std::move(remedy)});
      return false;
    };
    containers_ += pod.containers.size();
    if (pods_.size() == kMostPods || containers_ > kMostContainersInAll) {
      full_ = true;
      return report(fmt::format("is beyond {} pods or {} containers", kMostPods, kMostContainersInAll),
                    "give a part of them");
    }
    const auto [known, is_new] = names_.try_emplace(pod.full_name(), pod.place);
    if (!is_new)
      return report(fmt::format("there is a pod {} in line {} already", pod.full_name(), known->second.line),
                    "give one of them another name or namespace");
    pods_.push_back(std::move(pod));
    return true;
  }

  config::Findings findings_;
  std::vector<Object> objects_;
  std::set<std::string> owners_;  // "default/Deployment/web": has pods of its own in the text
  std::map<std::string, Place> names_;
  std::map<std::string, std::uint64_t> generated_;
  std::vector<PodAsk> pods_;
  std::vector<UnknownObject> unknown_;
  std::size_t containers_ = 0;
  bool full_ = false;
};

PodsRead read(std::string_view text, std::string_view source) {
  const auto documents = config::read_documents(text, source, kLargestPodsFile);  // holds what is read from it
  Reader reader(source);
  reader.read(documents);
  return reader.take();
}

}  // namespace

PodsRead read_pods(std::string_view text, std::string_view source) {
  PodsRead result = read(text, source);
  if (result.pods.empty() && result.unknown.empty() && !has_error(result.problems))
    result.problems.push_back(error_in(std::string(source), "holds no pods",
                                       "write kind: Pod, a workload such as kind: Deployment, or a List of them"));
  return result;
}

PodsRead read_pod_page(std::string_view body, std::string_view source) {
  return read(body, source);
}

}  // namespace tranche::simulate
