#include "node_spec.h"

#include "base/text.h"
#include "sim_node.h"
#include "topology.h"
#include "yaml_tree.h"

namespace tranche::sim {
namespace {

bool plausible_uuid(std::string_view uuid) {
  if (!uuid.starts_with("GPU-") || uuid.size() != 40) return false;
  for (std::size_t i = 4; i < uuid.size(); ++i) {
    const bool dash = i == 12 || i == 17 || i == 22 || i == 27;
    if (dash != (uuid[i] == '-')) return false;
    if (!dash && std::string_view("0123456789abcdef").find(uuid[i]) == std::string_view::npos) return false;
  }
  return true;
}

bool plausible_bus_id(std::string_view id) {  // 00000000:1B:00.0
  if (id.size() != 16 || id[8] != ':' || id[11] != ':' || !id.ends_with(".0")) return false;
  for (const auto part : {id.substr(0, 8), id.substr(9, 2), id.substr(12, 2)}) {
    if (!parse_unsigned(part, 16)) return false;
  }
  return true;
}

void read_profile(YamlReader& reader, const YamlItem& item, GpuSpec& gpu) {
  if (!reader.required(item, "profile")) return;
  const YamlItem& profile = *item.find("profile");
  reader.text(item, "profile", gpu.profile);
  gpu.profile_place = profile.place;
  if (gpu.profile.empty() || gpu.profile.find('/') != std::string::npos) {
    reader.fault(profile, "must be the name of a profile", "write for example: profile: H200");
  }
}

GpuSpec read_gpu(YamlReader& reader, const YamlItem& item) {
  GpuSpec gpu;
  if (!reader.expect_map(item, {"profile", "uuid", "pci", "numa", "minor", "mig"})) return gpu;
  read_profile(reader, item, gpu);
  reader.text(item, "uuid", gpu.uuid);
  reader.text(item, "pci", gpu.pci);
  if (!gpu.uuid.empty() && !plausible_uuid(gpu.uuid)) {
    reader.fault(*item.find("uuid"), "is not a GPU's UUID",
                 "write for example: GPU-3f2a1b4c-0000-0000-0000-000000000001");
  }
  if (!gpu.pci.empty() && !plausible_bus_id(gpu.pci)) {
    reader.fault(*item.find("pci"), "is not a bus address", "write for example: \"00000000:1B:00.0\"");
    gpu.pci.clear();
  }
  if (item.find("numa") != nullptr) reader.signed_number(item, "numa", gpu.numa);
  reader.signed_number(item, "minor", gpu.minor);
  if (const auto* mig = item.find("mig"); mig != nullptr && reader.expect_list(*mig)) {
    gpu.mig_on = true;
    for (const auto& [name, entry] : mig->entries) gpu.mig.push_back(entry.text);
  }
  return gpu;
}

void read_gpus(YamlReader& reader, const YamlItem& item, std::vector<GpuSpec>& gpus) {
  if (item.shape == YamlItem::Shape::kList) {
    for (const auto& [name, entry] : item.entries) gpus.push_back(read_gpu(reader, entry));
  } else if (reader.expect_map(item, {"profile", "count"})) {
    GpuSpec gpu;
    std::uint32_t count = 1;
    read_profile(reader, item, gpu);
    reader.number(item, "count", count, kMaxGpus);
    gpus.assign(count, gpu);
  }
  if (gpus.size() > kMaxGpus) {
    reader.fault(item, "lists more than 16 GPUs", "keep at most 16");
    gpus.resize(kMaxGpus);
  }
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!gpus[i].uuid.empty() && gpus[i].uuid == gpus[j].uuid) {
        reader.fault(item, "names the UUID " + gpus[i].uuid + " twice", "give every GPU a UUID of its own");
      }
    }
  }
}

}  // namespace

NodeSpec parse_node_spec(std::string_view text, const std::string& source, std::vector<Problem>& problems) {
  NodeSpec spec;
  const auto root = read_yaml(text, source, problems);
  if (!root) return spec;
  YamlReader reader(problems);
  if (!reader.expect_map(*root,
                         {"gpus", "driver", "cuda", "driverPresent", "requireRoot", "topology", "seed", "procRoot"})) {
    return spec;
  }
  reader.text(*root, "driver", spec.driver);
  reader.number(*root, "cuda", spec.cuda, 99999);
  reader.flag(*root, "driverPresent", spec.driver_present);
  reader.flag(*root, "requireRoot", spec.require_root);
  reader.text(*root, "seed", spec.seed);
  reader.text(*root, "procRoot", spec.proc_root);
  reader.text(*root, "topology", spec.topology);
  if (!spec.topology.empty() && !topology_known(spec.topology)) {
    const auto names = topology_names();
    const std::vector<std::string> listed(names.begin(), names.end());
    reader.fault(*root->find("topology"), in_quotes(spec.topology) + " is not a known topology",
                 "write one of: " + join(listed, ", "));
    spec.topology.clear();
  }
  if (reader.required(*root, "gpus")) read_gpus(reader, *root->find("gpus"), spec.gpus);
  return spec;
}

}  // namespace tranche::sim
