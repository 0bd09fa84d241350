#include "kubelet/translate.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace tranche::kubelet {
namespace {

using enum grpc::StatusCode;
// By Kind.
constexpr std::array kCodes{INVALID_ARGUMENT,  NOT_FOUND,         UNIMPLEMENTED,      UNAVAILABLE,
                            DEADLINE_EXCEEDED, PERMISSION_DENIED, FAILED_PRECONDITION};

}  // namespace

v1beta1::DevicePluginOptions our_options() {
  v1beta1::DevicePluginOptions options;
  options.set_get_preferred_allocation_available(true);
  options.set_pre_start_required(false);
  return options;
}

v1beta1::ListAndWatchResponse to_message(const plan::Advertised& advertised) {
  v1beta1::ListAndWatchResponse message;
  message.mutable_devices()->Reserve(static_cast<int>(advertised.slots.size()));
  for (const plan::AdvertisedSlot& slot : advertised.slots) {
    v1beta1::Device& device = *message.add_devices();
    device.set_id(slot.id);
    device.set_health(slot.healthy ? "Healthy" : "Unhealthy");
    if (slot.numa_node) device.mutable_topology()->add_nodes()->set_id(*slot.numa_node);
  }
  return message;
}

void write_grant(const grants::Grant& grant, v1beta1::ContainerAllocateResponse& response) {
  for (const auto& [name, value] : grant.envs) (*response.mutable_envs())[name] = value;
  for (const auto& [name, value] : grant.annotations) (*response.mutable_annotations())[name] = value;
  for (const grants::Mount& from : grant.mounts) {
    v1beta1::Mount& mount = *response.add_mounts();
    mount.set_container_path(from.container_path);
    mount.set_host_path(from.host_path);
    mount.set_read_only(from.read_only);
  }
  for (const grants::DeviceNode& from : grant.device_nodes) {
    v1beta1::DeviceSpec& device = *response.add_devices();
    device.set_container_path(from.container_path);
    device.set_host_path(from.host_path);
    device.set_permissions("rw");
  }
  for (const std::string& name : grant.cdi_devices) response.add_cdi_devices()->set_name(name);
}

// kubelet may list the devices of one resource of a container in several entries: one each, or by NUMA node.
std::vector<grants::Held> to_holdings(const v1::ListPodResourcesResponse& response) {
  std::vector<grants::Held> holdings;
  for (const v1::PodResources& pod : response.pod_resources()) {
    for (const v1::ContainerResources& container : pod.containers()) {
      std::map<std::string, std::vector<std::string>> slots;
      for (const v1::ContainerDevices& devices : container.devices()) {
        auto& all = slots[devices.resource_name()];
        all.insert(all.end(), devices.device_ids().begin(), devices.device_ids().end());
      }
      for (auto& [resource, ids] : slots) {
        std::ranges::sort(ids);
        holdings.push_back({.pod_namespace = pod.namespace_(),
                            .pod = pod.name(),
                            .container = container.name(),
                            .resource = resource,
                            .slots = std::move(ids)});
      }
    }
  }
  return holdings;
}

grpc::Status to_status(const Error& error) {
  return {kCodes.at(static_cast<std::size_t>(error.kind)), to_string(error)};
}

Error from_status(const grpc::Status& status, std::string what, std::string where) {
  return {Kind::kUnavailable, std::move(what) + ": " + status.error_message(), std::move(where),
          static_cast<int>(status.error_code())};
}

}  // namespace tranche::kubelet
