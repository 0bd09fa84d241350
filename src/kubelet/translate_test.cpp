#include "kubelet/translate.h"

#include <gmock/gmock.h>

namespace tranche::kubelet {
namespace {

// Promise: kubelet/allocate: Each kind of error has its own gRPC status.
TEST(Translate, EveryKindOfErrorHasItsOwnStatusAndKeepsItsText) {
  const std::vector<std::pair<Kind, grpc::StatusCode>> table = {
      {Kind::kInvalid, grpc::INVALID_ARGUMENT},     {Kind::kNotFound, grpc::NOT_FOUND},
      {Kind::kUnsupported, grpc::UNIMPLEMENTED},    {Kind::kUnavailable, grpc::UNAVAILABLE},
      {Kind::kTimeout, grpc::DEADLINE_EXCEEDED},    {Kind::kDenied, grpc::PERMISSION_DENIED},
      {Kind::kConflict, grpc::FAILED_PRECONDITION},
  };
  for (const auto& [kind, code] : table) {
    const grpc::Status status = to_status({.kind = kind, .what = "the words", .where = "the place"});
    EXPECT_EQ(status.error_code(), code);
    EXPECT_THAT(status.error_message(),
                testing::AllOf(testing::HasSubstr("the words"), testing::HasSubstr("the place")));
  }
}

// Promise: kubelet/stream: An advertised slot carries its health and NUMA node.
TEST(Translate, AnAdvertisedSlotBecomesADeviceWithHealthAndNumaNode) {
  const auto message = to_message({.resource = "nvidia.com/gpu",
                                   .slots = {{.id = "b", .healthy = true, .numa_node = 1},
                                             {.id = "a", .healthy = false, .numa_node = std::nullopt}}});
  ASSERT_EQ(message.devices_size(), 2);
  EXPECT_EQ(message.devices(0).id(), "b");
  EXPECT_EQ(message.devices(0).health(), "Healthy");
  ASSERT_EQ(message.devices(0).topology().nodes_size(), 1);
  EXPECT_EQ(message.devices(0).topology().nodes(0).id(), 1);
  EXPECT_EQ(message.devices(1).health(), "Unhealthy");
  EXPECT_FALSE(message.devices(1).has_topology()) << "an unknown node is not node 0";
}

// plan/make_plan.cpp counts this much around an id.
TEST(Translate, ADeviceIsAtMost24BytesLargerThanItsId) {
  for (const std::size_t length : {10U, 46U, 47U, 127U}) {
    const std::string id(length, 'a');
    const auto message = to_message({.resource = "nvidia.com/gpu", .slots = {{id, false, 1023}}});
    EXPECT_LE(message.ByteSizeLong(), length + 24);
  }
}

// Promise: kubelet/allocate: The grant reaches the container whole.
TEST(Translate, AGrantIsWrittenWhole) {
  grants::Grant grant;
  grant.envs = {{"A", "1"}, {"B", "2"}};
  grant.annotations = {{"note", "text"}};
  grant.mounts = {{"/in", "/out", true}};
  grant.device_nodes = {{"/dev/a", "/dev/b"}};
  grant.cdi_devices = {"nvidia.com/gpu=0"};
  v1beta1::ContainerAllocateResponse response;
  write_grant(grant, response);
  EXPECT_EQ(response.envs().size(), 2U);
  EXPECT_EQ(response.envs().at("B"), "2");
  EXPECT_EQ(response.annotations().at("note"), "text");
  ASSERT_EQ(response.mounts_size(), 1);
  EXPECT_EQ(response.mounts(0).container_path(), "/in");
  EXPECT_EQ(response.mounts(0).host_path(), "/out");
  EXPECT_TRUE(response.mounts(0).read_only());
  ASSERT_EQ(response.devices_size(), 1);
  EXPECT_EQ(response.devices(0).container_path(), "/dev/a");
  EXPECT_EQ(response.devices(0).host_path(), "/dev/b");
  EXPECT_EQ(response.devices(0).permissions(), "rw");
  ASSERT_EQ(response.cdi_devices_size(), 1);
  EXPECT_EQ(response.cdi_devices(0).name(), "nvidia.com/gpu=0");
}

// As kubelet lists them: an entry for each device.
TEST(Translate, DevicesOfOneResourceOfAContainerAreOneHoldingHoweverKubeletListsThem) {
  v1::ListPodResourcesResponse response;
  auto& pod = *response.add_pod_resources();
  pod.set_namespace_("default");
  pod.set_name("a");
  auto& container = *pod.add_containers();
  container.set_name("main");
  for (const auto& [resource, id] : std::vector<std::pair<std::string, std::string>>{
           {"nvidia.com/gpu1", "GPU-1::2"}, {"nvidia.com/gpu0", "GPU-0::1"}, {"nvidia.com/gpu1", "GPU-1::0"}}) {
    auto& devices = *container.add_devices();
    devices.set_resource_name(resource);
    devices.add_device_ids(id);
  }
  const auto holdings = to_holdings(response);
  ASSERT_EQ(holdings.size(), 2u);
  EXPECT_EQ(holdings[0].resource, "nvidia.com/gpu0");
  EXPECT_EQ(holdings[1].slots, (std::vector<std::string>{"GPU-1::0", "GPU-1::2"}));
}

}  // namespace
}  // namespace tranche::kubelet
