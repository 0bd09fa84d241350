#include "cdi/spec.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace tranche::cdi {
namespace {

TEST(CdiJson, LeavesOutWhatIsNotGiven) {
  Spec spec{kVendor, "gpu", {}, {}};
  spec.devices.push_back({"a", {}});
  spec.devices.front().edits.device_nodes.push_back({"/dev/nvidia0", ""});
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
  Spec spec{kVendor, "gpu", {}, {}};
  Device device{"GPU-1", {}};
  device.edits.device_nodes.push_back({"/dev/nvidia0", "/run/driver/dev/nvidia0"});
  spec.devices.push_back(device);
  spec.edits.env = {"NVIDIA_VISIBLE_DEVICES=void", "EMPTY="};
  spec.edits.mounts.push_back({"/usr/lib64/libcuda.so.1", "/usr/lib64/libcuda.so.1", {"ro", "bind"}});
  spec.edits.hooks.push_back({"/usr/bin/nvidia-ctk", {"nvidia-ctk", "hook"}});
  EXPECT_EQ(json_of(render(spec)), json_of(R"({
    "cdiVersion": "0.5.0", "kind": "k8s.device-plugin.nvidia.com/gpu",
    "devices": [{"name": "GPU-1", "containerEdits": {"deviceNodes": [
      {"path": "/dev/nvidia0", "hostPath": "/run/driver/dev/nvidia0", "permissions": "rw"}]}}],
    "containerEdits": {
      "env": ["NVIDIA_VISIBLE_DEVICES=void", "EMPTY="],
      "mounts": [{"hostPath": "/usr/lib64/libcuda.so.1", "containerPath": "/usr/lib64/libcuda.so.1",
                  "options": ["ro", "bind"]}],
      "hooks": [{"hookName": "createContainer", "path": "/usr/bin/nvidia-ctk", "args": ["nvidia-ctk", "hook"],
                 "env": ["NVIDIA_CTK_DEBUG=false"]}]}})"));
}

TEST(CdiVersion, IsTheOldestThatHasEverythingUsed) {
  Spec spec{kVendor, "gpu", {{"a", {}}}, {}};
  EXPECT_EQ(minimum_version(spec), "0.3.0");
  spec.edits.mounts.push_back({"/a", "/b", {}});
  spec.devices.front().edits.device_nodes.push_back({"/dev/a", ""});
  EXPECT_EQ(minimum_version(spec), "0.3.0");
  spec.devices.front().edits.device_nodes.back().host_path = "/dev/b";
  EXPECT_EQ(minimum_version(spec), "0.5.0");
  spec.devices.front().edits.device_nodes.clear();
  EXPECT_EQ(minimum_version(spec), "0.3.0");
  spec.devices.front().name = "0:1";
  EXPECT_EQ(minimum_version(spec), "0.5.0");
  spec.devices.front().name = "a";
  spec.edits.device_nodes.push_back({"/dev/a", "/dev/b"});
  EXPECT_EQ(minimum_version(spec), "0.5.0");
}

}  // namespace
}  // namespace tranche::cdi
