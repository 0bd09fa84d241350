// The device nodes that a container with a GPU needs.
#include "doctor/check/check.h"

namespace tranche::check {
namespace {

void check_node(const CheckOptions& options, const std::string& path, const std::string& remedy, Findings& findings) {
  const auto there = status_of(under_root(options, path));
  if (!std::filesystem::is_character_file(there))
    return findings.fail("device.node", path,
                         there.type() == std::filesystem::file_type::not_found ? "the device node is missing"
                                                                               : "this is not a character device",
                         remedy);
  constexpr auto kAnyone = std::filesystem::perms::others_read | std::filesystem::perms::others_write;
  if ((there.permissions() & kAnyone) != kAnyone)
    findings.warn("device.node", path, "only its owner and group may use this device: pods of other users cannot",
                  "set NVreg_DeviceFileMode=0666 for the nvidia module");
}

}  // namespace

void check_devices(const CheckOptions& options, const inventory::Inventory& node, Findings& findings) {
  if (node.gpus.empty()) return;  // without a driver the nodes are missing too: one finding is enough
  const std::size_t before = findings.size();
  check_node(options, "/dev/nvidiactl", "run `nvidia-smi` once as root, or `nvidia-modprobe`", findings);
  check_node(options, "/dev/nvidia-uvm", "run `nvidia-modprobe -u -c=0`: without it CUDA fails with CUDA_ERROR_UNKNOWN",
             findings);
  for (const inventory::Gpu& gpu : node.gpus) {
    check_node(options, "/dev/nvidia" + std::to_string(gpu.minor),
               "run `nvidia-modprobe -c=" + std::to_string(gpu.minor) + "`", findings);
  }
  if (findings.size() == before) {
    findings.pass("device.node", "/dev", "device nodes of the driver and of every GPU are there");
  }
}

}  // namespace tranche::check
