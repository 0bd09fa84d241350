// Compares the driver's GPUs with the agent's status.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "doctor/verify/check_groups.h"

namespace tranche::verify {
namespace {

using Json = nlohmann::json;

const Json* device_of(const Json& node_status, const std::string& uuid) {
  for (const Json& device : list_at(node_status, "devices"))
    if (text_at(device, "uuid") == uuid) return &device;
  return nullptr;
}

// Of its MIG devices, or what was left out with a reason.
bool is_accounted_for(const Json& node_status, const inventory::Gpu& gpu) {
  for (const auto& mig : gpu.mig_devices)
    if (device_of(node_status, mig.uuid) != nullptr) return true;
  return std::ranges::any_of(list_at(node_status, "leftOut"), [&](const Json& left) {
    const std::string what = text_at(left, "what");
    return what.find(gpu.uuid) != std::string::npos || what.find(fmt::format("GPU {}", gpu.index)) != std::string::npos;
  });
}

void check_gpu(const inventory::Gpu& gpu, const Json& device, Findings& checks) {
  const auto memory = count_at(device, "memoryMiB"), each = count_at(device, "slotMemoryMiB");
  const auto slots = list_at(device, "slots").size();
  const auto sms = count_at(device, "smCount");
  checks.pass_or(Verdict::kFail, memory == gpu.memory.in_mib() && sms == gpu.sm_count, "hardware.gpu", gpu.uuid,
                 fmt::format("{}, {} MiB, {} SMs, {} slots{}", gpu.name, memory, gpu.sm_count, slots,
                             each == 0 ? "" : fmt::format(" of {} MiB", each)),
                 fmt::format("the driver says {} MiB and {} SMs, the agent {} MiB and {} SMs", gpu.memory.in_mib(),
                             gpu.sm_count, memory, sms),
                 "restart the node agent; pods are not disturbed by it");
  if (text_at(device, "sharing") != "mps") return;
  if (gpu.compute_mode == inventory::ComputeMode::kExclusiveProcess) {
    checks.pass("hardware.compute-mode", gpu.uuid, "EXCLUSIVE_PROCESS: nothing starts beside MPS");
  } else if (gpu.compute_mode == inventory::ComputeMode::kDefault) {
    checks.skip("hardware.compute-mode", gpu.uuid, "DEFAULT: a process that avoids MPS can start on it, without limits",
                "wanted with sharing.mps.computeMode: leave; otherwise see the log of tranche mps");
  } else {
    checks.fail("hardware.compute-mode", gpu.uuid,
                fmt::format("{}: MPS cannot serve it", inventory::to_string(gpu.compute_mode)),
                fmt::format("nvidia-smi -c DEFAULT -i {}, then restart tranche mps", gpu.index));
  }
}

}  // namespace

void check_hardware(const inventory::Inventory& hardware, const Json& node_status, Findings& checks) {
  for (const std::string& sentence : hardware.unreadable)
    checks.fail("hardware.gpu", "", sentence, "see dmesg for Xid lines; reset the GPU or reboot the node");
  for (const auto& gpu : hardware.gpus) {
    if (const Json* device = device_of(node_status, gpu.uuid)) {
      check_gpu(gpu, *device, checks);
    } else if (is_accounted_for(node_status, gpu)) {
      checks.pass("hardware.gpu", gpu.uuid, gpu.name + ", served by its MIG devices or left out with a reason");
    } else if (text_at(map_at(map_at(node_status, "dra"), "slices"), "state") == "published") {
      checks.pass("hardware.gpu", gpu.uuid, gpu.name + ", offered to claims");
    } else {
      checks.fail("hardware.gpu", gpu.uuid, gpu.name + " is there and the agent does not serve it",
                  "`tranche status` lists what is left out and why; restart the agent if it is not there");
    }
  }
}

}  // namespace tranche::verify
