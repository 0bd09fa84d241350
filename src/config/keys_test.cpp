// The table of keys against the parser: the parser accepts what the table lists, and words, bounds and defaults agree.
#include "config/keys.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "config/parse/parse.h"
#include "config/resolve.h"

namespace tranche::config {
namespace keys_test {

const std::string kEntry = "{name: nvidia.com/gpu, replicas: 4}";

// Other keys that a mapping needs beside the tested one, so that the file is valid.
std::vector<std::pair<std::string, std::string>> needed_in(const std::string& section, const std::string& key) {
  if (section.ends_with("s[]") && section.starts_with("sharing."))
    return {{"name", "nvidia.com/gpu"}, {key == "slotMemory" ? "name" : "replicas", "4"}};
  if (section.starts_with("resources.")) return {{"pattern", "\"*\""}, {"name", "gpu"}};
  if (section == "sharing") return {{"timeSlicing", "{resources: [" + kEntry + "]}"}};
  // Units, so that no count is more than an MPS server has clients.
  if (section == "sharing.mps" || section == "sharing.timeSlicing")
    return {{"resources", "[" + kEntry + "]"}, {"failRequestsGreaterThanOne", "false"}};
  if (section == "individualGPU.gpuConfigs[]")
    return {{key == "uuid" ? "mps" : "index", key == "uuid" ? "{enabled: true}" : "0"}, {"mps", "{enabled: true}"}};
  return {};
}

// A valid file with one key, nested by its path.
std::string file_with(const std::string& path, const std::string& value) {
  std::string text = value;
  std::string below = path;
  while (!below.empty()) {
    const auto dot = below.rfind('.');
    const std::string section = dot == std::string::npos ? "" : below.substr(0, dot);
    std::string key = below.substr(dot == std::string::npos ? 0 : dot + 1);
    const bool list = key.ends_with("[]");
    if (list) key.resize(key.size() - 2);
    if (list) text.insert(0, "[").append("]");
    std::string mapping = key + ": " + text;
    std::string named = " " + key + " ";
    for (const auto& [other, its] : needed_in(section, key)) {
      if (named.find(" " + other + " ") != std::string::npos) continue;
      mapping += ", " + other + ": " + its;
      named += other + " ";
    }
    text = "{" + mapping + "}";
    below = section;
  }
  return text;
}

bool is_taken(const Key& key, const std::string& value) {
  const std::string file = file_with(std::string(key.path), value);
  bool taken = true;
  for (const Problem& problem : parse(file, "f").problems)
    taken = taken && problem.severity != Severity::kError && problem.what.find("a known key") == std::string::npos;
  return taken;
}

TEST(Keys, EachIsTakenWithItsSample) {
  for (const Key& key : keys())
    if (key.type != KeyType::kSection) {
      EXPECT_TRUE(is_taken(key, std::string(key.sample))) << file_with(std::string(key.path), std::string(key.sample));
    }
  EXPECT_FALSE(is_taken({.path = "flags.plugin.noSuchKey"}, "1"));
}

TEST(Keys, EachIsReadAndNotOnlyKnown) {
  for (const Key& key : keys()) {
    if (key.path.empty() || key.type == KeyType::kSection || key.path.ends_with("ThreadLimit") ||
        key.path.ends_with("ThreadPercentage") || key.path.starts_with("flags.named") ||
        key.path.starts_with("flags.mpsMemoryLimiting"))
      continue;
    EXPECT_FALSE(is_taken(key, "{neither: sense}")) << key.path;
  }
}

TEST(Keys, WordsAreThoseThatTheParserTakes) {
  for (const Key& key : keys()) {
    for (const auto word : key.words) EXPECT_TRUE(is_taken(key, std::string(word))) << key.path << ": " << word;
    if (!key.words.empty()) {
      EXPECT_FALSE(is_taken(key, "no-such-word")) << key.path;
    }
  }
}

TEST(Keys, BoundsAreThoseThatTheParserKeeps) {
  for (const Key& key : keys()) {
    if (key.type != KeyType::kCount) continue;
    const auto at = [&key](std::int64_t number) { return is_taken(key, std::to_string(number)); };
    EXPECT_TRUE(at(key.least)) << key.path;
    EXPECT_TRUE(at(key.most)) << key.path;
    EXPECT_FALSE(at(std::int64_t{key.least} - 1)) << key.path;
    EXPECT_FALSE(at(std::int64_t{key.most} + 1)) << key.path;
  }
}

TEST(Keys, DefaultsAreThoseInForceWithoutTheKey) {
  std::size_t compared = 0;
  for (const std::string section : {"mps", "timeSlicing"}) {
    const Parsed file = parse("{sharing: {" + section + ": {resources: [" + kEntry + "]}}}", "f");
    const Resolved resolved = resolve(file, Program::kDevicePlugin, {});
    for (const Explained& row : resolved.explained) {
      const auto key = std::ranges::find(keys(), std::string_view(row.path), &Key::path);
      if (key == keys().end() || row.source != Source::kDefault) continue;
      std::string usual(key->usual);
      std::erase_if(usual, [](char c) { return c == '[' || c == ']'; });
      if (usual.empty() || (row.path == "flags.mpsRoot" && section != "mps")) continue;
      EXPECT_EQ(row.value, usual) << row.path;
      ++compared;
    }
  }
  EXPECT_GE(compared, 50u);
}

TEST(Keys, SettingsOfProgramsThatHaveADotAreKeys) {
  for (const Program program : {Program::kDevicePlugin, Program::kFeatureDiscovery, Program::kMpsControlDaemon})
    for (const Key& setting : settings_of(program))
      if (setting.path.find('.') != std::string_view::npos) {
        EXPECT_NE(std::ranges::find(keys(), setting.path, &Key::path), keys().end()) << setting.path;
      }
}

TEST(Keys, StandAfterTheirSectionAndOnce) {
  std::vector<std::string_view> seen;
  for (const Key& key : keys()) {
    EXPECT_EQ(std::ranges::count(seen, key.path), 0) << key.path;
    const auto dot = key.path.rfind('.');
    if (dot != std::string::npos) {
      std::string_view section = std::string_view(key.path).substr(0, dot);
      if (section.ends_with("[]")) section.remove_suffix(2);
      EXPECT_EQ(std::ranges::count(seen, section), 1) << key.path;
    }
    seen.push_back(key.path);
  }
}

}  // namespace keys_test
}  // namespace tranche::config
