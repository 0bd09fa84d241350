// Pods on the node: choosing devices, calling the plugin, recording its response, replaying it.
#include <fmt/format.h>

#include <algorithm>

#include "standins/kubelet/kubelet_impl.h"

namespace tranche::sim {
namespace {

std::string uid_of(const PodAsk& pod) {
  return pod.uid.empty() ? pod.pod_namespace + "/" + pod.name : pod.uid;
}

std::string stopped_text(const std::string& resource) {
  return fmt::format("the endpoint of {} is stopped: its plugin must register again", resource);
}

template <class Range, class Value, class Projection = std::identity>
bool has(const Range& range, const Value& value, Projection projection = {}) {
  return std::ranges::find(range, value, projection) != std::ranges::end(range);
}

// Adds one recorded response. If two resources conflict, the first variable, mount, device node and annotation stay:
// kubelet iterates over its map of resources, whose order may differ at each start of the container.
void add(ContainerGrant& grant, const v1beta1::ContainerAllocateResponse& response) {
  for (const auto& [name, value] : response.envs()) grant.envs.emplace(name, value);
  for (const auto& mount : response.mounts()) {
    if (has(grant.mounts, mount.container_path(), &ContainerGrant::Mount::container_path)) continue;
    grant.mounts.push_back({mount.container_path(), mount.host_path(), mount.read_only()});
  }
  for (const auto& node : response.devices()) {
    const auto path = &ContainerGrant::DeviceNode::container_path;
    if (has(grant.devices, node.container_path(), path)) continue;
    grant.devices.push_back({node.container_path(), node.host_path(), node.permissions()});
  }
  for (const auto& [name, value] : response.annotations()) grant.annotations.emplace(name, value);
  for (const auto& device : response.cdi_devices()) {
    if (!has(grant.cdi_devices, device.name())) grant.cdi_devices.push_back(device.name());
  }
}

}  // namespace

PodAsk one_container_pod(std::string name, std::string resource, std::uint64_t count) {
  return {.uid = {},
          .pod_namespace = "default",
          .name = std::move(name),
          .containers = {{.name = "main", .resources = {{std::move(resource), count}}}}};
}

void Kubelet::Impl::record(Call call) {
  {
    const std::lock_guard lock(mutex);
    calls.push_back(std::move(call));
  }
  notify();
}

ContainerGrant Kubelet::Impl::grant_of(const std::string& uid, const std::string& container) {
  ContainerGrant grant;
  grant.container = container;
  auto holdings = ledger.of(uid, container);
  std::ranges::shuffle(holdings, dice);
  for (const Holding* holding : holdings) {
    grant.slots[holding->resource] = holding->ids;
    v1beta1::ContainerAllocateResponse response;
    if (response.ParseFromString(holding->response)) add(grant, response);
  }
  return grant;
}

std::expected<std::vector<std::string>, Kubelet::Impl::Refusal> Kubelet::Impl::ask_preference(
    const Endpoint& endpoint, const std::string& resource, const std::vector<std::string>& available,
    std::uint64_t needed) {
  v1beta1::PreferredAllocationRequest request;
  auto& container = *request.add_container_requests();
  container.mutable_available_deviceids()->Assign(available.begin(), available.end());
  container.set_allocation_size(static_cast<std::int32_t>(needed));
  v1beta1::PreferredAllocationResponse answer;
  const grpc::Status status = endpoint.client->preferred(request, &answer);
  std::vector<std::string> preferred;
  if (answer.container_responses_size() > 0) {
    const auto& ids = answer.container_responses(0).deviceids();
    preferred.assign(ids.begin(), ids.end());
  }
  record({.method = Call::Method::kPreferred,
          .resource = resource,
          .endpoint = endpoint.name,
          .ids = available,
          .size = static_cast<int>(needed),
          .preferred = preferred,
          .status = status.error_code(),
          .message = status.error_message()});
  if (!status.ok()) {
    return std::unexpected(Refusal{
        "device plugin GetPreferredAllocation rpc failed with err: " + go_status_text(status), status.error_code()});
  }
  return preferred;
}

Kubelet::Impl::Outcome Kubelet::Impl::allocate(const PodAsk& pod, const ContainerAsk& container,
                                               const std::string& resource, std::uint64_t required) {
  const std::string uid = uid_of(pod);
  std::vector<std::string> available;
  Endpoint endpoint;
  {
    const std::lock_guard lock(mutex);
    if (!running) return std::unexpected(Refusal{"kubelet is stopping"});
    if (!ledger.knows(resource)) return {};
    auto need = ledger.available_for(uid, container.name, resource, required, container.running);
    if (!need) return std::unexpected(Refusal{need.error().what});
    if (!*need) return {};
    available.assign((*need)->begin(), (*need)->end());
    std::ranges::shuffle(available, dice);
    const auto found = endpoints.find(resource);
    if (found == endpoints.end()) return std::unexpected(Refusal{"unknown device plugin for " + resource});
    endpoint = found->second;
  }

  std::vector<std::string> preferred;
  if (endpoint.client && endpoint.options.preferred_allocation) {
    if (endpoint.stopped) return std::unexpected(Refusal{stopped_text(resource)});
    auto answer = ask_preference(endpoint, resource, available, required);
    if (!answer) return std::unexpected(answer.error());
    preferred = std::move(*answer);
  }
  const std::vector<std::string> ids = choose(available, preferred, required);

  if (endpoint.stopped || !endpoint.client) return std::unexpected(Refusal{stopped_text(resource)});
  v1beta1::AllocateResponse answer;
  const grpc::Status status = endpoint.client->allocate(ids, &answer);
  record({.method = Call::Method::kAllocate,
          .resource = resource,
          .endpoint = endpoint.name,
          .ids = ids,
          .status = status.error_code(),
          .message = status.error_message()});
  if (!status.ok()) return std::unexpected(Refusal{go_status_text(status), status.error_code()});
  if (answer.container_responses_size() == 0) {
    return std::unexpected(Refusal{"the plugin's allocation response holds no container"});
  }
  const std::lock_guard lock(mutex);
  if (!running) return std::unexpected(Refusal{"kubelet is stopping"});
  ledger.record({.pod_uid = uid,
                 .container = container.name,
                 .resource = resource,
                 .ids = ids,
                 .response = answer.container_responses(0).SerializeAsString()});
  return {};
}

Kubelet::Impl::Outcome Kubelet::Impl::allocate_all(const PodAsk& pod, const ContainerAsk& container) {
  std::vector<std::pair<std::string, std::uint64_t>> resources(container.resources.begin(), container.resources.end());
  {
    const std::lock_guard lock(mutex);
    std::ranges::shuffle(resources, dice);
  }
  for (const auto& [resource, count] : resources) {
    if (count == 0) continue;
    if (auto done = allocate(pod, container, resource, count); !done) return done;
  }
  return {};
}

Admission Kubelet::admit(const PodAsk& pod) {
  const std::lock_guard admission(impl_->admitting);
  const std::string uid = uid_of(pod);
  Admission result;
  for (const ContainerAsk& container : pod.containers) {
    const auto done = impl_->allocate_all(pod, container);
    if (done) continue;
    result.reason = "UnexpectedAdmissionError";
    result.message = fmt::format("Allocate failed due to {}, which is unexpected", done.error().message);
    result.status = done.error().status;
    {
      const std::lock_guard lock(impl_->mutex);
      if (impl_->running) impl_->ledger.remove_pod(uid);
      impl_->pods.erase(uid);
    }
    impl_->notify();
    return result;
  }
  result.admitted = true;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->pods[uid] = pod;
    impl_->pods[uid].uid = uid;
    for (const ContainerAsk& container : pod.containers) {
      result.containers.push_back(impl_->grant_of(uid, container.name));
    }
  }
  impl_->notify();
  return result;
}

Result<ContainerGrant> Kubelet::start_container(const std::string& uid, const std::string& name) {
  const std::lock_guard lock(impl_->mutex);
  if (!impl_->running) return fail(Kind::kUnavailable, "kubelet is stopping");
  const auto pod = impl_->pods.find(uid);
  if (pod == impl_->pods.end()) return fail(Kind::kNotFound, "no such pod is admitted", uid);
  if (!has(pod->second.containers, name, &ContainerAsk::name)) {
    return fail(Kind::kNotFound, "the pod has no such container", name);
  }
  for (const Holding* holding : impl_->ledger.of(uid, name)) {
    if (!impl_->endpoints.contains(holding->resource)) {
      return fail(Kind::kUnavailable, "no plugin is registered any more", holding->resource);
    }
  }
  return impl_->grant_of(uid, name);
}

void Kubelet::remove_pod(const std::string& uid) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->pods.erase(uid);
    if (impl_->running) impl_->ledger.remove_pod(uid);
  }
  impl_->notify();
}

}  // namespace tranche::sim
