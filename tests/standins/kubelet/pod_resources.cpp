// PodResources v1: which container of which pod holds which devices.
#include <tuple>

#include "standins/kubelet/kubelet_impl.h"

namespace tranche::sim {
namespace {

class PodResourcesService final : public v1::PodResourcesLister::Service {
 public:
  explicit PodResourcesService(Kubelet::Impl& impl) : impl_(impl) {}

  // Every active pod, including those without devices, in kubelet's format: an entry for each device, without the pod's
  // uid.
  grpc::Status List(grpc::ServerContext*, const v1::ListPodResourcesRequest*,
                    v1::ListPodResourcesResponse* answer) override {
    const std::lock_guard lock(impl_.mutex);
    std::map<std::tuple<std::string, std::string, std::string>, const PodAsk*> sorted;
    if (impl_.lists_no_pods) return grpc::Status::OK;
    for (const auto& [uid, pod] : impl_.pods) sorted[{pod.pod_namespace, pod.name, uid}] = &pod;
    for (const auto& [key, pod] : sorted) {
      auto& listed = *answer->add_pod_resources();
      listed.set_name(pod->name);
      listed.set_namespace_(pod->pod_namespace);
      for (const ContainerAsk& container : pod->containers) {
        auto& entry = *listed.add_containers();
        entry.set_name(container.name);
        for (const Holding* holding : impl_.ledger.of(pod->uid, container.name)) {
          for (const auto& id : holding->ids) {
            auto& device = *entry.add_devices();
            device.set_resource_name(holding->resource);
            device.add_device_ids(id);
          }
        }
      }
    }
    return grpc::Status::OK;
  }

 private:
  Kubelet::Impl& impl_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_pod_resources_service(Kubelet::Impl& impl) {
  return std::make_unique<PodResourcesService>(impl);
}

}  // namespace tranche::sim
