#include "kube/pod.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace tranche::kube {
namespace pod_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Json = nlohmann::json;

Json pod_json(const std::string& name, const std::string& uid) {
  return {{"metadata", {{"namespace", "default"}, {"name", name}, {"uid", uid}, {"resourceVersion", "7"}}},
          {"spec", {{"nodeName", "n1"}}},
          {"status",
           {{"phase", "Running"}, {"containerStatuses", {{{"name", "main"}, {"containerID", "containerd://abc"}}}}}}};
}

PodSeen pod(const std::string& name, const std::string& uid) {
  return read_pod(pod_json(name, uid));
}

std::vector<std::pair<std::string, bool>> short_of(const std::vector<PodEnding>& endings) {
  std::vector<std::pair<std::string, bool>> list;
  for (const auto& ending : endings) list.emplace_back(ending.pod.uid, ending.over);
  return list;
}

TEST(Pod, IsReadByTheFieldsThatAreWanted) {
  auto json = pod_json("a", "u1");
  json["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  json["metadata"]["deletionGracePeriodSeconds"] = 30;
  json["spec"]["whatever"] = {1, 2, 3};
  json["status"]["initContainerStatuses"] = {{{"name", "init"}, {"containerID", "containerd://i"}}};
  const auto seen = read_pod(json);
  EXPECT_EQ(seen.pod_namespace, "default");
  EXPECT_EQ(seen.node_name, "n1");
  EXPECT_TRUE(seen.deleting);
  EXPECT_EQ(seen.deletion_grace_seconds, 30);
  EXPECT_THAT(seen.containers,
              ElementsAre(ContainerSeen{"init", "containerd://i"}, ContainerSeen{"main", "containerd://abc"}));
  EXPECT_FALSE(seen.mirror);
  json["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "0011";
  EXPECT_TRUE(read_pod(json).mirror);
}

TEST(Pod, FieldsOfAnotherTypeAreAbsent) {
  auto json = pod_json("a", "u1");
  json["status"] = "gone";
  json["spec"] = Json::array();
  json["metadata"]["deletionGracePeriodSeconds"] = "30";
  const auto seen = read_pod(json);
  EXPECT_EQ(seen.phase, "");
  EXPECT_EQ(seen.deletion_grace_seconds, std::nullopt);
}

TEST(PodList, GivesItsPodsItsVersionAndTheNextPage) {
  const Json list{{"kind", "PodList"},
                  {"metadata", {{"resourceVersion", "77"}, {"continue", "tok"}}},
                  {"items", {pod_json("a", "u1"), pod_json("b", "u2")}}};
  std::vector<std::string> read;
  const auto head = parse_list(list.dump(), [&read](const Json& object) -> Status {
    read.push_back(read_pod(object).name);
    return {};
  });
  ASSERT_TRUE(head) << to_string(head.error());
  EXPECT_EQ(head->resource_version, "77");
  EXPECT_EQ(head->next, "tok");
  EXPECT_THAT(read, ElementsAre("a", "b"));
}

TEST(PodList, AnEmptyOneMayHaveNoItemsAndAnythingElseIsRefused) {
  const auto ignore = [](const Json&) { return Status(); };
  EXPECT_TRUE(parse_list(R"({"kind":"PodList","metadata":{"resourceVersion":"1"},"items":null})", ignore));
  for (const char* text : {"", "[]", "{", R"({"kind":"Status"})", R"({"items":[]})", R"({"items":{},"metadata":{}})"})
    EXPECT_FALSE(parse_list(text, ignore)) << text;
}

TEST(PodTable, ReportsWhatIsGoneFromAList) {
  PodTable table;
  EXPECT_THAT(table.replace({pod("a", "1"), pod("b", "2")}), IsEmpty());
  EXPECT_THAT(table.replace({pod("b", "2"), pod("a", "1")}), IsEmpty());
  EXPECT_THAT(short_of(table.replace({pod("b", "2"), pod("c", "3")})), ElementsAre(std::pair("1", true)));
  EXPECT_EQ(table.size(), 2u);
}

TEST(PodTable, ADeletionIsReportedOnce) {
  PodTable table;
  table.apply(Change::kAdded, pod("a", "1"));
  auto going = pod("a", "1");
  going.deleting = true;
  EXPECT_THAT(short_of(table.apply(Change::kModified, going)), ElementsAre(std::pair("1", false)));
  going.containers.clear();
  EXPECT_THAT(table.apply(Change::kModified, going), IsEmpty());
  EXPECT_THAT(short_of(table.apply(Change::kDeleted, going)), ElementsAre(std::pair("1", true)));
  EXPECT_THAT(table.apply(Change::kDeleted, going), IsEmpty());
}

TEST(PodTable, APodOfTheSameNameWithAnotherUidIsAnotherPod) {
  PodTable table;
  table.apply(Change::kAdded, pod("a", "1"));
  EXPECT_THAT(short_of(table.apply(Change::kAdded, pod("a", "2"))), ElementsAre(std::pair("1", true)));
  EXPECT_THAT(table.apply(Change::kDeleted, pod("a", "1")), IsEmpty()) << "a late event of the old one";
  EXPECT_NE(table.find("default", "a"), nullptr);
}

TEST(PodTable, APodThatEndsByItselfIsReportedOnce) {
  PodTable table;
  table.apply(Change::kAdded, pod("a", "1"));
  auto same = pod("a", "1");
  EXPECT_THAT(table.apply(Change::kModified, same), IsEmpty());
  same.phase = "Succeeded";
  EXPECT_THAT(short_of(table.apply(Change::kModified, same)), ElementsAre(std::pair("1", true)));
  EXPECT_THAT(table.apply(Change::kModified, same), IsEmpty());
}

TEST(Pod, LimitsForMpsInItsManifestAreReadWhereTheyArePlain) {
  const auto pod = read_pod(nlohmann::json::parse(R"j({"metadata":{"namespace":"n","name":"p","uid":"u"},"spec":{
      "initContainers":[{"name":"init","env":[{"name":"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE","value":"5"}]}],
      "containers":[{"name":"a","env":[{"name":"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE","value":"30"},
                                       {"name":"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT","value":"0=2G"}]},
                    {"name":"b","env":[{"name":"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE","valueFrom":{"fieldRef":{}}}]},
                    {"name":"c","env":[{"name":"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT","value":"$(LIMIT)"}]},
                    {"name":"d","env":[3,{"name":"PATH","value":"/bin"}]}]}})j"));
  EXPECT_THAT(pod.mps_environments,
              ElementsAre(MpsEnvironmentSeen{"init", "5", std::nullopt}, MpsEnvironmentSeen{"a", "30", "0=2G"}));
}

}  // namespace pod_test
}  // namespace tranche::kube
