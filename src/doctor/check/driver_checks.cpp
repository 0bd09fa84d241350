// The driver: kernel module, library, every GPU behind them, and the device nodes that a container with a GPU needs.
#include <algorithm>

#include "base/text.h"
#include "doctor/check/check.h"
#include "gpu/driver/driver.h"
#include "plan/select.h"

namespace tranche::doctor {
namespace {

constexpr unsigned kOldestDriver = 470;

std::string check_module(const CheckOptions& options, Findings& findings) {
  const std::string path = "/sys/module/nvidia/version";
  std::string version = first_line(under_root(options, path));
  findings.pass_or(
      Verdict::kFail, !version.empty(), "driver.module", path, "the NVIDIA kernel module " + version + " is loaded",
      "the NVIDIA kernel module is not loaded",
      "install the driver for this kernel and run `modprobe nvidia`; after a kernel update it must be built again");
  return version;
}

void check_versions(const std::string& module, const std::string& library, const std::string& where,
                    Findings& findings) {
  if (module.empty() || library.empty() || module == library) return;
  findings.fail("driver.version", where,
                "library " + library + " and kernel module " + module + " do not belong together",
                "the driver was upgraded: restart what still uses the old library, or reboot to load the new module");
}

// docs/guide/install.md, "On a cluster".
void check_age(const std::string& library, const std::string& where, Findings& findings) {
  if (parse_unsigned(library.substr(0, library.find('.'))).value_or(kOldestDriver) >= kOldestDriver) return;
  findings.fail(
      "driver.version", where,
      "driver " + library + " is older than " + std::to_string(kOldestDriver) + ", the oldest that this program is for",
      "install driver 470 or newer (the limits were measured with 580), and reboot");
}

void check_gpu(const gpu::Gpu& gpu, const gpu::GpuUse* use, const config::Dra& dra, Findings& findings) {
  const std::string name = "GPU " + std::to_string(gpu.index) + " (" + gpu.name + ")";
  const std::string number = std::to_string(gpu.index);
  findings.pass("gpu.answers", gpu.uuid,
                name + " answers: " + to_string(gpu.memory) + ", " + std::to_string(gpu.sm_count) + " SMs");
  if (gpu.compute_capability < gpu::ComputeCapability{7, 0}) {
    findings.warn("gpu.mps", gpu.uuid, name + " is older than Volta: MPS cannot limit its tenants",
                  "share it by time-slicing, or leave it whole");
  }
  const bool on_demand = dra.partitions == config::DraPartitions::kOnDemand && plan::is_for_claims(dra, gpu);
  if (gpu.mig_enabled && gpu.mig_devices.empty() && !on_demand) {
    findings.warn("gpu.mig", gpu.uuid, name + " is in MIG mode and has no MIG device",
                  "make instances (`tranche mig profiles` lists what fits; `nvidia-smi mig -cgi … -C`), "
                  "or switch MIG off (`nvidia-smi -mig 0 -i " +
                      number + "`)");
  }
  if (gpu.compute_mode == gpu::ComputeMode::kProhibited) {
    findings.fail("gpu.compute-mode", gpu.uuid, name + " refuses all computing (compute mode PROHIBITED)",
                  "nvidia-smi -c DEFAULT -i " + number);
  } else if (gpu.compute_mode == gpu::ComputeMode::kExclusiveProcess) {
    findings.note("gpu.compute-mode", gpu.uuid,
                  name + " accepts one process at a time (compute mode EXCLUSIVE_PROCESS), which only MPS needs",
                  "if the GPU is not shared by MPS: nvidia-smi -c DEFAULT -i " + number);
  }
  if (use != nullptr && use->persistence == false) {
    findings.warn("gpu.persistence", gpu.uuid,
                  name + ": persistence mode is off: the first CUDA call is slow and settings are lost when idle",
                  "run nvidia-persistenced, or nvidia-smi -pm 1 -i " + number);
  }
}

// WSL and Tegra have neither the module nor device nodes of their own: what is an error elsewhere is as it should be.
void note_platform(gpu::Platform platform, Findings& findings) {
  findings.pass("driver.platform", "",
                platform == gpu::Platform::kTegra
                    ? "this is a Tegra system, whose GPU is served as one device without a driver library"
                    : "this is a system under WSL, whose GPUs are served as one device, /dev/dxg");
}

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

gpu::Inventory check_driver(const CheckOptions& options, Findings& findings) {
  const Result<std::unique_ptr<gpu::nvml::Driver>> nvml = gpu::nvml::Driver::open(
      {.driver_root = options.driver_root == "/" ? options.root : under_root(options, options.driver_root),
       .system_root = options.root});
  Result<gpu::Inventory> node = nvml ? (*nvml)->scan() : std::unexpected(nvml.error());
  const bool ordinary = !node || node->platform == gpu::Platform::kNvml;
  if (!ordinary) note_platform(node->platform, findings);
  if (node && node->platform == gpu::Platform::kTegra) return *std::move(node);
  const std::string module = ordinary ? check_module(options, findings) : "";
  if (!nvml) {
    findings.fail("driver.library", nvml.error().where, nvml.error().what,
                  "see that libnvidia-ml.so.1 belongs to the loaded module and can be found");
    return {};
  }
  if (!node) {
    findings.fail("driver.library", node.error().where, node.error().what, "see dmesg for Xid lines");
    return {};
  }
  const int cuda = node->cuda_driver_version;
  findings.pass("driver.library", (*nvml)->library_path(),
                "the driver library " + node->driver_version + " answers (CUDA " + std::to_string(cuda / 1000) + "." +
                    std::to_string(cuda % 1000 / 10) + ")");
  check_versions(module, node->driver_version, (*nvml)->library_path(), findings);
  if (ordinary) check_age(node->driver_version, (*nvml)->library_path(), findings);
  for (const std::string& sentence : node->unreadable) {
    findings.fail("gpu.answers", "", sentence, "see dmesg for Xid lines; reset the GPU or reboot the node");
  }
  if (node->gpus.empty() && node->unreadable.empty()) {
    findings.fail("gpu.answers", "", "the driver reports no GPU",
                  "run `lspci -k -d 10de:` to see the GPUs and the kernel driver that each uses");
  }
  for (const std::string& sentence : node->doubts)
    findings.warn("gpu.doubt", "", sentence, "see dmesg, and whether the driver is of this GPU");
  const auto uses = (*nvml)->use().value_or(std::vector<gpu::GpuUse>{});
  for (const gpu::Gpu& gpu : node->gpus) {
    const auto use = std::ranges::find(uses, gpu.uuid, &gpu::GpuUse::uuid);
    check_gpu(gpu, use == uses.end() ? nullptr : &*use, options.dra.config, findings);
  }
  return *std::move(node);
}

void check_devices(const CheckOptions& options, const gpu::Inventory& node, Findings& findings) {
  if (node.gpus.empty()) return;  // without a driver the nodes are missing too: one finding is enough
  const std::size_t before = findings.size();
  check_node(options, "/dev/nvidiactl", "run `nvidia-smi` once as root, or `nvidia-modprobe`", findings);
  check_node(options, "/dev/nvidia-uvm", "run `nvidia-modprobe -u -c=0`: without it CUDA fails with CUDA_ERROR_UNKNOWN",
             findings);
  for (const gpu::Gpu& gpu : node.gpus) {
    check_node(options, "/dev/nvidia" + std::to_string(gpu.minor),
               "run `nvidia-modprobe -c=" + std::to_string(gpu.minor) + "`", findings);
  }
  if (findings.size() == before) {
    findings.pass("device.node", "/dev", "device nodes of the driver and of every GPU are there");
  }
}

}  // namespace tranche::doctor
