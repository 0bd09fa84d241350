#include "kube/object.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace tranche::kube {
namespace node_condition_test {

using Json = nlohmann::json;

const WallTime kThen = WallTime{} + std::chrono::hours(24 * 365 * 30);

// Promise: api-server/condition: The condition patch changes our entry only.
TEST(NodeCondition, IsOneEntryByItsTypeSoThatOthersStay) {
  const auto patch =
      Json::parse(condition_patch({true, "Serving", "2 resources are served"}, kThen, kThen + std::chrono::minutes(1)));
  ASSERT_EQ(patch.size(), 1u);
  const auto& conditions = patch["status"]["conditions"];
  ASSERT_EQ(conditions.size(), 1u);
  EXPECT_EQ(conditions[0]["type"], "TrancheReady");
  EXPECT_EQ(conditions[0]["status"], "True");
  EXPECT_EQ(conditions[0]["reason"], "Serving");
  EXPECT_NE(conditions[0]["lastTransitionTime"], conditions[0]["lastHeartbeatTime"]);
  EXPECT_EQ(node_status_path("n1"), "/api/v1/nodes/n1/status");
}

TEST(NodeCondition, OfANodeThatDoesNotServeIsFalseAndItsMessageIsCut) {
  const auto patch = Json::parse(condition_patch({false, "NoDriver", std::string(5000, 'x')}, kThen, kThen));
  const auto& entry = patch["status"]["conditions"][0];
  EXPECT_EQ(entry["status"], "False");
  EXPECT_LE(entry["message"].get<std::string>().size(), 1024u);
}

// Promise: api-server/condition: The startup taint is removed once and other taints stay.
TEST(StartupTaint, IsTakenOffAndTheOthersStay) {
  const char* node = R"({"metadata":{"resourceVersion":"7"},"spec":{"taints":[
      {"key":"a","effect":"NoSchedule"},{"key":"tranche.io/starting","effect":"NoSchedule"},
      {"key":"tranche.io/starting","effect":"NoExecute"}]}})";
  const auto patch = patch_without_taint(node, "tranche.io/starting");
  ASSERT_TRUE(patch && *patch);
  EXPECT_EQ(
      Json::parse(**patch),
      Json::parse(R"({"metadata":{"resourceVersion":"7"},"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}})"));
}

TEST(StartupTaint, ANodeOfAnyDepthIsNoNode) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_FALSE(patch_without_taint(
      R"({"metadata":{"resourceVersion":"7"},"spec":{"taints":[{"key":"a","value":)" + deep + R"(},{"key":"x"}]}})",
      "x"));
}

TEST(StartupTaint, ThatIsNotThereIsLeftAtThatAndWhatIsNoNodeIsAnError) {
  EXPECT_EQ(patch_without_taint(R"({"metadata":{"resourceVersion":"7"},"spec":{}})", "x"), std::nullopt);
  EXPECT_EQ(patch_without_taint(R"({"metadata":{"resourceVersion":"7"},"spec":{"taints":[{"key":"a"},3]}})", "x"),
            std::nullopt);
  EXPECT_FALSE(patch_without_taint("[]", "x"));
  EXPECT_FALSE(patch_without_taint("{", "x"));
}

}  // namespace node_condition_test
}  // namespace tranche::kube
