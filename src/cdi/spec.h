#pragma once
// One file of the Container Device Interface as a value: the devices of one class, the edits for each of them, and the
// edits for every container that requests any of them. The rules are those of the CDI specification, versions 0.3.0 to
// 1.1.0; fields that Tranche never writes are left out. The content is decided in make_specs.h, files are in cdi/live.
// Pure values.
#include <array>
#include <string>
#include <vector>

namespace tranche::cdi {

inline constexpr const char* kVendor = "k8s.device-plugin.nvidia.com";  // NVIDIA's name for its device plugin's specs

// All classes for which any release has written a file.
inline constexpr std::array kClasses{"gpu", "imex-channel", "gdrcopy", "gds", "mofed"};

struct DeviceNode {
  std::string path;       // in the container, which can read and write it
  std::string host_path;  // "" = the same as `path`; needs version 0.5.0
  friend bool operator==(const DeviceNode&, const DeviceNode&) = default;
};

struct Mount {
  std::string host_path;
  std::string container_path;
  std::vector<std::string> options;
  friend bool operator==(const Mount&, const Mount&) = default;
};

struct Hook {  // of the kind createContainer
  std::string path;
  std::vector<std::string> args;  // args[0] is the program's name, as in execv
  friend bool operator==(const Hook&, const Hook&) = default;
};

struct Edits {
  std::vector<std::string> env;  // "NAME=value"
  std::vector<DeviceNode> device_nodes;
  std::vector<Mount> mounts;
  std::vector<Hook> hooks;
  bool empty() const { return env.empty() && device_nodes.empty() && mounts.empty() && hooks.empty(); }
  friend bool operator==(const Edits&, const Edits&) = default;
};

struct Device {
  std::string name;
  Edits edits;
  friend bool operator==(const Device&, const Device&) = default;
};

struct Spec {
  std::string vendor;  // "k8s.device-plugin.nvidia.com"
  std::string cls;     // "gpu"; `kind` in the file is vendor/class
  std::vector<Device> devices;
  Edits edits;  // for every container that requests any of the devices
  friend bool operator==(const Spec&, const Spec&) = default;
};

// The oldest version of the specification with all features that this spec uses: older runtimes refuse newer versions.
std::string minimum_version(const Spec& spec);

// The file name of a spec in the directory for specs: "vendor-class.json".
std::string file_name(const std::string& cls);

// The JSON of a spec file, indented, with fields and lists in a fixed order and a final line end. Bytes that are not
// UTF-8 become U+FFFD.
std::string render(const Spec& spec);

}  // namespace tranche::cdi
