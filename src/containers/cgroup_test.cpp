#include "containers/attribution.h"

#include <gmock/gmock.h>

namespace tranche::containers {
namespace cgroup_test {

const std::string kId(64, 'a');
const std::string kInner(64, 'b');
constexpr const char* kUid = "7b0d4e5c-1f2a-4b3c-8d9e-0a1b2c3d4e5f";
constexpr const char* kUnitUid = "7b0d4e5c_1f2a_4b3c_8d9e_0a1b2c3d4e5f";

TEST(Cgroup, EveryShapeOfAContainersGroupIsRead) {
  const std::string slice = std::string("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod") + kUnitUid;
  for (const std::string& text : {
           "0::" + slice + ".slice/cri-containerd-" + kId + ".scope\n",
           "0::" + slice + ".slice/crio-" + kId + ".scope\n",
           "0::" + slice + ".slice/crio-" + kId + ".scope/container\n",
           "0::" + slice + ".slice/docker-" + kId + ".scope\n",
           std::string("0::/kubepods.slice/kubepods-pod") + kUnitUid + ".slice/cri-containerd-" + kId + ".scope",
           std::string("0::/kubepods/burstable/pod") + kUid + "/" + kId + "\n",
           std::string("0::/kubepods/pod") + kUid + "/crio-" + kId + "\n",
           std::string("0::/system.slice/containerd.service/kubepods-besteffort-pod") + kUnitUid +
               ".slice:cri-containerd:" + kId,
           std::string("0::/docker/") + kInner + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" +
               kUnitUid + ".slice/cri-containerd-" + kId + ".scope",
           std::string("0::/../../kubepods-burstable-pod") + kUnitUid + ".slice/cri-containerd-" + kId + ".scope",
           std::string("12:memory:/kubepods/besteffort/pod") + kUid + "/" + kId + "\n1:name=systemd:/kubepods/pod" +
               kUid + "/" + kId + "\n0::/system.slice/containerd.service\n",
       })
    EXPECT_EQ(container_of_cgroup(text), (Container{kUid, kId})) << text;
}

// Names that a local user can choose: everything below the user's delegated units, and below a container with root.
TEST(Cgroup, NamesThatAUserChoosesAreNoContainer) {
  const std::string pod = std::string("/pod") + kUid + "/" + kId;
  const std::string slices = std::string("/kubepods.slice/kubepods-pod") + kUnitUid + ".slice/crio-" + kId + ".scope";
  for (const std::string& below : std::initializer_list<std::string>{
           "/user.slice/user-1000.slice/user@1000.service", "/user.slice/user-1000.slice/user@1000.service/app.slice",
           "/user.slice/user-1000.slice/session-2.scope", "/system.slice/job.service", "/job.service", "/init.scope",
           "/machine.slice/machine-x.scope/payload", "/../../../../user.slice/user-1000.slice/user@1000.service",
           "/../user.slice/user-1000.slice/user@1000.service", "/system.slice/docker-" + kInner + ".scope",
           "/user.slice/docker/" + kInner})
    for (const std::string& name :
         {pod, "/kubepods" + pod, "/kubepods/burstable" + pod, "/kubelet/kubepods" + pod, slices,
          "/kubelet.slice" + slices, std::string("/kubepods-pod") + kUnitUid + ".slice:cri-containerd:" + kId})
      EXPECT_EQ(container_of_cgroup("0::" + below + name), std::nullopt) << below << name;
  for (const std::string& text : std::initializer_list<std::string>{
           "0::" + pod, "0::/other" + pod, "0::/a/b/kubepods" + pod, "0::/kubepods/x" + pod, "0::/kubepods/../x" + pod,
           "0::/kubepods/burstable/besteffort" + pod, std::string("0::/kubepods-pod") + kUnitUid + ".slice/" + kId,
           std::string("0::/x.slice/kubepods.slice/kubepods-pod") + kUnitUid + ".slice/crio-" + kId + ".scope",
           std::string("0::/kubepods.slice/x-kubepods-pod") + kUnitUid + ".slice/crio-" + kId + ".scope",
           std::string("0::/kubepods.slice/kubepods-pod") + kUid + ".slice/crio-" + kId + ".scope"})
    EXPECT_EQ(container_of_cgroup(text), std::nullopt) << text;
}

TEST(Cgroup, KubeletsRootIsFoundWhereverItIs) {
  const std::string pod = std::string("/pod") + kUid + "/" + kId;
  const auto sliced = [](const std::string& root, const std::string& prefix) {
    return root + "/" + prefix + "kubepods.slice/" + prefix + "kubepods-burstable.slice/" + prefix +
           "kubepods-burstable-pod" + kUnitUid + ".slice/cri-containerd-" + kId + ".scope";
  };
  for (const std::string& text : {
           "0::/kubelet/kubepods/burstable" + pod,                         // kind, --cgroup-root=/kubelet
           "0::" + sliced("/kubelet.slice", "kubelet-"),                   // the same with systemd
           "0::" + sliced("/a.slice/a-b.slice", "a-b-"),                   // --cgroup-root=/a/b
           "0::/docker/" + kInner + "/kubelet/kubepods/besteffort" + pod,  // kind, seen from its host
           "0::/docker/" + kInner + sliced("/kubelet.slice", "kubelet-"),  //
           "0::/../../.." + sliced("", ""),                                // from a pod's own cgroup namespace:
           "0::/../../../kubepods-besteffort.slice/kubepods-besteffort-pod" + std::string(kUnitUid) + ".slice/crio-" +
               kId + ".scope",                                                                     // another class
           "0::/../../../kubepods-pod" + std::string(kUnitUid) + ".slice/crio-" + kId + ".scope",  // guaranteed
           "0::/../../kubelet-kubepods-burstable-pod" + std::string(kUnitUid) + ".slice/crio-" + kId + ".scope",
           "0::/../.." + pod,
           "0::/../../../besteffort" + pod,
           "0::/../../../../kubelet/kubepods" + pod,
           "0::/../../../../.." + sliced("/kubelet.slice", "kubelet-"),
       })
    EXPECT_EQ(container_of_cgroup(text), (Container{kUid, kId})) << text;
}

TEST(Cgroup, AStaticPodIsNamedByItsDigest) {
  const std::string digest(32, '7');
  EXPECT_EQ(container_of_cgroup("0::/kubepods/burstable/pod" + digest + "/" + kId), (Container{digest, kId}));
}

TEST(Cgroup, WhatATenantMakesBelowItsContainerDoesNotCount) {
  const std::string other = "11111111-2222-3333-4444-555555555555";
  EXPECT_EQ(
      container_of_cgroup(std::string("0::/kubepods/pod") + kUid + "/" + kId + "/kubepods/pod" + other + "/" + kInner),
      (Container{kUid, kId}));
  EXPECT_EQ(container_of_cgroup(std::string("0::/kubepods/pod") + kUid + "/" + kId + "/docker/" + kInner),
            (Container{kUid, kId}));
}

TEST(Cgroup, AnythingElseIsNoContainer) {
  for (const std::string& text : std::initializer_list<std::string>{
           "", "\n", "0::/", "0::/system.slice/nvidia-persistenced.service", "garbage",
           "0:", "::::", "0::/docker/" + kId, "0::/user.slice/user-0.slice", std::string("0::/kubepods/pod") + kUid,
           std::string("0::/kubepods/pod") + kUid + "/short", std::string("0::/kubepods/xpod") + kUid + "/" + kId,
           std::string("0::/other-pod") + kUnitUid + ".slice/" + kId,
           std::string("0::/kubepods/pod") + kUid + "/crio-conmon-" + kId + ".scope",
           std::string("0::/kubepods/pod") + kUid + "/" + std::string(64, 'Z')})
    EXPECT_EQ(container_of_cgroup(text), std::nullopt) << text;
}

TEST(Cgroup, HierarchiesThatDisagreeNameNone) {
  EXPECT_EQ(container_of_cgroup(std::string("2:cpu:/kubepods/pod") + kUid + "/" + kId + "\n1:memory:/kubepods/pod" +
                                kUid + "/" + kInner),
            std::nullopt);
}

}  // namespace cgroup_test
}  // namespace tranche::containers
