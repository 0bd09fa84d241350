#include "cdi/json.h"

#include <gmock/gmock.h>

#include "cdi/names.h"

namespace tranche::cdi {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Spec full_spec() {
  Spec spec{"0.7.0", kVendor, "gpu", {{"owner", "us"}}, {}, {}};
  Device device{"GPU-1", {{"coherent", "false"}}, {}};
  DeviceNode node{"/dev/nvidia0", "/run/driver/dev/nvidia0", "c", 195, 0, 438u, "rw", 0u, 44u};
  device.edits.device_nodes.push_back(node);
  spec.devices.push_back(device);
  spec.edits.env = {"NVIDIA_VISIBLE_DEVICES=void", "EMPTY="};
  spec.edits.mounts.push_back({"/usr/lib64/libcuda.so.1", "/usr/lib64/libcuda.so.1", "none", {"ro", "bind"}});
  spec.edits.hooks.push_back({"createContainer", "/usr/bin/nvidia-ctk", {"nvidia-ctk", "hook"}, {"A=b"}, 10u});
  spec.edits.additional_gids = {44};
  return spec;
}

std::vector<std::string> problems_of(std::string_view text) {
  std::vector<std::string> texts;
  for (const auto& problem : parse_spec(text, "gpu.json").problems) texts.push_back(to_string(problem));
  return texts;
}

std::string spec_with(const std::string& device, const std::string& more = "") {
  return R"({"cdiVersion": "0.7.0", "kind": "example.com/gpu", "devices": [)" + device + "]" + more + "}";
}
std::string spec_with_edits(const std::string& edits) {
  return spec_with(R"({"name": "a", "containerEdits": )" + edits + "}");
}
const char* const kGood = R"({"name": "a", "containerEdits": {"env": ["A=b"]}})";

TEST(CdiJson, ReadsBackWhatItWrites) {
  const Spec spec = full_spec();
  const auto parsed = parse_spec(render(spec), "gpu.json");
  EXPECT_THAT(parsed.problems, IsEmpty());
  EXPECT_EQ(parsed.spec, spec);
}

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

TEST(CdiJson, APathThatIsNoUtf8DoesNotReadBackAsTheSame) {
  Spec spec = full_spec();
  spec.edits.mounts.front().host_path = "/usr/lib64/lib\xff.so";
  EXPECT_NE(parse_spec(render(spec), "gpu.json").spec, spec);
}

struct BadSpec {
  const char* name;
  std::string text;
  const char* says;
};
void PrintTo(const BadSpec& row, std::ostream* out) {
  *out << row.name;
}

class CdiJsonRefuses : public testing::TestWithParam<BadSpec> {};

TEST_P(CdiJsonRefuses, WithFieldAndRemedy) {
  EXPECT_THAT(problems_of(GetParam().text), Contains(HasSubstr(GetParam().says))) << GetParam().text;
  for (const auto& text : problems_of(GetParam().text)) EXPECT_THAT(text, HasSubstr("; ")) << "no remedy";
}

INSTANTIATE_TEST_SUITE_P(
    Specs, CdiJsonRefuses,
    testing::Values(
        BadSpec{"NoJson", "{", "gpu.json: error: is not valid JSON"}, BadSpec{"List", "[]", "must be an object"},
        BadSpec{"NoVersion", R"({"kind": "example.com/gpu", "devices": []})", "cdiVersion: is missing"},
        BadSpec{"BadVersion",
                R"({"cdiVersion": "0.9.0", "kind": "example.com/gpu", "devices": [)" + std::string(kGood) + "]}",
                "cdiVersion: is no version of the specification: \"0.9.0\""},
        BadSpec{"NoDevices", spec_with(""), "devices: must have at least one device"},
        BadSpec{"NoKind", R"({"cdiVersion": "0.5.0", "devices": []})", "kind: is missing"},
        BadSpec{"KindWithoutClass", R"({"cdiVersion": "0.5.0", "kind": "gpu", "devices": []})", "vendor/class"},
        BadSpec{"BadVendor", R"({"cdiVersion": "0.5.0", "kind": "9x.com/gpu", "devices": []})",
                "kind: has a vendor that must start with a letter"},
        BadSpec{"BadClass", R"({"cdiVersion": "0.5.0", "kind": "x.com/g/pu", "devices": []})",
                "kind: has a class that"},
        BadSpec{"UnknownField", spec_with(kGood, R"(, "device": [])"),
                "unknown field \"device\"; did you mean devices?"},
        BadSpec{"SameNameTwice", spec_with(kGood + std::string(", ") + kGood), "\"a\" twice"},
        BadSpec{"NoName", spec_with(R"({"containerEdits": {"env": ["A=b"]}})"), "devices[0].name: is missing"},
        BadSpec{"NameWithSlash", spec_with(R"({"name": "a/b", "containerEdits": {"env": ["A=b"]}})"),
                "devices[0].name"},
        BadSpec{"NameEndsOddly", spec_with(R"({"name": "a-", "containerEdits": {"env": ["A=b"]}})"),
                "must end with a letter or digit"},
        BadSpec{"NoEdits", spec_with(R"({"name": "a"})"), "containerEdits: is missing"},
        BadSpec{"EmptyEdits", spec_with_edits("{}"), "containerEdits: must not be empty"},
        BadSpec{"EnvWithoutName", spec_with_edits(R"({"env": ["=b"]})"), "env[0]: must be written NAME=value"},
        BadSpec{"EnvOfNumbers", spec_with_edits(R"({"env": [1]})"), "env[0]: must be text"},
        BadSpec{"RelativeNode", spec_with_edits(R"({"deviceNodes": [{"path": "dev/x"}]})"),
                "devices[0].containerEdits.deviceNodes[0].path: must be absolute"},
        BadSpec{"NodeUpwards", spec_with_edits(R"({"deviceNodes": [{"path": "/dev/../x"}]})"), "must not have \"..\""},
        BadSpec{"NodeWithoutPath", spec_with_edits(R"({"deviceNodes": [{"hostPath": "/x"}]})"), "path: is missing"},
        BadSpec{"NodeType", spec_with_edits(R"({"deviceNodes": [{"path": "/x", "type": "f"}]})"),
                "must be b, c, u or p"},
        BadSpec{"NodePermissions", spec_with_edits(R"({"deviceNodes": [{"path": "/x", "permissions": "rx"}]})"),
                "letters r, w and m"},
        BadSpec{"NegativeMinor", spec_with_edits(R"({"deviceNodes": [{"path": "/x", "minor": -1}]})"), "not negative"},
        BadSpec{"MountWithoutHost", spec_with_edits(R"({"mounts": [{"containerPath": "/x"}]})"),
                "hostPath: is missing"},
        BadSpec{"MountNoList", spec_with_edits(R"({"mounts": {"containerPath": "/x"}})"), "mounts: must be a list"},
        BadSpec{"HookName", spec_with_edits(R"({"hooks": [{"hookName": "createContainr", "path": "/x"}]})"),
                "write createContainer"},
        BadSpec{"HookPath", spec_with_edits(R"({"hooks": [{"hookName": "poststop", "path": "x"}]})"),
                "must be absolute"},
        BadSpec{"HookTimeout", spec_with_edits(R"({"hooks": [{"hookName": "poststop", "path": "/x", "timeout": 0}]})"),
                "must be more than 0"},
        BadSpec{"Gids", spec_with_edits(R"({"additionalGids": [-1]})"), "additionalGids[0]: must be a whole number"},
        BadSpec{"IntelRdt", spec_with_edits(R"({"intelRdt": {}, "env": ["A=b"]})"), "intelRdt: is not read here"},
        BadSpec{"Annotations", spec_with(kGood, R"(, "annotations": {"a": 1})"), "annotations.a: must be text"},
        BadSpec{
            "TooOld",
            R"({"cdiVersion": "0.3.0", "kind": "example.com/gpu", "devices": [{"name": "0", "containerEdits": {"env": ["A=b"]}}]})",
            "cdiVersion: is older than what the spec uses; write 0.5.0"}),
    [](const auto& row) { return row.param.name; });

TEST(CdiJson, ReportsEveryProblemAtOnce) {
  EXPECT_THAT(problems_of(spec_with_edits(R"({"env": ["=a", "=b"], "mounts": [{}]})")), SizeIs(4));
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

TEST(CdiNames, FollowTheGrammar) {
  EXPECT_EQ(fault_of_vendor(kVendor), "");
  EXPECT_EQ(fault_of_class("imex-channel"), "");
  EXPECT_EQ(fault_of_device("0:1"), "");
  EXPECT_EQ(fault_of_device("MIG-7f8e9d0c-1111-2222-3333-444455556666"), "");
  EXPECT_EQ(fault_of_device("MIG-GPU-7f8e9d0c/1/0"), R"(must be of letters, digits and "_-.:", but has "/")");
  EXPECT_NE(fault_of_device(""), "");
  EXPECT_NE(fault_of_class(std::string(64, 'a')), "");
  EXPECT_NE(fault_of_class("1gpu"), "");
  EXPECT_EQ(file_name("gpu"), "k8s.device-plugin.nvidia.com-gpu.json");
}

}  // namespace
}  // namespace tranche::cdi
