#include "labels/outputs.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <random>

namespace tranche::labels {
namespace node_labels_test {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kCount = "nvidia.com/gpu.count";
constexpr const char* kModel = "nvidia.com/gpu.product";

Json node(const Labels& labels = {}, const std::string& owned = "") {
  Json json{{"kind", "Node"}, {"metadata", {{"name", "n1"}, {"resourceVersion", "41"}}}};
  if (!labels.empty()) json["metadata"]["labels"] = labels;
  if (!owned.empty()) json["metadata"]["annotations"][kOwnedAnnotation] = owned;
  return json;
}

NodeChange change(const Json& node, const Labels& wanted) {
  auto change = change_node(node.dump(), wanted);
  EXPECT_TRUE(change) << to_string(change.error());
  return change.value_or(NodeChange{});
}

// The node after the change, as the API server would store it.
Json after(Json node, const Labels& wanted) {
  if (const auto made = change(node, wanted); made.patch) node.merge_patch(Json::parse(*made.patch));
  return node;
}

TEST(NodeLabels, AreSetBesideThoseOfOthersAndListedAsOurs) {
  const Json before = node({{"kubernetes.io/os", "linux"}});
  const Json now = after(before, {{kCount, "2"}, {kModel, "H200"}});
  EXPECT_EQ(now["metadata"]["labels"], Json({{"kubernetes.io/os", "linux"}, {kCount, "2"}, {kModel, "H200"}}));
  EXPECT_EQ(now["metadata"]["annotations"][kOwnedAnnotation], std::string(kCount) + "," + kModel);
  EXPECT_EQ(change(now, {{kCount, "2"}, {kModel, "H200"}}).patch, std::nullopt) << "nothing is left to do";
}

TEST(NodeLabels, ThePatchIsForTheVersionThatWasSeenAndHoldsWhatChangesOnly) {
  const Json now = node({{kCount, "2"}, {kModel, "H200"}}, std::string(kCount) + "," + kModel);
  const auto made = change(now, {{kCount, "3"}, {kModel, "H200"}});
  ASSERT_TRUE(made.patch);
  EXPECT_EQ(Json::parse(*made.patch), Json({{"metadata", {{"labels", {{kCount, "3"}}}, {"resourceVersion", "41"}}}}));
}

TEST(NodeLabels, StaleOnesGoAndNobodyElsesDo) {
  const Json before = node({{kCount, "2"}, {kModel, "H200"}, {"nvidia.com/gpu.present", "true"}, {"team", "a"}},
                           std::string(kCount) + "," + kModel + ",nvidia.com/gone");
  const Json now = after(before, {{kCount, "2"}});
  EXPECT_EQ(now["metadata"]["labels"], Json({{kCount, "2"}, {"nvidia.com/gpu.present", "true"}, {"team", "a"}}));
  EXPECT_EQ(now["metadata"]["annotations"][kOwnedAnnotation], kCount);
}

// Promise: labels: A label that a foreign writer set is left alone and reported.
TEST(NodeLabels, OneThatAnotherWriterSetIsLeftAloneAndReported) {
  const Json before = node({{kModel, "theirs"}, {kCount, "2"}});
  const auto made = change(before, {{kModel, "ours"}, {kCount, "2"}, {"nvidia.com/mig.capable", "true"}});
  EXPECT_THAT(made.foreign, ElementsAre(kModel)) << "an equal value is no quarrel";
  const Json now = after(before, {{kModel, "ours"}, {kCount, "2"}, {"nvidia.com/mig.capable", "true"}});
  EXPECT_EQ(now["metadata"]["labels"][kModel], "theirs");
  EXPECT_EQ(now["metadata"]["annotations"][kOwnedAnnotation], "nvidia.com/mig.capable");
  EXPECT_EQ(after(now, {})["metadata"]["labels"], Json({{kModel, "theirs"}, {kCount, "2"}}));
}

TEST(NodeLabels, NoneWantedRemovesOursAndTheAnnotation) {
  Json before = node({{kCount, "2"}, {"team", "a"}}, kCount);
  before["metadata"]["annotations"]["other"] = "kept";
  const Json now = after(before, {});
  EXPECT_EQ(now["metadata"]["labels"], Json({{"team", "a"}}));
  EXPECT_EQ(now["metadata"]["annotations"], Json({{"other", "kept"}}));
  EXPECT_EQ(change(now, {}).patch, std::nullopt);
}

TEST(NodeLabels, WhatTheAnnotationNamesWithoutRightIsNotRemoved) {
  const Labels others{{"kubernetes.io/hostname", "n1"},
                      {"nvidia.com/gpu.deploy.mps", "true"},
                      {"nvidia.com/mig.config", "all-disabled"},
                      {"nvidia.com/mig.config.state", "success"},
                      {"nvidia.com/device-plugin.config", "mps"}};
  std::string list;
  for (const auto& [key, value] : others) list += key + ",";
  const Json now = after(node(others, list), {});
  EXPECT_EQ(now["metadata"]["labels"], Json(others));
  for (const auto& [key, value] : others) EXPECT_FALSE(may_own(key)) << key;
  EXPECT_TRUE(may_own("nvidia.com/mig.capable"));
  EXPECT_TRUE(may_own("tranche.io/gpu.slot.sms"));
  EXPECT_FALSE(may_own("tranche.io/"));
}

TEST(NodeLabels, WhatIsNoNodeIsRefusedAndOddTypesAreAsGoodAsAbsent) {
  for (const char* text : {"", "7", "[]", "{}", "{\"metadata\":[]}"}) EXPECT_FALSE(change_node(text, {})) << text;
  const auto odd = change_node(
      R"({"metadata":{"labels":[1],"annotations":{"tranche.io/labels":7},"resourceVersion":1}})", {{kCount, "2"}});
  ASSERT_TRUE(odd && odd->patch);
  EXPECT_FALSE(Json::parse(*odd->patch)["metadata"].contains("resourceVersion"));
}

// For any node and any two sets of labels in sequence: other clients' labels never change, Tranche's are as wanted, and
// a repetition changes nothing.
TEST(NodeLabels, AnySequenceLeavesOthersAloneAndSettles) {
  constexpr unsigned kSeed = 20261122;
  std::mt19937 random(kSeed);
  const std::vector<std::string> keys{"nvidia.com/a", "nvidia.com/b", "tranche.io/c", "nvidia.com/mig.config", "team"};
  const auto some = [&](std::size_t most) {
    Labels labels;
    for (std::size_t i = 0; i < most; ++i)
      if (random() % 2 == 0) labels[keys[i]] = std::string(1, static_cast<char>('x' + random() % 3));
    return labels;
  };
  for (int round = 0; round < 300; ++round) {
    const Labels theirs = some(keys.size());
    Json now = node(theirs);
    for (int step = 0; step < 4; ++step) {
      const Labels wanted = some(3);
      now = after(now, wanted);
      const Json labels = now["metadata"].value("labels", Json::object());
      for (const auto& [key, value] : theirs) EXPECT_EQ(labels.value(key, ""), value) << kSeed << " " << round;
      for (const auto& [key, value] : wanted)
        EXPECT_EQ(labels.value(key, ""), theirs.contains(key) ? theirs.at(key) : value) << kSeed << " " << round;
      for (const auto& [key, value] : labels.items())
        EXPECT_TRUE(theirs.contains(key) || wanted.contains(key)) << key << " " << kSeed << " " << round;
      EXPECT_EQ(change(now, wanted).patch, std::nullopt) << kSeed << " " << round;
    }
  }
}

}  // namespace node_labels_test
}  // namespace tranche::labels
