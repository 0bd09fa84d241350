// The tables of docs/ are compared with the code: a row that is missing or one too many fails here.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "base/text.h"
#include "config/keys.h"
#include "golden/golden.h"
#include "gpu/health/healthchecks.h"
#include "labels/label.h"
#include "make.h"
#include "plan/plan.h"
#include "plan/shares.h"

namespace tranche {
namespace {

using Row = std::vector<std::string>;

// Rows of the tables and items of the lists ("- term: meaning") below a heading, up to the next heading; heads and
// rules left out.
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
    if (const auto colon = line.find("`: "); inside && line.starts_with("- `") && colon != std::string_view::npos) {
      rows.push_back({std::string(line.substr(2, colon - 1)), std::string(line.substr(colon + 3))});
      continue;
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

// "a.{b,c}" → "a.b", "a.c"
std::vector<std::string> expanded(const std::string& name) {
  const auto open = name.find('{'), close = name.find('}');
  if (open == std::string::npos || close == std::string::npos) return {name};
  std::vector<std::string> out;
  for (const std::string_view each : split(std::string_view(name).substr(open + 1, close - open - 1), ','))
    out.push_back(name.substr(0, open) + std::string(each) + name.substr(close + 1));
  return out;
}

std::set<std::string> names_below(const std::string& document, const std::string& heading) {
  std::set<std::string> names;
  for (const Row& row : rows_below(document, heading))
    for (const std::string& written : code_in(row.front()))
      for (const std::string& name : expanded(written))
        EXPECT_TRUE(names.insert(name).second) << name << " is listed twice";
  return names;
}

// ---- docs/reference/configuration.md

TEST(ConfigReference, TheDocumentIsWhatTheProgramPrints) {
  golden::compare(golden::source("docs/reference/configuration.md"), config::reference_text());
}

TEST(ConfigReference, TheSchemaIsWhatTheProgramPrints) {
  golden::compare(golden::source("deploy/schema/config.schema.json"), config::schema_json());
}

TEST(ConfigReference, ListsEveryKeyOfTheParserAndEverySettingOfThePrograms) {
  const std::string text = golden::read(golden::source("docs/reference/configuration.md"));
  for (const config::Key& key : config::keys())
    if (key.type != config::KeyType::kSection) {
      EXPECT_NE(text.find("`" + std::string(key.path) + "`"), std::string::npos) << key.path;
    }
  for (const config::Program program :
       {config::Program::kDevicePlugin, config::Program::kFeatureDiscovery, config::Program::kMpsControlDaemon})
    for (const config::Key& setting : settings_of(program)) {
      for (const auto flag : setting.flags)
        EXPECT_NE(text.find((flag.size() == 1 ? "`-" : "`--") + std::string(flag) + "`"), std::string::npos) << flag;
      for (const auto variable : setting.variables)
        EXPECT_NE(text.find("`" + std::string(variable) + "`"), std::string::npos) << variable;
    }
}

// ---- docs/reference/labels.md

TEST(LabelsDocument, ListsEveryLabelThatIsSetAndNoOther) {
  std::set<std::string> set;
  for (const config::MigStrategy strategy :
       {config::MigStrategy::kNone, config::MigStrategy::kSingle, config::MigStrategy::kMixed}) {
    config::Config config;
    config.flags.mig_strategy = strategy;
    auto inventory = make::gpus(1);
    inventory.gpus[0].fabric_clique = "a.1";
    make::add_mig(inventory.gpus[0], "1g.18gb");
    labels::Inputs inputs;
    inputs.loaded_at = WallTime{};
    inputs.vgpu = labels::Vgpu{true, "1", "2"};
    const auto plan = plan::make_plan(config, inventory).value();
    for (const auto& [key, value] : labels::labels_for(config, inventory, plan, inputs)) {
      if (!key.starts_with("nvidia.com/")) continue;
      const std::string mig_prefix = "nvidia.com/mig-1g.18gb";
      set.insert(key.starts_with(mig_prefix) ? "nvidia.com/mig-<profile>" + key.substr(mig_prefix.size()) : key);
    }
  }
  EXPECT_EQ(names_below("reference/labels.md", "Labels"), set);
}

TEST(LabelsDocument, ListsEveryLabelOfOursAndNoOther) {
  const auto config = make::shared(config::SharingStrategy::kMps, 4);
  const auto inventory = make::gpus(1);
  const plan::Plan plan = plan::make_plan(config, inventory).value();
  std::set<std::string> listed = names_below("reference/labels.md", "Labels of Tranche");
  std::erase_if(listed, [](const std::string& name) { return name.starts_with("tranche.io/mig-<profile>."); });
  std::set<std::string> set;
  for (const auto& [key, value] : labels::labels_for(config, inventory, plan, {})) {
    if (!key.starts_with("tranche.io/")) continue;
    const std::string model_prefix = "tranche.io/model.NVIDIA-H200";
    set.insert(key.starts_with(model_prefix) ? "tranche.io/model.<model>" + key.substr(model_prefix.size()) : key);
  }
  EXPECT_EQ(listed, set);
}

// ---- docs/reference/health.md

TEST(HealthDocument, ListsEveryXidByItsClass) {
  std::map<std::string, std::vector<std::string>> spans;
  for (const auto& rule : gpu::xid_rules())
    spans[std::string(to_string(rule.cls))].push_back(std::to_string(rule.from) +
                                                      (rule.to == rule.from ? "" : "\u2013" + std::to_string(rule.to)));
  std::map<std::string, std::string> expected, listed;
  for (const auto& [cls, each] : spans) expected[cls] = join(each, ", ");
  for (const Row& row : rows_below("reference/health.md", "XIDs")) listed[row.at(0)] = row.at(2);
  EXPECT_EQ(listed, expected);
}

TEST(HealthDocument, ListsEveryCause) {
  std::set<std::string> causes;
  for (const auto cause : gpu::kCauses) causes.insert(std::string(to_string(cause)));
  EXPECT_EQ(names_below("reference/health.md", "Causes"), causes);
}

// ---- docs/guide/share-sizes.md

TEST(SharesDocument, TheTableIsWhatTheCodeComputes) {
  plan::PlannedDevice h200;
  h200.memory = mib(143771);
  h200.sm_count = 132;
  h200.compute_capability = {9, 0};
  for (const Row& row : rows_below("guide/share-sizes.md", "One H200 by equal slots")) {
    ASSERT_EQ(row.size(), 5u);
    const auto slots = static_cast<std::uint32_t>(parse_unsigned(row[0]).value_or(0));
    ASSERT_GT(slots, 0u);
    h200.slots = slots;
    const auto at = [&h200](config::SmRounding rounding) {
      h200.policy.rounding = rounding;
      return plan::share_of(h200, 1);
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
