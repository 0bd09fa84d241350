// The tables of docs/ are compared with the code: a row that is missing or one too many fails here.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "base/text.h"
#include "config/parse.h"
#include "config/render.h"
#include "config/settings.h"
#include "golden/golden.h"
#include "health/cause.h"
#include "health/xids.h"
#include "label/label.h"
#include "plan/make_plan.h"
#include "plan/shares.h"

namespace tranche {
namespace {

using Row = std::vector<std::string>;

// Rows of the tables below a heading, up to the next heading; heads and rules left out.
std::vector<Row> rows_below(const std::string& document, const std::string& heading) {
  const std::string text = golden::read(golden::source("docs/" + document));
  std::vector<Row> rows;
  bool inside = false;
  bool body = false;
  for (const std::string_view line : lines_of(text)) {
    if (line.starts_with("#")) {
      inside = trimmed(line.substr(line.find_first_not_of('#'))) == heading;
      body = false;
    }
    if (!inside || !line.starts_with("|")) {
      body = body && line.starts_with("|");
      continue;
    }
    if (line.find_first_not_of("|-: ") == std::string_view::npos) {
      body = true;
      continue;
    }
    if (!body) continue;
    Row row;
    for (const std::string_view cell : split(line.substr(1, line.rfind('|') - 1), '|')) row.emplace_back(trimmed(cell));
    rows.push_back(row);
  }
  EXPECT_FALSE(rows.empty()) << document << " has no table below " << heading;
  return rows;
}

// What stands between back-ticks in a cell.
std::vector<std::string> code_in(const std::string& cell) {
  std::vector<std::string> out;
  const auto pieces = split(cell, '`');
  for (std::size_t i = 1; i < pieces.size(); i += 2) out.emplace_back(pieces[i]);
  return out;
}

std::set<std::string> names_below(const std::string& document, const std::string& heading) {
  std::set<std::string> names;
  for (const Row& row : rows_below(document, heading))
    for (const std::string& name : code_in(row.front()))
      EXPECT_TRUE(names.insert(name).second) << name << " is listed twice";
  return names;
}

// ---- docs/config.md

// A file that gives every key of the table once, nested by its path.
std::string file_with(const std::string& path, const std::string& value) {
  std::string text;
  std::string closing;
  for (const std::string_view piece : split(path, '.')) {
    const bool list = piece.ends_with("[]");
    text += std::string(list ? piece.substr(0, piece.size() - 2) : piece) + (list ? ": [{" : ": {");
    closing.insert(0, list ? "}]" : "}");
  }
  text = text.substr(0, text.size() - 1) + value + closing.substr(1);
  return "{" + text + "}";
}

bool says_unknown(const std::string& text) {
  for (const Problem& problem : config::parse(text, "f").problems)
    if (problem.what.find("not a known key") != std::string::npos) return true;
  return false;
}

TEST(ConfigDocument, EveryKeyListedIsKnownToTheParser) {
  const auto keys = names_below("config.md", "Keys");
  EXPECT_GE(keys.size(), 40u);
  for (const std::string& key : keys) EXPECT_FALSE(says_unknown(file_with(key, "null"))) << key;
  EXPECT_TRUE(says_unknown(file_with("flags.plugin.noSuchKey", "null")));
}

TEST(ConfigDocument, EveryKeyOfTheParserIsListed) {
  const auto keys = names_below("config.md", "Keys");
  std::set<std::string> used;
  // What render_json writes, and what the settings set, are keys by their paths.
  for (const config::Program program :
       {config::Program::kDevicePlugin, config::Program::kFeatureDiscovery, config::Program::kMpsControlDaemon})
    for (const config::Setting& setting : settings_of(program))
      if (setting.path.find('.') != std::string_view::npos) used.insert(std::string(setting.path));
  for (const std::string& path : used) EXPECT_TRUE(keys.contains(path)) << path;
  config::Config config;
  config.sharing.strategy = config::SharingStrategy::kMps;
  const std::string text = config::render_json(config);
  for (const std::string_view line : lines_of(text)) {
    const std::string_view member = trimmed(line);
    if (!member.starts_with("\"")) continue;
    const auto end = member.find('"', 1);
    if (!member.substr(end + 1).starts_with(":")) continue;
    const std::string name(member.substr(1, end - 1));
    const bool listed = std::ranges::any_of(keys, [&](const std::string& key) {
      const auto pieces = split(key, '.');
      return std::ranges::any_of(pieces, [&](std::string_view piece) { return piece == name || piece == name + "[]"; });
    });
    EXPECT_TRUE(listed) << name;
  }
}

TEST(ConfigDocument, FlagsAndVariablesAreThoseOfThePrograms) {
  const std::map<std::string, config::Program> sections{{"nvidia-device-plugin", config::Program::kDevicePlugin},
                                                        {"gpu-feature-discovery", config::Program::kFeatureDiscovery},
                                                        {"mps-control-daemon", config::Program::kMpsControlDaemon}};
  for (const auto& [heading, program] : sections) {
    std::map<std::string, std::pair<std::set<std::string>, std::set<std::string>>> listed;
    for (const Row& row : rows_below("config.md", heading)) {
      ASSERT_EQ(row.size(), 3u) << heading;
      const auto flags = code_in(row[0]);
      const auto variables = code_in(row[1]);
      ASSERT_EQ(code_in(row[2]).size(), 1u) << row[0];
      listed[code_in(row[2]).front()] = {{flags.begin(), flags.end()}, {variables.begin(), variables.end()}};
    }
    for (const config::Setting& setting : settings_of(program)) {
      std::pair<std::set<std::string>, std::set<std::string>> own;
      for (const auto flag : setting.flags) own.first.insert((flag.size() == 1 ? "-" : "--") + std::string(flag));
      own.second.insert(setting.variables.begin(), setting.variables.end());
      EXPECT_EQ(listed[std::string(setting.path)], own) << heading << " " << setting.path;
      listed.erase(std::string(setting.path));
    }
    for (const auto& [path, row] : listed) ADD_FAILURE() << heading << " has no " << path;
  }
}

// ---- docs/labels.md

inventory::Gpu some_gpu() {
  inventory::Gpu gpu;
  gpu.uuid = "GPU-1";
  gpu.name = "NVIDIA H200";
  gpu.memory = mib(143771);
  gpu.compute_capability = {9, 0};
  gpu.fabric_clique = "a.1";
  return gpu;
}

TEST(LabelsDocument, ListsEveryLabelThatIsSetAndNoOther) {
  std::set<std::string> set;
  for (const config::MigStrategy strategy :
       {config::MigStrategy::kNone, config::MigStrategy::kSingle, config::MigStrategy::kMixed}) {
    config::Config config;
    config.flags.mig_strategy = strategy;
    inventory::Inventory inventory;
    inventory.driver_version = "580.1.2";
    inventory.cuda_driver_version = 13000;
    inventory.gpus = {some_gpu()};
    inventory.gpus[0].mig_enabled = true;
    inventory::MigDevice mig;
    mig.uuid = "MIG-1";
    mig.profile = "1g.18gb";
    inventory.gpus[0].mig_devices = {mig};
    label::Facts facts;
    facts.loaded_at = WallTime{};
    facts.vgpu = label::Vgpu{true, "1", "2"};
    const auto plan = plan::make_plan(config, inventory).value();
    for (const auto& [key, value] : labels_for(config, inventory, plan, facts)) {
      if (!key.starts_with("nvidia.com/")) continue;
      const std::string mig_prefix = "nvidia.com/mig-1g.18gb";
      set.insert(key.starts_with(mig_prefix) ? "nvidia.com/mig-<profile>" + key.substr(mig_prefix.size()) : key);
    }
  }
  EXPECT_EQ(names_below("labels.md", "Labels"), set);
}

TEST(LabelsDocument, ListsEveryLabelOfOursAndNoOther) {
  config::Config config;
  config.sharing.strategy = config::SharingStrategy::kMps;
  config::SharedResource entry;
  entry.name = "nvidia.com/gpu";
  entry.replicas = 4;
  config.sharing.resources = {entry};
  inventory::Inventory inventory;
  inventory.gpus = {some_gpu()};
  inventory.gpus[0].sm_count = 132;
  const plan::Plan plan = plan::make_plan(config, inventory).value();
  label::Facts facts;
  for (const auto& pool : plan.pools) facts.tiers[pool.id] = "v2";
  std::set<std::string> listed = names_below("labels.md", "Labels of ours");
  std::erase_if(listed, [](const std::string& name) { return name.starts_with("tranche.io/mig-<profile>."); });
  std::set<std::string> set;
  for (const auto& [key, value] : label::labels_for(config, inventory, plan, facts)) {
    if (!key.starts_with("tranche.io/")) continue;
    const std::string model_prefix = "tranche.io/model.NVIDIA-H200";
    set.insert(key.starts_with(model_prefix) ? "tranche.io/model.<model>" + key.substr(model_prefix.size()) : key);
  }
  EXPECT_EQ(listed, set);
}

// ---- docs/health.md

TEST(HealthDocument, ListsEveryXidWithItsClassAndMeaning) {
  const auto rows = rows_below("health.md", "Table");
  const auto rules = health::xid_rules();
  ASSERT_EQ(rows.size(), rules.size());
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const auto& rule = rules[i];
    const std::string span =
        std::to_string(rule.from) + (rule.to == rule.from ? "" : "\u2013" + std::to_string(rule.to));
    EXPECT_EQ(rows[i], (Row{span, std::string(to_string(rule.cls)), std::string(rule.meaning)}));
  }
}

TEST(HealthDocument, ListsEveryCause) {
  std::set<std::string> causes;
  for (const auto cause : health::kCauses) causes.insert(std::string(to_string(cause)));
  EXPECT_EQ(names_below("health.md", "Causes"), causes);
}

// ---- docs/shares.md

TEST(SharesDocument, TheTableIsWhatTheCodeComputes) {
  const inventory::ComputeCapability hopper{9, 0};
  const Bytes memory = mib(143771);
  for (const Row& row : rows_below("shares.md", "One H200 by equal slots")) {
    ASSERT_EQ(row.size(), 5u);
    const auto slots = static_cast<std::uint32_t>(parse_unsigned(row[0]).value_or(0));
    ASSERT_GT(slots, 0u);
    const auto at = [&](config::SmRounding rounding) {
      return plan::share_of(memory, 132, hopper, 1, slots, rounding);
    };
    const auto show = [](const plan::ShareLimits& share) {
      return std::to_string(share.sms) + " (" + to_string(share.threads) + " %)";
    };
    EXPECT_EQ(row[1], std::to_string(at(config::SmRounding::kUp).memory.in_mib())) << slots;
    EXPECT_EQ(row[2], show(at(config::SmRounding::kOff))) << slots;
    EXPECT_EQ(row[3], show(at(config::SmRounding::kUp))) << slots;
    EXPECT_EQ(row[4], show(at(config::SmRounding::kDown))) << slots;
  }
}

}  // namespace
}  // namespace tranche
