// What is read of GPUs and of their MIG devices, and the labels made of it.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "base/problem.h"
#include "fuzz/target.h"
#include "gpu/driver/mig/mig.h"
#include "gpu/driver/processes.h"
#include "gpu/health/healthchecks.h"
#include "gpu/inventory/inventory.h"
#include "gpu/models/models.h"
#include "labels/label.h"
#include "labels/outputs.h"
#include "labels/pci.h"
#include "mig/configuration.h"
#include "mig/driver/checkpoint.h"
#include "mig/mig_plan.h"
#include "observe/metrics/page.h"

using namespace tranche;

// Any text is read without harm; an inventory that is accepted is written and read back to itself.
FUZZ(inventory_json) {
  using namespace tranche::gpu;
  const auto inventory = parse_inventory(text, "fuzz");
  if (!inventory) {
    if (inventory.error().what.empty()) std::abort();
    return;
  }
  const auto again = parse_inventory(to_json(*inventory).dump(), "again");
  if (!again || *again != *inventory) std::abort();
}

// Any text as the driver's table of MIG capability nodes: every number found is one that a device node can have, and
// at most four sentences are about its lines.
FUZZ(mig_minors) {
  tranche::gpu::Inventory inventory;
  inventory.gpus.resize(1);
  for (std::uint32_t gi = 0; gi < 8; ++gi) inventory.gpus[0].mig_devices.emplace_back().gpu_instance = gi;
  tranche::gpu::set_mig_nodes(text, "table", inventory);
  for (const auto& mig : inventory.gpus[0].mig_devices)
    if (mig.gi_cap.value_or(0) > 0xfffff || mig.ci_cap.value_or(0) > 0xfffff) std::abort();
  if (inventory.doubts.size() > 4 + inventory.gpus[0].mig_devices.size()) std::abort();
}

// What the driver library writes into our buffers is outside text too: whatever it wrote, the stride is one of the
// three that exist, entries stay inside the buffer, and an address is a safe file name.
FUZZ(nvml_memory) {
  using namespace tranche::gpu::nvml;
  if (text.size() < 2) return;
  const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(text[at]); };
  const std::size_t count = byte(0);
  const auto buffer = std::as_bytes(std::span(text.substr(2)));
  const std::size_t stride = stride_of(buffer, count);
  if (stride != 16 && stride != 24 && stride != 32) std::abort();
  if (entries_of(buffer, count, stride).size() * stride > buffer.size()) std::abort();

  const std::string address = tranche::gpu::sysfs_address(text);
  if (address.find('/') != std::string::npos || address.find("..") != std::string::npos) std::abort();
  if (!address.empty() && tranche::gpu::sysfs_address(address) != address) std::abort();

  std::uint64_t numbers[2] = {};
  for (std::size_t i = 0; i < text.size() && i < 16; ++i) numbers[i / 8] = numbers[i / 8] << 8 | byte(i);
  if (profile_text(byte(0), byte(1), numbers[0] >> 24, numbers[1], "").find("gb") == std::string::npos) std::abort();
}

// Any two values (separated by the first line end) are read without harm; what is understood is written as the same
// choice, every token that is not has its warning, and enabling always beats disabling.
FUZZ(dp_healthchecks) {
  using namespace tranche::gpu;
  const std::size_t cut = text.find('\n');
  const std::string_view disable = text.substr(0, cut);
  const std::string_view enable = cut == std::string_view::npos ? "" : text.substr(cut + 1);
  std::vector<tranche::Problem> problems;
  const HealthChecks checks = parse_health_checks(disable, enable, problems);
  if (tranche::has_error(problems) || problems.size() > text.size() + 2) std::abort();
  std::vector<tranche::Problem> none;
  if (parse_health_checks(to_string(checks.disabled), to_string(checks.enabled), none) != checks || !none.empty())
    std::abort();
  for (const std::uint64_t xid : checks.enabled.xids) {
    const XidClass cls = class_of(checks, xid);
    if (cls != XidClass::kDrain && cls != XidClass::kReset) std::abort();
  }
  for (const std::uint64_t xid : checks.disabled.xids) {
    const bool ignored = class_of(checks, xid) == XidClass::kIgnore;
    if (ignored == (checks.enabled.all || checks.enabled.xids.contains(xid))) std::abort();
  }
}

// Any text is read as a MIG configuration without harm; what is accepted is written and read back as the same.
FUZZ(mig_configuration) {
  using namespace tranche::mig;
  const auto parsed = parse_configuration_file(text, "fuzz");
  for (const auto& problem : parsed.problems)
    if (problem.what.empty() || problem.remedy.empty() || problem.place.line < 0) std::abort();
  if (parsed.problems.size() > tranche::ProblemList::kMost + 1) std::abort();
  if (has_error(parsed.problems)) return;
  const auto yaml = parse_configuration_file(to_yaml(parsed.file), "again");
  if (has_error(yaml.problems) || to_yaml(yaml.file) != to_yaml(parsed.file)) std::abort();
  const auto json = parse_configuration_file(to_json_text(parsed.file), "again");
  if (has_error(json.problems) || to_yaml(json.file) != to_yaml(parsed.file)) std::abort();
  static const auto gpus = *gpu::simulated_node("2xA100-SXM4-40GB");
  for (const auto& configuration : parsed.file.configurations) {
    const auto plan = make_plan(configuration, gpus);
    if (plan.possible() && plan.as_wanted() != plan_json(plan).contains("\"asConfigured\": true,\n  \"possible\""))
      std::abort();
  }
}

// Any text is read as a checkpoint without harm; what is accepted is refused by a node without its GPUs.
FUZZ(mig_checkpoint) {
  using namespace tranche::mig;
  const auto parsed = parse_checkpoint(text);
  if (!parsed) return;
  const auto plan = restoring_plan(*parsed, {}, false, "fuzz");
  if (plan.possible() != parsed->gpus.empty()) std::abort();
}

// Any bytes as a PCI configuration space: never read beyond it, and what is reported of a host fits its fields.
FUZZ(vgpu_capability) {
  const auto vgpu = tranche::labels::vgpu_of(text);
  if (vgpu.has_value() != (text.size() >= 256)) std::abort();
  if (!vgpu) return;
  if (vgpu->host_driver_version.size() > 10 || vgpu->host_driver_branch.size() > 10) std::abort();
  if (!vgpu->present && !vgpu->host_driver_version.empty()) std::abort();
}

namespace {

using tranche::labels::Labels;

void check_node(std::string_view text, const Labels& wanted) {
  const auto change = tranche::labels::change_node(text, wanted);
  if (!change || !change->patch) return;
  const auto patch = nlohmann::json::parse(*change->patch, nullptr, false);
  if (!patch.is_object() || !patch.contains("metadata")) std::abort();
  const auto metadata = patch["metadata"];
  if (metadata.contains("labels"))
    for (const auto& [key, value] : metadata["labels"].items())
      if (!tranche::labels::may_own(key)) std::abort();
  auto node = nlohmann::json::parse(text, nullptr, false);
  node.merge_patch(patch);
  const auto again =
      tranche::labels::change_node(node.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), wanted);
  if (!again || again->patch || again->foreign != change->foreign) std::abort();
}

}  // namespace

// Any bytes as a Node: the change is one JSON document that touches our labels only, and after it nothing is left to
// do. The same bytes as a pod and as a NodeFeature object.
FUZZ(node_labels) {
  const Labels wanted{{"nvidia.com/gpu.count", "2"}, {"tranche.io/gpu.slot.sms", "12"}, {"nvidia.com/mig.config", "x"}};
  check_node(text, wanted);
  check_node(text, {});
  tranche::labels::LabelTarget place{"n1"};
  if (const auto owners = tranche::labels::owners_of_pod(text)) place.owners = *owners;
  const auto changed = tranche::labels::changed_feature(text, place, wanted);
  if (!changed || !*changed) return;
  const auto again = tranche::labels::changed_feature(**changed, place, wanted);
  if (!again || again->has_value()) std::abort();
}

// Any bytes as what a node says of itself (machine type, model, driver version, host of a virtual GPU, database of PCI
// ids, regions of a function): labels are always legal.
FUZZ(node_label_texts) {
  const std::string all(text);
  gpu::Inventory inventory;
  inventory.driver_version = all;
  gpu::Gpu gpu;
  gpu.uuid = "GPU-1";
  gpu.name = all;
  gpu.fabric_clique = all;
  gpu.mig_enabled = true;
  gpu::MigDevice mig;
  mig.profile = all;
  gpu.mig_devices = {mig};
  inventory.gpus = {gpu};
  config::Config config;
  config.flags.mig_strategy = config::MigStrategy::kMixed;
  labels::Inputs inputs;
  inputs.machine_type = all;
  inputs.vgpu = labels::Vgpu{true, all, all};
  for (const auto& [key, value] : labels::labels_for(config, inventory, {}, inputs))
    if (!labels::legal_key(key) || !labels::legal_value(value)) std::abort();
  if (labels::device_name(all, 0x2335).size() > text.size()) std::abort();
  (void)labels::largest_region(all);
  (void)labels::hex_number(all);
}

// Any bytes as the value of a metric's label: bounded, stable, and the page keeps its three lines.
FUZZ(label_value) {
  namespace metrics = tranche::metrics;
  const auto value = metrics::label_value(text);
  if (value.size() > metrics::kLongestLabelValue || metrics::label_value(value) != value) std::abort();
  metrics::Page page;
  page.set("tranche_grants_total", {text}, 1);
  const auto written = metrics::to_text(page).str();
  if (std::ranges::count(written, '\n') != 3) std::abort();
}
