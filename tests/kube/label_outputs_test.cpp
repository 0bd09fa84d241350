// The writers of node labels against the API server's stand-in, and a file.
#include "labels/live/label_writer.h"

#include <sys/stat.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "golden/golden.h"
#include "kube/kube_bed.h"

namespace tranche::kube {
namespace {

using Json = nlohmann::json;
using labels::LabelOutput;
using labels::Labels;
using labels::Written;
using sim::ApiRequest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kFeatures = "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/gpu/nodefeatures";
constexpr const char* kNodes = "/api/v1/nodes";
const Labels kTwo{{"nvidia.com/gpu.count", "2"}, {"nvidia.com/gpu.product", "NVIDIA-H200"}};
const Labels kOne{{"nvidia.com/gpu.count", "1"}};

class LabelOutputs : public KubeBed {
 protected:
  void SetUp() override { open(); }
  void TearDown() override { writer_.reset(); }

  void use_feature(const std::string& pod = "") {
    server_->serve_collection(kFeatures);
    writer_ = labels::label_writer(labels::LabelOutput::kNodeFeature, {"n1", "gpu", pod, {}}, client_.get());
  }
  void use_node() {
    server_->put(kNodes, "n1", R"({"metadata":{"labels":{"kubernetes.io/os":"linux"}}})");
    writer_ = labels::label_writer(labels::LabelOutput::kNode, {"n1", {}, {}, {}}, client_.get());
  }
  Result<labels::Written> write(const Labels& labels) {
    std::optional<Result<labels::Written>> answer;
    writer_->write(labels, [&](Result<labels::Written> written) { answer = std::move(written); });
    EXPECT_TRUE(until([&] { return answer.has_value(); }));
    return answer.value_or(fail(Kind::kTimeout, "no answer"));
  }
  Json object(const char* collection, const std::string& name) {
    return Json::parse(server_->object(collection, name), nullptr, false);
  }
  std::size_t asked() const { return server_->requests().size(); }

  std::unique_ptr<labels::LabelWriter> writer_;
};

TEST_F(LabelOutputs, AnObjectIsMadeChangedAndLeftAlone) {
  use_feature();
  auto written = write(kTwo);
  ASSERT_TRUE(written) << to_string(written.error());
  EXPECT_TRUE(written->changed);
  const Json made = object(kFeatures, "nvidia-features-for-n1");
  EXPECT_EQ(made["spec"]["labels"], Json(kTwo));
  EXPECT_EQ(made["metadata"]["labels"]["nfd.node.kubernetes.io/node-name"], "n1");

  const auto before = asked();
  EXPECT_FALSE(write(kTwo).value().changed);
  EXPECT_EQ(asked(), before + 1) << "it is looked at, and nothing is written";
  EXPECT_TRUE(write(kOne).value().changed);
  EXPECT_EQ(object(kFeatures, "nvidia-features-for-n1")["spec"]["labels"], Json(kOne));
  EXPECT_EQ(object(kFeatures, "nvidia-features-for-n1")["metadata"]["uid"], made["metadata"]["uid"]);
}

TEST_F(LabelOutputs, OwnersAreFoundOnceAndTheirLackIsARemark) {
  use_feature("gfd-x");
  const auto written = write(kTwo);
  ASSERT_TRUE(written);
  EXPECT_THAT(written->remarks, ElementsAre(HasSubstr("see the pod gfd-x")));
  EXPECT_FALSE(object(kFeatures, "nvidia-features-for-n1")["metadata"].contains("ownerReferences"));
  server_->put("/api/v1/namespaces/gpu/pods", "gfd-x", R"({"metadata":{"ownerReferences":[
    {"apiVersion":"apps/v1","kind":"DaemonSet","name":"gfd","uid":"d"}]}})");
  EXPECT_TRUE(write(kTwo).value().changed);
  const Json owners = object(kFeatures, "nvidia-features-for-n1")["metadata"]["ownerReferences"];
  ASSERT_EQ(owners.size(), 2u);
  EXPECT_EQ(owners[0]["name"], "gfd");
  EXPECT_EQ(owners[1]["name"], "gfd-x");
  const auto before = asked();
  EXPECT_FALSE(write(kTwo).value().changed);
  EXPECT_EQ(asked(), before + 1) << "the pod is not asked for again";
}

TEST_F(LabelOutputs, TheNodeGetsOursBesideOthers) {
  use_node();
  EXPECT_TRUE(write(kTwo).value().changed);
  Json node = object(kNodes, "n1");
  EXPECT_EQ(node["metadata"]["labels"]["kubernetes.io/os"], "linux");
  EXPECT_EQ(node["metadata"]["labels"]["nvidia.com/gpu.count"], "2");
  EXPECT_FALSE(write(kTwo).value().changed);
  server_->put(kNodes, "n1", R"({"metadata":{"labels":{"nvidia.com/mps.capable":"theirs"}}})");
  const auto written = write({{"nvidia.com/gpu.count", "1"}, {"nvidia.com/mps.capable", "true"}});
  EXPECT_THAT(written.value().foreign, ElementsAre("nvidia.com/mps.capable"));
  node = object(kNodes, "n1");
  EXPECT_EQ(node["metadata"]["labels"],
            Json({{"kubernetes.io/os", "linux"}, {"nvidia.com/gpu.count", "1"}, {"nvidia.com/mps.capable", "theirs"}}));
  EXPECT_TRUE(write({}).value().changed);
  node = object(kNodes, "n1");
  EXPECT_FALSE(node["metadata"]["labels"].contains("nvidia.com/gpu.count"));
  EXPECT_THAT(node["metadata"].value("annotations", Json::object()), IsEmpty());
}

// Promise: labels: A write in between leads to a new look.
TEST_F(LabelOutputs, WhoeverWritesInBetweenMakesUsLookAgain) {
  use_node();
  server_->refuse(2, 409, "{}", [](const ApiRequest& request) { return request.method == "PATCH"; });
  EXPECT_TRUE(write(kTwo).value().changed);
  EXPECT_EQ(object(kNodes, "n1")["metadata"]["labels"]["nvidia.com/gpu.count"], "2");
  server_->refuse(100, 409, "{}", [](const ApiRequest& request) { return request.method == "PATCH"; });
  const auto lost = write(kOne);
  ASSERT_FALSE(lost) << "not for ever";
  EXPECT_EQ(lost.error().kind, Kind::kConflict);
}

TEST_F(LabelOutputs, AnObjectThatSomebodyMadeMeanwhileIsTakenUp) {
  use_feature();
  server_->refuse(1, 404, "{}", [](const ApiRequest& request) { return request.method == "GET"; });
  server_->put(kFeatures, "nvidia-features-for-n1", R"({"spec":{"labels":{"nvidia.com/stale":"x"}}})");
  const auto written = write(kTwo);
  ASSERT_TRUE(written) << to_string(written.error());
  EXPECT_EQ(object(kFeatures, "nvidia-features-for-n1")["spec"]["labels"], Json(kTwo));
}

TEST_F(LabelOutputs, RefusalsSayWhetherSomebodyHasToAct) {
  struct Row {
    int status;
    Kind kind;
  };
  use_node();
  for (const Row& row : {Row{403, Kind::kDenied}, Row{404, Kind::kNotFound}, Row{422, Kind::kInvalid},
                         Row{429, Kind::kUnavailable}, Row{500, Kind::kUnavailable}}) {
    server_->refuse(1, row.status, R"({"kind":"Status","message":"in its own words"})",
                    [](const ApiRequest& request) { return request.method == "PATCH"; });
    const auto refused = write({{"nvidia.com/gpu.count", std::to_string(row.status)}});
    ASSERT_FALSE(refused) << row.status;
    EXPECT_EQ(refused.error().kind, row.kind) << row.status;
    EXPECT_THAT(to_string(refused.error()), HasSubstr("label the node n1: in its own words"));
  }
  writer_ = labels::label_writer(labels::LabelOutput::kNodeFeature, {"n1", "gpu", {}, {}}, client_.get());
  const auto none = write(kOne);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, Kind::kNotFound);
  EXPECT_THAT(to_string(none.error()), HasSubstr("no node feature discovery"));
}

// What a role of deploy/rbac allows: verbs by "group/resource".
std::map<std::string, std::vector<std::string>> rules_of(const std::string& role) {
  std::map<std::string, std::vector<std::string>> rules;
  for (const YAML::Node& document : YAML::LoadAll(golden::read(golden::source("deploy/rbac/labels.yaml")))) {
    if (!document.IsMap() || document["metadata"]["name"].as<std::string>() != role || !document["rules"]) continue;
    for (const YAML::Node& rule : document["rules"])
      for (const YAML::Node& group : rule["apiGroups"])
        for (const YAML::Node& resource : rule["resources"])
          rules[group.as<std::string>() + "/" + resource.as<std::string>()] =
              rule["verbs"].as<std::vector<std::string>>();
  }
  return rules;
}

// Promise: labels: No more rights are used than the roles give.
TEST_F(LabelOutputs, AskForNoMoreThanTheRolesGive) {
  const std::map<std::string, std::string> kVerbs{
      {"GET", "get"}, {"POST", "create"}, {"PUT", "update"}, {"PATCH", "patch"}};
  const auto used_rules = [&](const std::string& role) {
    auto rules = rules_of(role);
    EXPECT_FALSE(rules.empty()) << role;
    std::set<std::string> used;
    for (const auto& request : server_->requests()) {
      const bool core = request.path.starts_with("/api/v1/");
      std::string kind = core ? "/nodes" : "nfd.k8s-sigs.io/nodefeatures";
      if (request.path.find("/pods/") != std::string::npos) kind = "/pods";
      const std::string verb = kVerbs.at(request.method);
      EXPECT_THAT(rules[kind], ::testing::Contains(verb)) << request.path;
      used.insert(kind + " " + verb);
    }
    std::size_t given = 0;
    for (const auto& [kind, verbs] : rules) given += verbs.size();
    EXPECT_EQ(used.size(), given) << role << " gives more than is used";
  };
  server_->put("/api/v1/namespaces/gpu/pods", "gfd-x", "");
  use_feature("gfd-x");
  write(kTwo);
  write(kOne);
  used_rules("tranche-labels-nodefeature");
  writer_.reset();
  client_.reset();
  server_ = sim::ApiServer::start();
  open();
  use_node();
  write(kTwo);
  used_rules("tranche-labels-node");
}

TEST_F(LabelOutputs, AFileIsReplacedOnlyWhenItDiffers) {
  writer_ = labels::label_writer(labels::LabelOutput::kFile, {{}, {}, {}, scratch_ / "gfd"}, nullptr);
  EXPECT_TRUE(write(kTwo).value().changed);
  EXPECT_EQ(os::read_file(scratch_ / "gfd").value(), "nvidia.com/gpu.count=2\nnvidia.com/gpu.product=NVIDIA-H200\n");
  struct stat before{};
  ASSERT_EQ(::stat((scratch_ / "gfd").c_str(), &before), 0);
  EXPECT_EQ(before.st_mode & 0777u, 0644u);
  EXPECT_FALSE(write(kTwo).value().changed);
  struct stat after{};
  ASSERT_EQ(::stat((scratch_ / "gfd").c_str(), &after), 0);
  EXPECT_EQ(after.st_ino, before.st_ino);
  EXPECT_TRUE(write(kOne).value().changed);
  ASSERT_EQ(::stat((scratch_ / "gfd").c_str(), &after), 0);
  EXPECT_NE(after.st_ino, before.st_ino) << "another file under the same name";
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(scratch_.path()))
    names.push_back(entry.path().filename());
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("gfd", "token"));

  std::filesystem::create_directory(scratch_ / "gfd-tmp");
  writer_->clean_up();
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "gfd"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "gfd-tmp"));
  writer_ = labels::label_writer(labels::LabelOutput::kFile, {{}, {}, {}, scratch_ / "absent/gfd"}, nullptr);
  ASSERT_FALSE(write(kTwo));
  EXPECT_EQ(write(kTwo).error().kind, Kind::kNotFound) << "somebody has to mount it";
}

}  // namespace
}  // namespace tranche::kube
