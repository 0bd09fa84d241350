#include <nlohmann/json.hpp>

#include "standins/kubelet/pod_table.h"

namespace tranche::sim {
namespace {

using json = nlohmann::ordered_json;

const char* name_of(PodRun::Phase phase) {
  switch (phase) {
    case PodRun::Phase::kPending:
      return "Pending";
    case PodRun::Phase::kRunning:
      return "Running";
    case PodRun::Phase::kSucceeded:
      return "Succeeded";
    case PodRun::Phase::kFailed:
      return "Failed";
  }
  return "Unknown";
}

const char* name_of(ContainerRun::State state) {
  switch (state) {
    case ContainerRun::State::kWaiting:
      return "Waiting";
    case ContainerRun::State::kStarting:
      return "Starting";
    case ContainerRun::State::kRunning:
      return "Running";
    case ContainerRun::State::kTerminated:
      return "Terminated";
  }
  return "Unknown";
}

json number_or_null(const std::optional<int>& number) {
  return number ? json(*number) : json(nullptr);
}

json to_json(const ContainerRun& run) {
  json mounts = json::array();
  for (const auto& mount : run.grant.mounts) {
    mounts.push_back(
        {{"container_path", mount.container_path}, {"host_path", mount.host_path}, {"read_only", mount.read_only}});
  }
  json devices = json::array();
  for (const auto& node : run.grant.devices) {
    devices.push_back(
        {{"container_path", node.container_path}, {"host_path", node.host_path}, {"permissions", node.permissions}});
  }
  return {{"name", run.spec.name},
          {"state", name_of(run.state)},
          {"reason", run.reason},
          {"message", run.message},
          {"pid", run.pid > 0 ? json(run.pid) : json(nullptr)},
          {"exit", number_or_null(run.exit)},
          {"restarts", run.restarts},
          {"resources", run.spec.resources},
          {"slots", run.grant.slots},
          {"envs", run.grant.envs},
          {"mounts", std::move(mounts)},
          {"devices", std::move(devices)},
          {"annotations", run.grant.annotations},
          {"cdi_devices", run.grant.cdi_devices},
          {"output", run.output},
          {"last_output_json", run.last_json.empty() ? json(nullptr) : json::parse(run.last_json, nullptr, false)}};
}

json to_json(const PodRun& pod) {
  json containers = json::array();
  for (const ContainerRun& run : pod.containers) containers.push_back(to_json(run));
  return {{"namespace", pod.spec.pod_namespace},
          {"name", pod.spec.name},
          {"uid", pod.uid},
          {"owner", pod.spec.owner},
          {"labels", pod.spec.labels},
          {"phase", name_of(pod.phase)},
          {"reason", pod.reason},
          {"message", pod.message},
          {"deleting", pod.deleting},
          {"containers", std::move(containers)}};
}

}  // namespace

bool is_json_object(const std::string& line) {
  return line.starts_with('{') && nlohmann::json::accept(line);
}

std::string state_json(const std::vector<ResourceView>& resources, const std::deque<PodRun>& pods, bool stopping) {
  json shown = json::object();
  for (const ResourceView& view : resources) {
    shown[view.resource] = {{"capacity", view.capacity},          {"allocatable", view.allocatable},
                            {"allocated", view.allocated.size()}, {"endpoint", view.endpoint},
                            {"watching", view.watching},          {"slots", view.allocated}};
  }
  json listed = json::array();
  for (const PodRun& pod : pods) listed.push_back(to_json(pod));
  const json state = {
      {"schema", 1}, {"stopping", stopping}, {"resources", std::move(shown)}, {"pods", std::move(listed)}};
  return state.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace tranche::sim
