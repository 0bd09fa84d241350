#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>

#include "base/text.h"
#include "standins/kubelet/pods.h"
#include "standins/kubelet/resource_name.h"
#include "standins/kubelet/yaml_reader.h"

namespace tranche::sim {
namespace {

constexpr std::size_t kLargestFile = 1 << 20;
constexpr std::uint64_t kMostPods = 1000;  // per file
constexpr std::uint64_t kMostDevices = 1'000'000;

bool is_env_name(std::string_view name) {
  return !name.empty() && name.find('=') == std::string_view::npos &&
         std::ranges::all_of(name, [](char c) { return c > ' ' && c < '\x7f'; });
}

// Placeholder of a field reference in an env entry, replaced later: the pod's own name is not known yet.
constexpr std::string_view kNameMark = "\x01name\x01";
constexpr std::string_view kNamespaceMark = "\x01namespace\x01";

class PodReader {
 public:
  PodReader(const std::string& source, std::vector<Problem>& problems) : in_(source, problems), problems_(problems) {}

  // Appends the pods of one document, or only Problems.
  void read(const YAML::Node& document, std::vector<PodSpec>& pods);

 private:
  void unroll(const YAML::Node& spec, const std::string& kind, std::string name, PodSpec pod,
              std::vector<PodSpec>& pods);
  std::string read_metadata(const YAML::Node& document, const std::string& path, PodSpec& pod, bool name_needed);
  void read_pod_spec(const YAML::Node& spec, const std::string& path, bool job, PodSpec& pod);
  void read_restart(const YAML::Node& spec, const std::string& path, bool job, PodSpec& pod);
  PodContainer read_container(const YAML::Node& node, const std::string& path);
  void read_env(const YAML::Node& list, const std::string& path, PodContainer& container);
  std::optional<std::string> read_field_reference(const YAML::Node& value_from, const std::string& path);
  void read_resources(const YAML::Node& node, const std::string& path, PodContainer& container);
  std::map<std::string, std::uint64_t> read_amounts(const YAML::Node& map, const std::string& path);

  PodsYamlReader in_;
  std::vector<Problem>& problems_;
  bool deployment_ = false;
};

void fill_in(std::string& text, std::string_view mark, const std::string& with) {
  for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at + with.size())) {
    text.replace(at, mark.size(), with);
  }
}

PodSpec named(PodSpec pod, std::string name) {
  pod.name = std::move(name);
  for (PodContainer& container : pod.containers) {
    for (auto& [variable, value] : container.env) {
      fill_in(value, kNameMark, pod.name);
      fill_in(value, kNamespaceMark, pod.pod_namespace);
    }
  }
  return pod;
}

void PodReader::read(const YAML::Node& document, std::vector<PodSpec>& pods) {
  const auto errors = [&] { return std::ranges::count(problems_, Severity::kError, &Problem::severity); };
  const auto before = errors();
  if (!in_.is_map(document, "")) return;
  in_.check_keys(document, "", {"apiVersion", "kind", "metadata", "spec"}, {"status"});
  const YAML::Node kind_node = PodsYamlReader::get(document, "kind");
  if (!kind_node.IsDefined()) {
    in_.error(document, "kind", "is missing", "write kind: Pod, kind: Deployment or kind: Job");
    return;
  }
  const std::string kind = in_.text(kind_node, "kind").value_or("");
  const bool bare = kind == "Pod";
  if (!bare && kind != "Deployment" && kind != "Job") {
    in_.error(kind_node, "kind", fmt::format("{} is not a kind that runs here", in_quotes(kind)),
              "write Pod, Deployment or Job, or put the object into another file");
    return;
  }
  deployment_ = kind == "Deployment";
  PodSpec pod;
  const std::string name = read_metadata(document, "metadata", pod, true);
  const YAML::Node spec = PodsYamlReader::get(document, "spec");
  if (!spec.IsDefined()) {
    in_.error(document, "spec", "is missing", "write spec: with the containers below it");
    return;
  }
  if (!in_.is_map(spec, "spec")) return;
  if (bare) {
    read_pod_spec(spec, "spec", false, pod);
    if (errors() == before) pods.push_back(named(std::move(pod), name));
    return;
  }
  const YAML::Node pod_template = PodsYamlReader::get(spec, "template");
  if (!pod_template.IsDefined()) {
    in_.error(spec, "spec.template", "is missing", "write the pod's metadata and spec below template:");
    return;
  }
  if (!in_.is_map(pod_template, "spec.template")) return;
  in_.check_keys(pod_template, "spec.template", {"metadata", "spec"}, {});
  read_metadata(pod_template, "spec.template.metadata", pod, false);
  const YAML::Node pod_spec = PodsYamlReader::get(pod_template, "spec");
  if (!pod_spec.IsDefined()) {
    in_.error(pod_template, "spec.template.spec", "is missing", "write the containers below spec.template.spec");
    return;
  }
  if (!in_.is_map(pod_spec, "spec.template.spec")) return;
  read_pod_spec(pod_spec, "spec.template.spec", kind == "Job", pod);
  pod.owner = kind + "/" + name;
  std::vector<PodSpec> unrolled;
  unroll(spec, kind, name, std::move(pod), unrolled);
  if (pods.size() + unrolled.size() > kMostPods) {
    in_.error(spec, "spec", fmt::format("brings the pods of this file above {}", kMostPods), "write fewer of them");
  }
  if (errors() == before) pods.insert(pods.end(), unrolled.begin(), unrolled.end());
}

void PodReader::unroll(const YAML::Node& spec, const std::string& kind, std::string name, PodSpec pod,
                       std::vector<PodSpec>& pods) {
  const char* field = kind == "Job" ? "completions" : "replicas";
  if (kind == "Job") {
    in_.check_keys(spec, "spec", {"template", "completions"},
                   {"parallelism", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished", "suspend",
                    "selector", "completionMode", "manualSelector", "podFailurePolicy"});
  } else {
    in_.check_keys(
        spec, "spec", {"template", "replicas"},
        {"selector", "strategy", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds", "paused"});
  }
  std::uint64_t count = 1;
  if (const YAML::Node node = PodsYamlReader::get(spec, field); node.IsDefined()) {
    const auto number = in_.whole_number(node, fmt::format("spec.{}", field), kMostPods);
    if (!number) return;
    count = *number;
  }
  for (std::uint64_t i = 0; i < count; ++i) pods.push_back(named(pod, fmt::format("{}-{}", name, i)));
}

std::string PodReader::read_metadata(const YAML::Node& document, const std::string& path, PodSpec& pod,
                                     bool name_needed) {
  const YAML::Node metadata = PodsYamlReader::get(document, "metadata");
  std::string name;
  if (metadata.IsDefined()) {
    if (!in_.is_map(metadata, path)) return name;
    in_.check_keys(metadata, path, {"name", "namespace", "labels"},
                   {"annotations", "uid", "creationTimestamp", "resourceVersion", "generation", "finalizers",
                    "ownerReferences", "managedFields"});
    if (const YAML::Node node = PodsYamlReader::get(metadata, "name"); node.IsDefined()) {
      name = in_.text(node, path + ".name").value_or("");
      if (!is_dns_subdomain(name)) {
        in_.error(node, path + ".name", fmt::format("{} is not a name for a Kubernetes object", in_quotes(name)),
                  "use lower-case letters, digits, \"-\" and \".\"");
      }
    }
    if (const YAML::Node node = PodsYamlReader::get(metadata, "namespace"); node.IsDefined()) {
      pod.pod_namespace = in_.text(node, path + ".namespace").value_or("");
      if (!is_dns_label(pod.pod_namespace)) {
        in_.error(node, path + ".namespace", fmt::format("{} is not a namespace", in_quotes(pod.pod_namespace)),
                  "use lower-case letters, digits and \"-\"");
      }
    }
    if (const YAML::Node node = PodsYamlReader::get(metadata, "labels"); node.IsDefined()) {
      if (in_.is_map(node, path + ".labels")) {
        for (const auto& entry : node) {
          if (!entry.first.IsScalar()) continue;
          const std::string& key = entry.first.Scalar();
          if (auto value = in_.text(entry.second, path + ".labels." + key)) pod.labels[key] = std::move(*value);
        }
      }
    }
  }
  if (name.empty() && name_needed && !PodsYamlReader::get(metadata.IsMap() ? metadata : document, "name").IsDefined()) {
    in_.error(metadata.IsDefined() ? metadata : document, path + ".name", "is missing", "write for example name: one");
  }
  return name;
}

void PodReader::read_pod_spec(const YAML::Node& spec, const std::string& path, bool job, PodSpec& pod) {
  in_.check_keys(spec, path, {"containers", "restartPolicy", "terminationGracePeriodSeconds", "initContainers"},
                 {"activeDeadlineSeconds",
                  "affinity",
                  "automountServiceAccountToken",
                  "dnsConfig",
                  "dnsPolicy",
                  "enableServiceLinks",
                  "hostAliases",
                  "hostIPC",
                  "hostNetwork",
                  "hostPID",
                  "hostUsers",
                  "hostname",
                  "imagePullSecrets",
                  "nodeName",
                  "nodeSelector",
                  "os",
                  "overhead",
                  "preemptionPolicy",
                  "priority",
                  "priorityClassName",
                  "readinessGates",
                  "resourceClaims",
                  "resources",
                  "runtimeClassName",
                  "schedulerName",
                  "schedulingGates",
                  "securityContext",
                  "serviceAccount",
                  "serviceAccountName",
                  "setHostnameAsFQDN",
                  "shareProcessNamespace",
                  "subdomain",
                  "tolerations",
                  "topologySpreadConstraints",
                  "volumes"});
  if (const YAML::Node node = PodsYamlReader::get(spec, "initContainers"); node.IsDefined()) {
    in_.error(node, path + ".initContainers", "are not run by this stand-in",
              "make the step part of a container's command");
  }
  read_restart(spec, path + ".restartPolicy", job, pod);
  if (const YAML::Node node = PodsYamlReader::get(spec, "terminationGracePeriodSeconds"); node.IsDefined()) {
    pod.grace_seconds =
        static_cast<int>(in_.whole_number(node, path + ".terminationGracePeriodSeconds", 86400).value_or(30));
  }
  const YAML::Node containers = PodsYamlReader::get(spec, "containers");
  if (!containers.IsDefined()) {
    in_.error(spec, path + ".containers", "is missing", "write at least one container");
    return;
  }
  if (!in_.is_list(containers, path + ".containers")) return;
  if (containers.size() == 0) {
    in_.error(containers, path + ".containers", "is empty", "write at least one container");
  }
  for (std::size_t i = 0; i < containers.size(); ++i) {
    const std::string here = fmt::format("{}.containers[{}]", path, i);
    PodContainer container = read_container(containers[i], here);
    if (!container.name.empty() &&
        std::ranges::find(pod.containers, container.name, &PodContainer::name) != pod.containers.end()) {
      in_.error(containers[i], here + ".name", fmt::format("{} is taken by another container", container.name),
                "give each container of a pod a name of its own");
    }
    pod.containers.push_back(std::move(container));
  }
}

void PodReader::read_restart(const YAML::Node& spec, const std::string& path, bool job, PodSpec& pod) {
  const YAML::Node node = PodsYamlReader::get(spec, "restartPolicy");
  if (!node.IsDefined()) {
    if (job) {
      in_.error(spec, path, "is missing: a Job's pods are not restarted always",
                "write restartPolicy: Never or restartPolicy: OnFailure");
    }
    return;
  }
  const std::string policy = in_.text(node, path).value_or("");
  if (policy == "Always" && !job) {
    pod.restart = RestartPolicy::kAlways;
  } else if (policy == "OnFailure" && !deployment_) {
    pod.restart = RestartPolicy::kOnFailure;
  } else if (policy == "Never" && !deployment_) {
    pod.restart = RestartPolicy::kNever;
  } else {
    in_.error(node, path, fmt::format("{} is not possible here", in_quotes(policy)),
              job           ? "write Never or OnFailure"
              : deployment_ ? "write Always, or leave it out"
                            : "write Always, OnFailure or Never");
  }
}

PodContainer PodReader::read_container(const YAML::Node& node, const std::string& path) {
  PodContainer container;
  if (!in_.is_map(node, path)) return container;
  in_.check_keys(
      node, path, {"name", "command", "args", "env", "resources"},
      {"image", "imagePullPolicy", "envFrom", "lifecycle", "livenessProbe", "ports", "readinessProbe", "resizePolicy",
       "restartPolicy", "securityContext", "startupProbe", "stdin", "stdinOnce", "terminationMessagePath",
       "terminationMessagePolicy", "tty", "volumeDevices", "volumeMounts", "workingDir"});
  const YAML::Node name = PodsYamlReader::get(node, "name");
  if (!name.IsDefined()) {
    in_.error(node, path + ".name", "is missing", "write for example name: main");
  } else {
    container.name = in_.text(name, path + ".name").value_or("");
    if (!is_dns_label(container.name)) {
      in_.error(name, path + ".name", fmt::format("{} is not a container name", in_quotes(container.name)),
                "use lower-case letters, digits and \"-\", at most 63");
    }
  }
  container.command = in_.texts(PodsYamlReader::get(node, "command"), path + ".command");
  container.args = in_.texts(PodsYamlReader::get(node, "args"), path + ".args");
  if (container.command.empty() || container.command.front().empty()) {
    in_.error(node, path + ".command", "is missing: there is no image here to take the program from",
              "write for example command: [\"sleep\", \"60\"]");
  }
  read_env(PodsYamlReader::get(node, "env"), path + ".env", container);
  read_resources(PodsYamlReader::get(node, "resources"), path + ".resources", container);
  return container;
}

void PodReader::read_env(const YAML::Node& list, const std::string& path, PodContainer& container) {
  if (!list.IsDefined() || !in_.is_list(list, path)) return;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string here = fmt::format("{}[{}]", path, i);
    const YAML::Node entry = list[i];
    if (!in_.is_map(entry, here)) continue;
    in_.check_keys(entry, here, {"name", "value", "valueFrom"}, {});
    const YAML::Node name_node = PodsYamlReader::get(entry, "name");
    if (!name_node.IsDefined()) {
      in_.error(entry, here + ".name", "is missing", "write the variable's name");
      continue;
    }
    const auto name = in_.text(name_node, here + ".name");
    if (!name) continue;
    if (!is_env_name(*name)) {
      in_.error(name_node, here + ".name", fmt::format("{} is not the name of a variable", in_quotes(*name)),
                "use printable characters other than \"=\" and blanks");
      continue;
    }
    std::optional<std::string> value = "";
    if (const YAML::Node node = PodsYamlReader::get(entry, "value"); node.IsDefined()) {
      value = in_.text(node, here + ".value");
    } else if (const YAML::Node from = PodsYamlReader::get(entry, "valueFrom"); from.IsDefined()) {
      value = read_field_reference(from, here + ".valueFrom");
    }
    if (value) container.env.emplace_back(*name, std::move(*value));
  }
}

std::optional<std::string> PodReader::read_field_reference(const YAML::Node& value_from, const std::string& path) {
  if (!in_.is_map(value_from, path)) return std::nullopt;
  const YAML::Node reference = PodsYamlReader::get(value_from, "fieldRef");
  const YAML::Node field = reference.IsMap() ? PodsYamlReader::get(reference, "fieldPath") : YAML::Node();
  if (field.IsScalar() && field.Scalar() == "metadata.name") return std::string(kNameMark);
  if (field.IsScalar() && field.Scalar() == "metadata.namespace") return std::string(kNamespaceMark);
  in_.error(value_from, path, "can be filled in here from the pod's name or namespace only",
            "write fieldRef: {fieldPath: metadata.name} or metadata.namespace, or write a value");
  return std::nullopt;
}

void PodReader::read_resources(const YAML::Node& node, const std::string& path, PodContainer& container) {
  if (!node.IsDefined() || node.IsNull() || !in_.is_map(node, path)) return;
  in_.check_keys(node, path, {"limits", "requests"}, {"claims"});
  const YAML::Node limits_node = PodsYamlReader::get(node, "limits");
  const YAML::Node requests_node = PodsYamlReader::get(node, "requests");
  container.resources = read_amounts(limits_node, path + ".limits");
  for (const auto& [resource, amount] : read_amounts(requests_node, path + ".requests")) {
    const auto limit = container.resources.find(resource);
    if (limit == container.resources.end()) {
      in_.error(requests_node, path + ".requests." + resource, "has no limit: devices cannot be overcommitted",
                fmt::format("write limits: {{\"{}\": {}}}", resource, amount));
    } else if (limit->second != amount) {
      in_.error(requests_node, path + ".requests." + resource,
                fmt::format("is {}, but its limit is {}", amount, limit->second),
                "write the same number twice, or the limit alone");
    }
  }
}

std::map<std::string, std::uint64_t> PodReader::read_amounts(const YAML::Node& map, const std::string& path) {
  std::map<std::string, std::uint64_t> result;
  if (!map.IsDefined() || map.IsNull() || !in_.is_map(map, path)) return result;
  for (const auto& entry : map) {
    if (!entry.first.IsScalar()) continue;
    const std::string& resource = entry.first.Scalar();
    if (resource.find('/') == std::string::npos) continue;  // cpu, memory …: this node has enough
    if (!is_extended_resource(resource)) {
      in_.error(entry.first, path + "." + resource, "is not a resource that a device plugin can offer",
                "write for example nvidia.com/gpu");
      continue;
    }
    if (const auto amount = in_.whole_number(entry.second, path + "." + resource, kMostDevices)) {
      result[resource] = *amount;
    }
  }
  return result;
}

Problem syntax_problem(const std::string& source, const YAML::Exception& problem) {
  Place place{.source = source, .line = 0, .column = 0};
  if (!problem.mark.is_null()) {
    place.line = problem.mark.line + 1;
    place.column = problem.mark.column + 1;
  }
  return {.severity = Severity::kError,
          .place = std::move(place),
          .path = "",
          .what = "this is not YAML: " + problem.msg,
          .remedy = "mend the line; indent with blanks, two for each level"};
}

// yaml-cpp does not get past a character that nothing can begin with (",0"): it returns empty documents there
// endlessly.
struct Begins : YAML::EventHandler {
  void OnDocumentStart(const YAML::Mark& mark) override { at = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
  YAML::Mark at;
};

std::optional<YAML::Mark> where_it_stands_still(std::string_view yaml) {
  std::istringstream text{std::string(yaml)};
  YAML::Parser parser(text);
  Begins begins;
  for (int before = -1; parser.HandleNextDocument(begins); before = begins.at.pos) {
    if (begins.at.pos <= before) return begins.at;
  }
  return std::nullopt;
}

}  // namespace

PodsFile parse_pods(std::string_view yaml, const std::string& source) {
  PodsFile file;
  if (yaml.size() > kLargestFile) {
    file.problems.push_back({.severity = Severity::kError,
                             .place = {.source = source, .line = 0, .column = 0},
                             .path = "",
                             .what = "is larger than 1 MiB",
                             .remedy = "split it into several files"});
    return file;
  }
  try {
    if (const auto mark = where_it_stands_still(yaml)) {
      file.problems.push_back({.severity = Severity::kError,
                               .place = {.source = source, .line = mark->line + 1, .column = mark->column + 1},
                               .path = "",
                               .what = "nothing can begin with this",
                               .remedy = "check brackets and commas here"});
      return file;
    }
    PodReader reader(source, file.problems);
    for (const YAML::Node& document : YAML::LoadAll(std::string(yaml))) {
      if (!document.IsNull()) reader.read(document, file.pods);
    }
  } catch (const YAML::Exception& problem) {
    file.problems.push_back(syntax_problem(source, problem));
  }
  return file;
}

}  // namespace tranche::sim
