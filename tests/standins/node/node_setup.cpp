#include "node_setup.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include "base/problem.h"
#include "base/text.h"
#include "mig.h"
#include "node_spec.h"
#include "topology.h"

namespace tranche::sim {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

bool is_directory(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Profiles by name, each read once.
class Profiles {
 public:
  explicit Profiles(std::vector<Problem>& problems) : directory_(profile_directory()), problems_(problems) {}

  const GpuProfile* find(const GpuSpec& spec) {
    if (const auto known = loaded_.find(spec.profile); known != loaded_.end()) return &known->second;
    const std::string path = directory_ + "/" + spec.profile + ".yaml";
    const auto text = directory_.empty() ? std::nullopt : read_text(path);
    if (!text) {
      complain(spec);
      return nullptr;
    }
    GpuProfile profile = parse_profile(*text, path, problems_);
    profile.key = spec.profile;
    return &loaded_.emplace(spec.profile, profile).first->second;
  }

 private:
  void complain(const GpuSpec& spec) {
    std::string remedy = "set $TRANCHE_SIM_PROFILES to the folder of GPU profiles";
    if (!directory_.empty()) {
      const auto names = profile_names(directory_);
      const std::string meant = did_you_mean(spec.profile, {names.begin(), names.end()});
      remedy = meant.empty() ? "write one of: " + join(names, ", ") : "did you mean " + meant + "?";
    }
    problems_.push_back(
        {Severity::kError, spec.profile_place, "profile",
         "there is no GPU profile " + in_quotes(spec.profile) + (directory_.empty() ? "" : " in " + directory_),
         remedy});
  }

  std::string directory_;
  std::vector<Problem>& problems_;
  std::map<std::string, GpuProfile> loaded_;
};

// Identical in every run; the last of the first eight digits counts the GPUs, so that names cut there stay distinct.
std::string made_up_uuid(const NodeSpec& spec, const std::string& profile, int index) {
  const std::string node = spec.seed + "/" + profile;
  const std::string bits = node + "/" + std::to_string(index);
  std::string head = hex16(stable_hash(node)).substr(0, 7) + "0123456789abcdef"[index % 16];
  const std::string tail = hex16(stable_hash(bits)) + hex16(stable_hash(bits + "/low"));
  return "GPU-" + head + "-" + tail.substr(0, 4) + "-" + tail.substr(4, 4) + "-" + tail.substr(8, 4) + "-" +
         tail.substr(16, 12);
}

std::string bus_id_of(const TopologySlot& slot) {
  char text[24];
  std::snprintf(text, sizeof(text), "%08X:%02X:%02X.0", slot.domain, slot.bus & 0xff, slot.device & 0xff);
  return text;
}

TopologySlot slot_of(const NodeSpec& spec, const GpuSpec& gpu, int index) {
  TopologySlot slot = topology_slot(spec.topology, index);
  if (!gpu.pci.empty()) {  // the parser has checked its shape
    const std::string_view id = gpu.pci;
    slot.domain = static_cast<std::uint32_t>(parse_unsigned(id.substr(0, 8), 16).value_or(0));
    slot.bus = static_cast<std::uint32_t>(parse_unsigned(id.substr(9, 2), 16).value_or(0));
    slot.device = static_cast<std::uint32_t>(parse_unsigned(id.substr(12, 2), 16).value_or(0));
  }
  if (gpu.numa != -2) slot.numa = gpu.numa;
  return slot;
}

void fill_gpu(const NodeSpec& spec, const GpuSpec& wanted, const GpuProfile& profile, int index, GpuState& gpu) {
  gpu.profile = profile;
  gpu.uuid = wanted.uuid.empty() ? made_up_uuid(spec, wanted.profile, index) : wanted.uuid;
  gpu.slot = slot_of(spec, wanted, index);
  gpu.bus_id = bus_id_of(gpu.slot);
  gpu.serial = std::to_string(1650000000000 + stable_hash(gpu.uuid.view()) % 1000000000);
  gpu.minor = wanted.minor >= 0 ? static_cast<std::uint32_t>(wanted.minor) : static_cast<std::uint32_t>(index);
  gpu.persistence = 1;
  gpu.temperature_c = 30;
  gpu.power_mw = profile.power_idle_mw;
  gpu.power_limit_mw = profile.power_default_mw;
}

void fill_gpus(const NodeSpec& spec, Profiles& profiles, std::vector<Problem>& problems, State& state) {
  int index = 0;
  for (const auto& wanted : spec.gpus) {
    const GpuProfile* profile = profiles.find(wanted);
    if (profile == nullptr) return;
    GpuState& gpu = state.gpus[index];
    fill_gpu(spec, wanted, *profile, index, gpu);
    if (wanted.mig_on) {
      if (const auto cut = apply_mig_layout(gpu, wanted.mig); !cut) {
        problems.push_back({Severity::kError, wanted.profile_place, "gpus[" + std::to_string(index) + "].mig",
                            cut.error(), "take out or exchange an entry"});
      }
    }
    ++index;
  }
  state.gpu_count = static_cast<std::uint32_t>(index);
}

}  // namespace

std::string profile_directory() {
  if (const char* named = std::getenv("TRANCHE_SIM_PROFILES"); named != nullptr) {
    return is_directory(named) ? named : "";
  }
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&profile_directory), &self) != 0 && self.dli_fname != nullptr) {
    std::error_code ignored;
    // For a program the loader may know only the name it was called by.
    for (const fs::path& path : {fs::path(self.dli_fname), fs::read_symlink("/proc/self/exe", ignored)}) {
      const std::string beside = (path.parent_path() / "profiles").string();
      if (is_directory(beside)) return beside;
    }
  }
  if (const char* build = std::getenv("TRANCHE_BUILD"); build != nullptr) {
    const std::string built = std::string(build) + "/standins/profiles";
    if (is_directory(built)) return built;
  }
  return {};
}

std::vector<std::string> profile_names(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator it(directory, failed), end; !failed && it != end; it.increment(failed)) {
    if (it->path().extension() == ".yaml") names.push_back(it->path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

std::expected<void, std::string> fill_from_yaml(const std::string& dir, State& state) {
  const std::string path = dir + "/node.yaml";
  const auto text = read_text(path);
  if (!text)
    return std::unexpected("there is no simulated node: cannot read " + path + "; make one with sim-node init");
  std::vector<Problem> problems;
  NodeSpec spec = parse_node_spec(*text, path, problems);
  Profiles profiles(problems);
  if (spec.topology.empty() && !spec.gpus.empty() && !has_error(problems)) {
    if (const GpuProfile* first = profiles.find(spec.gpus.front())) spec.topology = first->board.str();
  }
  if (!has_error(problems)) fill_gpus(spec, profiles, problems, state);
  if (has_error(problems)) {
    std::vector<std::string> lines;
    for (const auto& problem : problems) lines.push_back(to_string(problem));
    std::ranges::sort(lines);
    lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
    return std::unexpected(join(lines, "\n"));
  }
  state.driver = spec.driver;
  state.topology = spec.topology;
  state.seed = spec.seed;
  state.proc_root = spec.proc_root;
  state.cuda = static_cast<std::int32_t>(spec.cuda);
  state.driver_present = spec.driver_present ? 1 : 0;
  state.require_root = spec.require_root ? 1 : 0;
  return {};
}

}  // namespace tranche::sim
