// Every stand-in GPU × MIG layout × MIG strategy × sharing × renaming → the node's labels, one file per GPU model.
// Beside the files, the rules of GPU feature discovery are asserted by themselves, from what the node has and not from
// what the labels say. The first case of H200.txt has all labels. The other cases without sharing have what differs
// from it, the cases with sharing what differs from the same node without; cases of equal differences share a line. The
// other files have what differs from H200.txt: the labels of their first case, and each case that is not as there but
// for the names of the model and of its MIG profiles.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "golden/golden.h"
#include "golden/json_lines.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/sim_fixture.h"
#include "gpu/models/models.h"
#include "labels/label.h"
#include "plan/plan.h"

namespace tranche {
namespace {

using config::Config;
using config::MigStrategy;
using config::SharingStrategy;
using gpu::Gpu;
using gpu::Inventory;
using labels::Labels;

struct Model {
  const char* profile;
  std::vector<const char*> uniform;  // instances on every GPU; none where there is no MIG
  std::vector<const char*> various;  // on the first of two
};
void PrintTo(const Model& model, std::ostream* out) {
  *out << model.profile;
}
const Model kBase{"H200", {"1g.18gb", "1g.18gb"}, {"3g.71gb", "1g.18gb", "1g.18gb+me"}};
const std::vector<Model> kModels{kBase,
                                 {"A30", {"1g.6gb", "1g.6gb"}, {"2g.12gb", "1g.6gb", "1g.6gb+me"}},
                                 {"A100-PCIE-40GB", {"1g.5gb", "1g.5gb"}, {"3g.20gb", "1g.5gb", "1g.5gb+me"}},
                                 {"A100-SXM4-40GB", {"1g.5gb", "1g.5gb"}, {"3g.20gb", "1g.5gb", "1g.5gb+me"}},
                                 {"A100-SXM4-80GB", {"2g.20gb", "2g.20gb"}, {"3g.40gb", "1g.10gb", "1g.10gb+me"}},
                                 {"B200", {"1g.23gb", "1g.23gb"}, {"3g.90gb", "1g.23gb"}},
                                 {"H100-SXM5-80GB", {"1g.10gb", "1g.10gb"}, {"3g.40gb", "1g.10gb"}},
                                 {"RTX-PRO-6000", {"1g.24gb", "1g.24gb"}, {"2g.48gb", "1g.24gb+gfx"}},
                                 {"A10", {}, {}},
                                 {"L4", {}, {}},
                                 {"L40S", {}, {}},
                                 {"RTX-5090", {}, {}},
                                 {"T4", {}, {}},
                                 {"V100", {}, {}},
                                 {"DGX-Display", {}, {}}};

struct Case {  // named layout/migStrategy/sharing
  std::string layout;
  MigStrategy mig = MigStrategy::kNone;
  SharingStrategy sharing = SharingStrategy::kNone;
  bool renamed = false;
};
constexpr std::uint32_t kReplicas = 4;

std::string name_of(const Case& row) {
  return row.layout + "/" + std::string(to_string(row.mig)) + "/" + std::string(to_string(row.sharing)) +
         (row.renamed ? "/renamed" : "");
}

std::string instances(const std::vector<const char*>& list) {
  std::string text = ", mig: [";
  for (const char* name : list) text += std::string(text.ends_with('[') ? "" : ", ") + name;
  return text + "]";
}

std::string node_yaml(const Model& model, const std::string& layout) {
  const std::string gpu = std::string("{profile: ") + model.profile;
  const std::string uniform = instances(model.uniform);
  const std::string first = layout == "plain" ? "" : layout == "uniform" ? uniform : instances(model.various);
  const std::string second = layout == "uniform" ? uniform : "";
  return "gpus: [" + gpu + first + "}, " + gpu + second + "}]\ntopology: vm\n";
}

Inventory scan(const Model& model, const std::string& layout) {
  gpu::nvml::SimFixture node(node_yaml(model, layout));
  if (const auto* known = gpu::find_model(model.profile))
    for (const auto& gpu : node.node().gpus())
      node.write("/sys/bus/pci/devices/" + gpu::sysfs_address(gpu.pci_bus_id) + "/class",
                 known->pci_class == 0x030000 ? "0x030000\n" : "0x030200\n");
  const auto nvml = gpu::nvml::Driver::open(node.settings());
  EXPECT_TRUE(nvml) << to_string(nvml.error());
  if (!nvml) return {};
  auto scanned = (*nvml)->scan();
  EXPECT_TRUE(scanned) << to_string(scanned.error());
  return scanned.value_or(Inventory{});
}

// GPUs and MIG devices of every profile are shared alike.
Config config_of(const Case& row, const Inventory& inventory) {
  Config config;
  config.flags.mig_strategy = row.mig;
  config.sharing.strategy = row.sharing;
  if (row.sharing == SharingStrategy::kNone) return config;
  std::set<std::string> names{"nvidia.com/gpu"};
  if (row.mig == MigStrategy::kMixed)
    for (const Gpu& gpu : inventory.gpus)
      for (const auto& mig : gpu.mig_devices) {
        std::string name = "nvidia.com/mig-" + mig.profile;
        for (char& c : name) c = c == '+' ? '.' : c;
        names.insert(name);
      }
  for (const auto& name : names) {
    config::SharedResource entry;
    entry.name = name;
    entry.replicas = kReplicas;
    if (row.renamed) entry.rename = name + ".shared";
    config.sharing.resources.push_back(entry);
  }
  return config;
}

Labels labels_of(const Case& row, const Inventory& inventory) {
  const Config config = config_of(row, inventory);
  labels::Inputs inputs;
  inputs.machine_type = "Example Node";
  inputs.loaded_at = WallTime(std::chrono::seconds(1700000000));
  inputs.vgpu = labels::Vgpu{};
  return labels::labels_for(config, inventory, plan::make_plan(config, inventory).value_or(plan::Plan{}), inputs);
}

std::string rendered(const Labels& labels, const Labels& than) {
  std::string text;
  for (const auto& line : golden::label_lines(labels, than)) text += "  " + line + "\n";
  return text.empty() ? "  the same\n" : text;
}

std::vector<Case> cases_of(const Model& model) {
  std::vector<Case> cases;
  std::vector<std::string> layouts{"plain"};
  if (!model.uniform.empty()) layouts.insert(layouts.end(), {"uniform", "various"});
  for (const auto& layout : layouts)
    for (const auto mig : {MigStrategy::kNone, MigStrategy::kSingle, MigStrategy::kMixed})
      for (const auto sharing : {SharingStrategy::kNone, SharingStrategy::kTimeSlicing, SharingStrategy::kMps})
        for (const bool renamed : {false, true}) {
          const bool refused = mig == MigStrategy::kMixed && sharing == SharingStrategy::kMps;  // by the configuration
          const bool twice = renamed && sharing == SharingStrategy::kNone;
          if (!refused && !twice) cases.push_back({layout, mig, sharing, renamed});
        }
  return cases;
}

// ---- the rules, by themselves

class Rules {
 public:
  Rules(const Case& row, const Inventory& node, const Labels& labels) : row_(row), node_(node), labels_(labels) {}

  void hold() const {
    for (const auto& [key, value] : labels_) {
      EXPECT_TRUE(labels::legal_key(key)) << key;
      EXPECT_TRUE(labels::legal_value(value)) << key << "=" << value;
      for (const char* others : {"nvidia.com/gpu.deploy", "nvidia.com/gpu.present", "nvidia.com/mig.config"})
        EXPECT_FALSE(key.starts_with(others)) << key;
    }
    EXPECT_EQ(of("nvidia.com/gfd.timestamp"), "1700000000");
    EXPECT_EQ(of("nvidia.com/vgpu.present"), "false");
    if (display()) {
      EXPECT_EQ(labels_.size(), 2u) << "a display GPU is none";
      return;
    }
    node_level();
    row_.mig == MigStrategy::kSingle&& with_mig() > 0 ? single() : whole();
    profiles();
    own();
  }

 private:
  std::string of(const std::string& key) const {
    const auto found = labels_.find(key);
    return found == labels_.end() ? "(absent)" : found->second;
  }
  bool display() const { return node_.gpus.front().name.ends_with("DGX Display"); }
  std::size_t with_mig() const {
    return static_cast<std::size_t>(std::ranges::count_if(node_.gpus, &Gpu::mig_enabled));
  }
  // MPS serves whole GPUs; where `single` cannot hold there is no plan at all.
  bool served() const {
    if (row_.sharing != SharingStrategy::kMps) return false;
    return with_mig() == 0 || (row_.mig == MigStrategy::kNone && with_mig() < node_.gpus.size());
  }
  std::map<std::string, std::size_t> devices() const {
    std::map<std::string, std::size_t> count;
    for (const Gpu& gpu : node_.gpus)
      for (const auto& mig : gpu.mig_devices) ++count[mig.profile];
    return count;
  }
  std::string model() const {
    std::string text = node_.gpus.front().name;
    for (char& c : text) c = c == ' ' ? '-' : c;
    return text;
  }
  // The model gives way where the whole would be longer than the API server takes.
  std::string product(const std::string& tail) const {
    std::string text = model();
    text.resize(std::min(text.size(), 63 - tail.size()));
    while (text.ends_with('-')) text.pop_back();
    return text + tail;
  }
  std::string suffix() const { return row_.sharing != SharingStrategy::kNone && !row_.renamed ? "-SHARED" : ""; }
  std::string replicas() const { return row_.sharing == SharingStrategy::kNone ? "1" : std::to_string(kReplicas); }
  std::string strategy() const { return std::string(to_string(row_.sharing)); }

  void node_level() const {
    EXPECT_EQ(of("nvidia.com/gpu.machine"), "Example-Node");
    EXPECT_EQ(of("nvidia.com/mig.strategy"),
              row_.mig == MigStrategy::kNone ? "(absent)" : std::string(to_string(row_.mig)));
    EXPECT_EQ(of("nvidia.com/mps.capable"), served() ? "true" : "false");
    EXPECT_EQ(of("nvidia.com/mig.capable"), node_.gpus.front().mig_capable ? "true" : "false");
    EXPECT_EQ(of("nvidia.com/cuda.driver-version.full"), node_.driver_version);
    EXPECT_EQ(of("nvidia.com/cuda.driver.major") + "." + of("nvidia.com/cuda.driver.minor") + "." +
                  of("nvidia.com/cuda.driver.rev"),
              node_.driver_version);
    const auto pci_class = node_.gpus.front().pci_class;
    EXPECT_EQ(of("nvidia.com/gpu.mode"), pci_class == 0x030200   ? "compute"
                                         : pci_class == 0x030000 ? "graphics"
                                                                 : "unknown");
    static const std::map<int, std::string> kFamilies{{9, "hopper"}, {10, "blackwell"}, {12, "blackwell"}};
    const auto [major, minor] = node_.gpus.front().compute_capability;
    const auto family = kFamilies.find(major);
    EXPECT_EQ(of("nvidia.com/gpu.family"), family != kFamilies.end() ? family->second
                                           : major == 8              ? (minor == 9 ? "ada-lovelace" : "ampere")
                                           : minor == 5              ? "turing"
                                                                     : "volta");
  }
  // GPUs speak, plain ones first.
  void whole() const {
    const bool shareable = with_mig() < node_.gpus.size();
    EXPECT_EQ(of("nvidia.com/gpu.product"), product(shareable ? suffix() : ""));
    EXPECT_EQ(of("nvidia.com/gpu.count"), std::to_string(node_.gpus.size()));
    EXPECT_EQ(of("nvidia.com/gpu.replicas"), shareable ? replicas() : "0");
    EXPECT_EQ(of("nvidia.com/gpu.sharing-strategy"), shareable ? strategy() : "none");
    EXPECT_EQ(of("nvidia.com/gpu.memory"), std::to_string(node_.gpus.front().memory.in_mib()));
    EXPECT_EQ(of("nvidia.com/gpu.slices.gi"), "(absent)");
  }
  void single() const {
    const auto count = devices();
    if (with_mig() < node_.gpus.size() || count.size() != 1) {
      EXPECT_EQ(of("nvidia.com/gpu.product"), product("-MIG-INVALID"));
      for (const char* zero : {"count", "replicas", "memory"})
        EXPECT_EQ(of(std::string("nvidia.com/gpu.") + zero), "0");
      EXPECT_EQ(of("nvidia.com/gpu.sharing-strategy"), "");
      return;
    }
    EXPECT_EQ(of("nvidia.com/gpu.product"), product("-MIG-" + count.begin()->first + suffix()));
    devices_of("nvidia.com/gpu", count.begin()->first, count.begin()->second);
  }
  void profiles() const {
    std::size_t named = 0;
    for (const auto& [key, value] : labels_)
      named += key.starts_with("nvidia.com/mig-") && key.ends_with(".product") ? 1 : 0;
    const auto count = devices();
    EXPECT_EQ(named, row_.mig == MigStrategy::kMixed ? count.size() : 0);
    if (row_.mig != MigStrategy::kMixed) return;
    for (const auto& [profile, devices] : count) {
      std::string dotted = profile;
      for (char& c : dotted) c = c == '+' ? '.' : c;
      EXPECT_EQ(of("nvidia.com/mig-" + dotted + ".product"), product("-MIG-" + dotted + suffix()));
      devices_of("nvidia.com/mig-" + dotted, profile, devices);
    }
  }
  void devices_of(const std::string& resource, const std::string& profile, std::size_t count) const {
    const gpu::MigDevice* first = nullptr;
    for (const Gpu& gpu : node_.gpus)
      for (const auto& mig : gpu.mig_devices)
        if (mig.profile == profile && first == nullptr) first = &mig;
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(of(resource + ".count"), std::to_string(count));
    EXPECT_EQ(of(resource + ".replicas"), replicas());
    EXPECT_EQ(of(resource + ".sharing-strategy"), strategy());
    EXPECT_EQ(of(resource + ".multiprocessors"), std::to_string(first->sm_count));
    EXPECT_EQ(of(resource + ".memory"), std::to_string(first->nominal_memory.in_mib()));
    EXPECT_EQ(of(resource + ".slices.gi"), std::to_string(first->gi_slices));
    EXPECT_EQ(of(resource + ".slices.ci"), std::to_string(first->ci_slices));
    EXPECT_EQ(of(resource + ".engines.copy"), std::to_string(first->engines[0]));
    EXPECT_EQ(of(resource + ".engines.ofa"), std::to_string(first->engines[4]));
  }
  void own() const {
    EXPECT_EQ(of("tranche.io/model." + model() + ".count"), std::to_string(node_.gpus.size()));
    EXPECT_EQ(of("tranche.io/model." + model() + ".memory"), std::to_string(node_.gpus.front().memory.in_mib()));
    const auto& [major, minor] = node_.gpus.front().compute_capability;
    EXPECT_EQ(of("tranche.io/hazard.sm-counts") == "(absent)", major != 9 || minor != 0);
    EXPECT_EQ(of("tranche.io/gpu.slot.sms") != "(absent)", served());
    EXPECT_EQ(of("tranche.io/gpu.slot.memory") != "(absent)", served());
  }

  const Case& row_;
  const Inventory& node_;
  const Labels& labels_;
};

// With words of its own for the model and its MIG profiles, so that models can be compared.
std::string without_names(std::string text, const Model& model, const Labels& labels) {
  std::vector<std::pair<std::string, std::string>> names;
  const auto product = labels.find("nvidia.com/gpu.product");
  if (product != labels.end()) names.emplace_back(product->second, "{model}");
  for (const auto* list : {&model.various, &model.uniform})
    for (std::size_t i = 0; i < list->size(); ++i) {
      std::string dotted = (*list)[i];
      std::ranges::replace(dotted, '+', '.');
      names.emplace_back(dotted, "{profile " + std::to_string(i) + "}");
    }
  std::ranges::stable_sort(names, std::greater(), [](const auto& name) { return name.first.size(); });
  for (const auto& [name, word] : names)
    for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += word.size())
      text.replace(at, name.size(), word);
  return text;
}

struct Described {
  Labels plain;                                            // of the first case
  std::vector<std::pair<std::string, std::string>> cases;  // their names and what differs
  std::map<std::string, std::string> cases_without_names;
};

Described describe(const Model& model) {
  std::map<std::string, Inventory> nodes;
  Described described;
  Labels unshared;
  for (const Case& row : cases_of(model)) {
    SCOPED_TRACE(name_of(row));
    auto node = nodes.find(row.layout);
    if (node == nodes.end()) node = nodes.emplace(row.layout, scan(model, row.layout)).first;
    EXPECT_EQ(node->second.gpus.size(), 2u);
    const Labels labels = labels_of(row, node->second);
    Rules(row, node->second, labels).hold();
    const bool shared = row.sharing != SharingStrategy::kNone;
    const std::string text = rendered(labels, shared ? unshared : described.plain);
    if (described.plain.empty()) described.plain = labels;
    if (!shared) unshared = labels;
    described.cases.emplace_back(name_of(row), text);
    described.cases_without_names[name_of(row)] = without_names(text, model, described.plain);
  }
  return described;
}

class GoldenLabels : public testing::TestWithParam<Model> {};

// Promise: labels: Labels of recorded nodes are as expected.
TEST_P(GoldenLabels, AreAsExpectedAndFollowTheRules) {
  const Model& model = GetParam();
  static const Described base = describe(kBase);
  Described described = describe(model);
  if (model.profile != std::string_view(kBase.profile)) {
    described.cases.front().second = rendered(described.plain, base.plain);
    std::erase_if(described.cases, [&, first = described.cases.front().first](const auto& each) {
      const auto there = base.cases_without_names.find(each.first);
      return each.first != first && there != base.cases_without_names.end() &&
             there->second == described.cases_without_names.at(each.first);
    });
  }
  std::vector<std::pair<std::string, std::string>> differences;  // and the names of their cases
  for (const auto& [name, text] : described.cases) {
    const auto same = std::ranges::find(differences, text, &std::pair<std::string, std::string>::first);
    if (same == differences.end())
      differences.emplace_back(text, name);
    else
      same->second += " " + name;
  }
  std::string text;
  for (const auto& [difference, names] : differences) text += names + ":\n" + difference;
  golden::compare(golden::source(std::string("tests/golden/labels/") + model.profile + ".txt"), text);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenLabels, testing::ValuesIn(kModels), [](const auto& row) {
  std::string name = row.param.profile;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

TEST(GoldenLabelsInputs, AreAllModelsThatThereAre) {
  std::set<std::string> known;
  for (const Model& model : kModels) known.insert(model.profile);
  for (const auto& file : std::filesystem::directory_iterator(golden::source("data/gpus")))
    EXPECT_TRUE(known.contains(file.path().stem().string())) << file.path();
}

}  // namespace
}  // namespace tranche
