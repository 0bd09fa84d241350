#include "guard/cgroup.h"

#include <gmock/gmock.h>

namespace tranche::guard {
namespace {

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

}  // namespace
}  // namespace tranche::guard
