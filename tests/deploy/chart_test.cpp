// The chart's values against their schema, and the rights in the kept manifests against deploy/rbac.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace tranche {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::IsSubsetOf;

std::string deploy(const std::string& path) {
  return std::string(std::getenv("TRANCHE_SOURCE")) + "/deploy/" + path;
}

YAML::Node values() {
  return YAML::LoadFile(deploy("helm/tranche/values.yaml"));
}

json schema() {
  std::ifstream file(deploy("helm/tranche/values.schema.json"));
  return json::parse(file);
}

// Every path of a closed object: where the schema lists what there is.
void paths_of(const json& schema, const std::string& prefix, std::set<std::string>& found) {
  const json properties = schema.value("properties", json::object());
  for (const auto& [name, entry] : properties.items()) {
    const std::string path = prefix.empty() ? name : prefix + "." + name;
    found.insert(path);
    if (entry.value("additionalProperties", json(true)) == json(false)) paths_of(entry, path, found);
  }
}

void paths_of(const YAML::Node& values, const json& schema, const std::string& prefix, std::set<std::string>& found) {
  for (const auto& entry : values) {
    const auto name = entry.first.as<std::string>();
    const std::string path = prefix.empty() ? name : prefix + "." + name;
    found.insert(path);
    const json inner = schema.value("properties", json::object()).value(name, json::object());
    if (inner.value("additionalProperties", json(true)) == json(false)) paths_of(entry.second, inner, path, found);
  }
}

bool fits(const YAML::Node& value, const json& entry) {
  if (entry.contains("enum")) {
    for (const auto& word : entry["enum"]) {
      if (word.is_null() ? value.IsNull() : value.IsScalar() && value.Scalar() == word.get<std::string>()) return true;
    }
    return false;
  }
  if (!entry.contains("type")) return false;
  const auto types = entry["type"].is_array() ? entry["type"].get<std::vector<std::string>>()
                                              : std::vector{entry["type"].get<std::string>()};
  for (const auto& type : types) {
    bool boolean = false;
    int number = 0;
    if (type == "null" && value.IsNull()) return true;
    if (type == "object" && value.IsMap()) return true;
    if (type == "array" && value.IsSequence()) return true;
    if (type == "boolean" && value.IsScalar() && YAML::convert<bool>::decode(value, boolean)) return true;
    if (type == "integer" && value.IsScalar() && YAML::convert<int>::decode(value, number)) return true;
    if (type == "string" && value.IsScalar() && !YAML::convert<bool>::decode(value, boolean)) return true;
  }
  return false;
}

void expect_to_fit(const YAML::Node& values, const json& schema, const std::string& prefix) {
  for (const auto& entry : values) {
    const auto name = entry.first.as<std::string>();
    const json inner = schema.value("properties", json::object()).value(name, json::object());
    EXPECT_TRUE(fits(entry.second, inner)) << prefix << name << " has a default that its schema refuses";
    if (inner.contains("properties") && entry.second.IsMap()) expect_to_fit(entry.second, inner, prefix + name + ".");
  }
}

// Promise: chart: The chart's values and their schema agree.
TEST(ChartValues, AreInTheSchemaAndTheOtherWayRound) {
  std::set<std::string> here, there;
  paths_of(values(), schema(), "", here);
  paths_of(schema(), "", there);
  // Helm's own; and what Kubernetes defines and nobody has to write.
  for (const char* path : {"global", "resources.claims", "mps.resources.limits", "mps.resources.claims",
                           "mps.updateStrategy.rollingUpdate"})
    there.erase(path);
  EXPECT_EQ(here, there);
  EXPECT_THAT(here, Contains("mps.updateStrategy.type"));
}

// Promise: chart: The chart's values and their schema agree.
TEST(ChartValues, HaveDefaultsThatTheirSchemaTakes) {
  expect_to_fit(values(), schema(), "");
}

TEST(ChartValues, ThatNobodyKnowsAreRefused) {
  EXPECT_EQ(schema()["additionalProperties"], json(false));
  for (const char* part : {"image", "config", "mps", "devicePlugin", "metrics", "labels", "admission", "dra"})
    EXPECT_EQ(schema()["properties"][part]["additionalProperties"], json(false)) << part;
}

// "ClusterRole: [] pods: get list watch", one for each rule.
std::set<std::string> rules_in(const std::string& path) {
  std::set<std::string> rules;
  for (const auto& document : YAML::LoadAllFromFile(deploy(path))) {
    if (!document["rules"]) continue;
    for (const auto& rule : document["rules"]) {
      std::string line = document["kind"].as<std::string>() + ":";
      for (const char* part : {"apiGroups", "resources", "resourceNames", "verbs"}) {
        line += " |";
        for (const auto& word : rule[part]) line += " " + word.as<std::string>();
      }
      rules.insert(line);
    }
  }
  return rules;
}

std::set<std::string> rules_of_deploy_rbac() {
  std::set<std::string> all;
  for (const char* name : {"node", "config", "condition", "labels"})
    all.merge(rules_in(std::string("rbac/") + name + ".yaml"));
  return all;
}

// Promise: chart: Kept manifests ask for the rights of deploy/rbac and no others.
TEST(KeptManifests, AskForRightsOfDeployRbacAndNoOthers) {
  const auto known = rules_of_deploy_rbac();
  for (const char* name : {"tranche", "tranche-driver-root", "tranche-node-feature-discovery"}) {
    const auto asked = rules_in(std::string("static/") + name + ".yaml");
    EXPECT_THAT(asked, IsSubsetOf(known)) << name;
    EXPECT_GE(asked.size(), 5) << name;
  }
  auto openshift = rules_in("static/tranche-openshift.yaml");
  EXPECT_EQ(openshift.erase("Role: | security.openshift.io | securitycontextconstraints | privileged | use"), 1);
  EXPECT_THAT(openshift, IsSubsetOf(known));
}

TEST(KeptManifests, WithNodeFeatureDiscoveryMayPatchNoNode) {
  for (const auto& rule : rules_in("static/tranche-node-feature-discovery.yaml"))
    EXPECT_FALSE(rule.find("| nodes |") != std::string::npos && rule.find("patch") != std::string::npos) << rule;
}

// Promise: chart: Kept manifests are privileged only where that is documented.
TEST(KeptManifests, ArePrivilegedOnlyWhereThatIsSaid) {
  for (const auto& [name, node_is] : {std::pair{"tranche", false}, {"tranche-driver-root", true}}) {
    std::set<std::string> privileged;
    for (const auto& document : YAML::LoadAllFromFile(deploy(std::string("static/") + name + ".yaml"))) {
      if (!document["spec"] || !document["spec"]["template"]) continue;
      const auto containers = document["spec"]["template"]["spec"]["containers"];
      for (const auto& container : containers) {
        const auto context = container["securityContext"];
        EXPECT_TRUE(context["readOnlyRootFilesystem"].as<bool>(false));
        if (context["privileged"].as<bool>(false)) privileged.insert(container["name"].as<std::string>());
      }
    }
    EXPECT_EQ(privileged, (node_is ? std::set<std::string>{"mps", "node"} : std::set<std::string>{"mps"})) << name;
  }
}

}  // namespace
}  // namespace tranche
