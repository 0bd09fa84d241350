#include "labels/outputs.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace tranche::labels {
namespace outputs_test {

using Json = nlohmann::json;

const LabelTarget kPlace{"n1", "gpu-operator"};
const Labels kLabels{{"nvidia.com/gpu.count", "2"}, {"nvidia.com/gpu.product", "NVIDIA-H200"}};

TEST(FeatureFile, HasALineForEveryLabelInOrder) {
  EXPECT_EQ(file_text(kLabels), "nvidia.com/gpu.count=2\nnvidia.com/gpu.product=NVIDIA-H200\n");
  EXPECT_EQ(file_text({}), "");
  EXPECT_EQ(file_text({{"a/b", ""}}), "a/b=\n");
}

TEST(NodeFeature, HasTheNameAndShapeThatGpuFeatureDiscoveryGivesIt) {
  EXPECT_EQ(feature_path(kPlace),
            "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/gpu-operator/nodefeatures/nvidia-features-for-n1");
  EXPECT_EQ(features_path(kPlace), "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/gpu-operator/nodefeatures");
  const Json object = Json::parse(new_feature(kPlace, kLabels));
  EXPECT_EQ(object["apiVersion"], "nfd.k8s-sigs.io/v1alpha1");
  EXPECT_EQ(object["kind"], "NodeFeature");
  EXPECT_EQ(object["metadata"]["name"], "nvidia-features-for-n1");
  EXPECT_EQ(object["metadata"]["namespace"], "gpu-operator");
  EXPECT_EQ(object["metadata"]["labels"]["nfd.node.kubernetes.io/node-name"], "n1");
  EXPECT_FALSE(object["metadata"].contains("ownerReferences"));
  EXPECT_EQ(object["spec"]["labels"], Json(kLabels));
  for (const char* kind : {"attributes", "flags", "instances"})
    EXPECT_EQ(object["spec"]["features"][kind], Json::object()) << "the definition of the resource asks for all three";
}

TEST(NodeFeature, IsWrittenOnlyWhenSomethingDiffers) {
  const std::string there = new_feature(kPlace, kLabels);
  EXPECT_EQ(changed_feature(there, kPlace, kLabels).value(), std::nullopt);
  Json stored = Json::parse(there);
  stored["metadata"]["resourceVersion"] = "7";
  stored["metadata"]["annotations"] = {{"somebody", "else"}};
  stored["spec"]["features"]["flags"] = {{"kept", Json::object()}};
  stored["metadata"]["ownerReferences"] = Json::array();
  EXPECT_EQ(changed_feature(stored.dump(), kPlace, kLabels).value(), std::nullopt);

  stored["spec"]["labels"]["nvidia.com/stale"] = "x";
  const auto changed = changed_feature(stored.dump(), kPlace, kLabels).value();
  ASSERT_TRUE(changed);
  const Json object = Json::parse(*changed);
  EXPECT_EQ(object["spec"]["labels"], Json(kLabels)) << "stale ones go";
  EXPECT_EQ(object["metadata"]["resourceVersion"], "7") << "so that a change in between is noticed";
  EXPECT_EQ(object["metadata"]["annotations"]["somebody"], "else");
  EXPECT_TRUE(object["spec"]["features"]["flags"].contains("kept"));
}

TEST(NodeFeature, LabelsOfTheObjectAndOwnersAreReplaced) {
  LabelTarget owned = kPlace;
  owned.owners = R"([{"apiVersion":"apps/v1","kind":"DaemonSet","name":"gfd","uid":"u1","controller":true},
                                 {"apiVersion":"v1","kind":"Pod","name":"gfd-x","uid":"u2"}])";
  const auto changed = changed_feature(new_feature(kPlace, kLabels), owned, kLabels).value();
  ASSERT_TRUE(changed);
  const Json owners = Json::parse(*changed)["metadata"]["ownerReferences"];
  ASSERT_EQ(owners.size(), 2u);
  EXPECT_EQ(
      owners[0],
      Json({{"apiVersion", "apps/v1"}, {"kind", "DaemonSet"}, {"name", "gfd"}, {"uid", "u1"}, {"controller", true}}));
  EXPECT_FALSE(owners[1].contains("controller"));
  EXPECT_EQ(changed_feature(*changed, owned, kLabels).value(), std::nullopt);

  Json other = Json::parse(*changed);
  other["metadata"]["labels"]["more"] = "x";
  EXPECT_TRUE(changed_feature(other.dump(), owned, kLabels).value().has_value());
  EXPECT_TRUE(changed_feature(*changed, kPlace, kLabels).value().has_value()) << "owners that went";
}

TEST(NodeFeature, WhatIsNoneIsRefused) {
  for (const char* text : {"", "[]", "{}", "{\"kind\":\"NodeFeature\"}", "{\"kind\":\"Pod\",\"metadata\":{}}"})
    EXPECT_FALSE(changed_feature(text, kPlace, kLabels)) << text;
  const auto bare = changed_feature("{\"kind\":\"NodeFeature\",\"metadata\":{},\"spec\":7}", kPlace, kLabels);
  ASSERT_TRUE(bare && bare->has_value());
  EXPECT_EQ(Json::parse(**bare)["spec"]["labels"], Json(kLabels));
}

TEST(FeatureOwners, AreTheDaemonSetAndThePod) {
  const auto owners = owners_of_pod(R"({"metadata":{"name":"gfd-x","uid":"p","ownerReferences":[
    {"apiVersion":"apps/v1","kind":"DaemonSet","name":"gfd","uid":"d"}]}})");
  ASSERT_TRUE(owners);
  EXPECT_EQ(Json::parse(*owners), Json::parse(R"([
    {"apiVersion":"apps/v1","kind":"DaemonSet","name":"gfd","uid":"d","controller":true},
    {"apiVersion":"v1","kind":"Pod","name":"gfd-x","uid":"p"}])"));
}

TEST(FeatureOwners, AreNoneForAPodThatNoDaemonSetMade) {
  EXPECT_EQ(owners_of_pod(R"({"metadata":{"name":"a","uid":"p"}})").value(), "[]");
  EXPECT_EQ(owners_of_pod(R"({"metadata":{"name":"a","uid":"p","ownerReferences":[
    {"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"d"}]}})")
                .value(),
            "[]");
  EXPECT_FALSE(owners_of_pod(R"({"kind":"Status","code":404})"));
}

}  // namespace outputs_test
}  // namespace tranche::labels
