#include "cdi/spec.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "cdi/spec_json.h"

namespace tranche::cdi {
namespace {

TEST(CdiJson, LeavesOutWhatIsNotGiven) {
  Spec spec{"0.3.0", kVendor, "gpu", {}, {}, {}};
  spec.devices.push_back({"a", {}, {}});
  spec.devices.front().edits.device_nodes.push_back({"/dev/nvidia0", "", "", {}, {}, {}, "rw", {}, {}});
  EXPECT_EQ(render(spec), R"({
  "cdiVersion": "0.3.0",
  "kind": "k8s.device-plugin.nvidia.com/gpu",
  "devices": [
    {
      "name": "a",
      "containerEdits": {
        "deviceNodes": [
          {
            "path": "/dev/nvidia0",
            "permissions": "rw"
          }
        ]
      }
    }
  ]
}
)");
}

TEST(CdiJson, HasEverythingThatIsGiven) {
  Spec spec{"0.7.0", kVendor, "gpu", {{"owner", "us"}}, {}, {}};
  Device device{"GPU-1", {{"coherent", "false"}}, {}};
  DeviceNode node{"/dev/nvidia0", "/run/driver/dev/nvidia0", "c", 195, 0, 438u, "rw", 0u, 44u};
  device.edits.device_nodes.push_back(node);
  spec.devices.push_back(device);
  spec.edits.env = {"NVIDIA_VISIBLE_DEVICES=void", "EMPTY="};
  spec.edits.mounts.push_back({"/usr/lib64/libcuda.so.1", "/usr/lib64/libcuda.so.1", "none", {"ro", "bind"}});
  spec.edits.hooks.push_back({"createContainer", "/usr/bin/nvidia-ctk", {"nvidia-ctk", "hook"}, {"A=b"}, 10u});
  spec.edits.additional_gids = {44};
  EXPECT_EQ(json_of(render(spec)), json_of(R"({
    "cdiVersion": "0.7.0", "kind": "k8s.device-plugin.nvidia.com/gpu", "annotations": {"owner": "us"},
    "devices": [{"name": "GPU-1", "annotations": {"coherent": "false"}, "containerEdits": {"deviceNodes": [
      {"path": "/dev/nvidia0", "hostPath": "/run/driver/dev/nvidia0", "type": "c", "major": 195, "minor": 0,
       "fileMode": 438, "permissions": "rw", "uid": 0, "gid": 44}]}}],
    "containerEdits": {
      "env": ["NVIDIA_VISIBLE_DEVICES=void", "EMPTY="],
      "mounts": [{"hostPath": "/usr/lib64/libcuda.so.1", "containerPath": "/usr/lib64/libcuda.so.1", "type": "none",
                  "options": ["ro", "bind"]}],
      "hooks": [{"hookName": "createContainer", "path": "/usr/bin/nvidia-ctk", "args": ["nvidia-ctk", "hook"],
                 "env": ["A=b"], "timeout": 10}],
      "additionalGids": [44]}})"));
}

TEST(CdiVersion, IsTheOldestThatHasEverythingUsed) {
  Spec spec{"", kVendor, "gpu", {}, {{"a", {}, {}}}, {}};
  EXPECT_EQ(minimum_version(spec), "0.3.0");
  spec.edits.mounts.push_back({"/a", "/b", "", {}});
  EXPECT_EQ(minimum_version(spec), "0.3.0");
  spec.edits.mounts.back().type = "none";
  EXPECT_EQ(minimum_version(spec), "0.4.0");
  spec.devices.front().edits.device_nodes.push_back({"/dev/a", "", "", {}, {}, {}, "", {}, {}});
  EXPECT_EQ(minimum_version(spec), "0.4.0");
  spec.devices.front().edits.device_nodes.back().host_path = "/dev/b";
  EXPECT_EQ(minimum_version(spec), "0.5.0");
  spec.devices.front().edits.device_nodes.clear();
  spec.devices.front().name = "0:1";
  EXPECT_EQ(minimum_version(spec), "0.5.0");
  spec.cls = "gpu.x";
  EXPECT_EQ(minimum_version(spec), "0.6.0");
  spec.cls = "gpu";
  spec.devices.front().annotations["a"] = "b";
  EXPECT_EQ(minimum_version(spec), "0.6.0");
  spec.devices.front().edits.additional_gids = {1};
  EXPECT_EQ(minimum_version(spec), "0.7.0");
}

}  // namespace
}  // namespace tranche::cdi
