// Several configurations and a node's label that says which is in force: from a ConfigMap object and from a mounted
// folder, in both programs, through everything that happens to labels, contents and the API server.
#include <csignal>
#include <filesystem>

#include "node/bed.h"
#include "standins/kube/api_server.h"

namespace tranche::e2e {
namespace named_config_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

constexpr const char* kNodes = "/api/v1/nodes";
constexpr const char* kMaps = "/api/v1/namespaces/gpu/configmaps";
constexpr const char* kLabel = "nvidia.com/device-plugin.config";

class NodeNamedConfigurations : public NodeBed {
 protected:
  NodeNamedConfigurations() : api_(sim::ApiServer::start()) {
    config_path_ = "";
    api_->put(kNodes, "n1", "{}");
  }

  void put_configs(const std::map<std::string, std::string>& data) {
    Json object;
    for (const auto& [key, text] : data) object["data"][key] = text;
    api_->put(kMaps, "configs", object.dump());
  }
  void two_and_four() { put_configs({{"two", sharing("mps", 2)}, {"four", sharing("mps", 4)}}); }
  void label(const Json& value) {  // null takes it off
    Json object;
    object["metadata"]["labels"][kLabel] = value;
    api_->put(kNodes, "n1", object.dump());
  }
  void prepare() {
    ASSERT_NO_FATAL_FAILURE(make_node(1));
    write("kubeconfig", api_->kubeconfig(""));
    ASSERT_NO_FATAL_FAILURE(start_kubelet());
    start_mps({"--config-of-node", in("run/config-in-force.json")});
  }
  Program& start_named(Strings more) {
    Strings words{"--kubeconfig", in("kubeconfig"), "--node-name", "n1"};
    words.insert(words.end(), more.begin(), more.end());
    return start_node(std::move(words));
  }
  void start_by_map(Strings more = {"--default-config", "two"}) {
    ASSERT_NO_FATAL_FAILURE(prepare());
    more.insert(more.end(), {"--config-map", "gpu/configs"});
    start_named(std::move(more));
  }
  Json until_config(const std::string& name, const std::string& by) {
    const auto status =
        until_node([&](const Json& s) { return s["config"]["name"] == name && s["config"]["chosenBy"] == by; });
    return status.is_null() ? status : status["config"];
  }
  Json until_problem(const std::string& text) {
    return until_node([&](const Json& s) { return s["config"]["problems"].dump().find(text) != std::string::npos; });
  }
  // As kubelet replaces what it mounts.
  void mount(const std::string& version, const std::map<std::string, std::string>& files) {
    fs::create_directories(in("map/" + version));
    for (const auto& [name, text] : files) write("map/" + version + "/" + name, text);
    fs::create_directory_symlink(version, in("map/..data_tmp"));
    fs::rename(in("map/..data_tmp"), in("map/..data"));
    for (const auto& [name, text] : files)
      if (!fs::is_symlink(in("map/" + name))) fs::create_symlink("..data/" + name, in("map/" + name));
  }

  std::unique_ptr<sim::ApiServer> api_;
};

// Promise: config/choose: A label changes the configuration in both programs without a restart.
TEST_F(NodeNamedConfigurations, TheDefaultIsInForceAndALabelChangesItAndBackInBothProgramsWithoutARestart) {
  two_and_four();
  ASSERT_NO_FATAL_FAILURE(start_by_map());
  ASSERT_TRUE(until_healthy(2));
  const auto before = until_config("two", "default");
  EXPECT_EQ(before["path"], "ConfigMap gpu/configs[two]");
  EXPECT_EQ(before["inForce"], "file");
  EXPECT_THAT(before["problems"], IsEmpty());
  const pid_t pid = program("node")->pid();
  label("four");
  ASSERT_TRUE(until_healthy(4));
  const auto after = until_config("four", "label");
  EXPECT_EQ(after["label"], "four");
  EXPECT_NE(after["hash"], before["hash"]);
  const auto mps = until_mps([&](const Json& s) { return s["config"]["hash"] == after["hash"]; });
  EXPECT_EQ(mps["config"]["name"], "four");
  EXPECT_EQ(mps["config"]["path"], after["path"]);
  Program& table = start({tranche(), "status", "--socket", node_socket()});
  EXPECT_EQ(finish(table), 0);
  EXPECT_THAT(table.out(), HasSubstr("ConfigMap gpu/configs[four] (file), chosen by label"));
  label(nullptr);
  ASSERT_TRUE(until_healthy(2));
  EXPECT_EQ(until_config("two", "default")["hash"], before["hash"]);
  EXPECT_EQ(until_node([](const Json&) { return true; })["pid"], pid);
}

// Promise: config/choose: The node's label is known before the first decision.
TEST_F(NodeNamedConfigurations, TheLabelIsKnownBeforeTheFirstDecision) {
  two_and_four();
  label("four");
  api_->slow(std::chrono::milliseconds(200));
  ASSERT_NO_FATAL_FAILURE(start_by_map());
  ASSERT_TRUE(until_healthy(4));
  for (const auto& message : kubelet().messages()) EXPECT_EQ(message.devices.size(), 4u);
  EXPECT_EQ(program("node")->err().find("[two]"), std::string::npos);
  EXPECT_EQ(program("mps")->err().find("[two]"), std::string::npos);
}

// Promise: config/choose: A bad edit or a restart leaves the last good configuration enforced.
TEST_F(NodeNamedConfigurations, ABadEditAndARestartLeaveTheLastGoodInForce) {
  two_and_four();
  ASSERT_NO_FATAL_FAILURE(start_by_map());
  ASSERT_TRUE(until_healthy(2));
  put_configs({{"two", "version: v7\n"}});
  until_problem("ConfigMap gpu/configs[two]");
  stop(*program("node"), SIGTERM, 0);
  start_named({"--config-map", "gpu/configs", "--default-config", "two"});
  ASSERT_TRUE(until_healthy(2));
  EXPECT_EQ(until_problem("ConfigMap gpu/configs[two]")["config"]["inForce"], "last good");
}

// Promise: config/choose: A label that names no configuration lists the names.
TEST_F(NodeNamedConfigurations, ALabelThatNamesNoneIsAnsweredWithTheNamesThatThereAre) {
  two_and_four();
  ASSERT_NO_FATAL_FAILURE(start_by_map());
  ASSERT_TRUE(until_healthy(2));
  label("fuor");
  const auto status = until_problem("fuor");
  EXPECT_EQ(status["config"]["inForce"], "last good");
  EXPECT_THAT(status["config"]["problems"][0].get<std::string>(), HasSubstr("it has four, two"));
  EXPECT_THAT(status["config"]["problems"][0].get<std::string>(), HasSubstr("kubectl label node n1"));
  label("four");
  ASSERT_TRUE(until_healthy(4));
}

// Promise: config/choose: A deleted ConfigMap or key leaves the last good configuration enforced.
TEST_F(NodeNamedConfigurations, ADeletedConfigMapOrKeyLeavesTheLastGoodInForce) {
  two_and_four();
  label("four");
  ASSERT_NO_FATAL_FAILURE(start_by_map());
  ASSERT_TRUE(until_healthy(4));
  api_->put(kMaps, "configs", R"({"data":{"four":null}})");
  EXPECT_EQ(until_problem("names \\\"four\\\"")["config"]["inForce"], "last good");
  api_->remove(kMaps, "configs");
  EXPECT_EQ(until_problem("it is not there")["config"]["inForce"], "last good");
  EXPECT_EQ(kubelet().view(kGpu).healthy(), 4u);
  put_configs({{"two", sharing("mps", 2)}, {"four", sharing("mps", 3)}});
  ASSERT_TRUE(until_healthy(3));
}

TEST_F(NodeNamedConfigurations, WhatHappensWhileTheApiServerIsAwayIsTakenUpWhenItIsBack) {
  two_and_four();
  ASSERT_NO_FATAL_FAILURE(start_by_map());
  ASSERT_TRUE(until_healthy(2));
  api_->mute(true);
  api_->cut_watches();
  label("four");
  api_->forget_versions();
  EXPECT_EQ(kubelet().view(kGpu).healthy(), 2u);
  api_->mute(false);
  ASSERT_TRUE(until_healthy(4));
  until_config("four", "label");
}

// Promise: config/choose: A restart without the API server uses the stored configuration.
TEST_F(NodeNamedConfigurations, ARestartWithoutTheApiServerTakesWhatWasWrittenDown) {
  two_and_four();
  label("four");
  ASSERT_NO_FATAL_FAILURE(start_by_map());
  ASSERT_TRUE(until_healthy(4));
  stop(*program("node"), SIGTERM, 0);
  api_.reset();
  start_named({"--config-map", "gpu/configs", "--default-config", "two", "--config-wait", "200ms"});
  ASSERT_TRUE(until_healthy(4));
  const auto config = until_config("four", "label");
  EXPECT_EQ(config["inForce"], "last good");
  EXPECT_THAT(config["problems"].dump(), HasSubstr("ConfigMap gpu/configs"));
}

// Promise: config/choose: Without the right to read the node the default applies and the role is named.
TEST_F(NodeNamedConfigurations, WithoutTheRightToReadTheNodeTheDefaultCountsAndTheRoleIsNamed) {
  two_and_four();
  label("four");
  api_->refuse(1000, 403, R"({"kind":"Status","code":403,"reason":"Forbidden","message":"nodes is forbidden"})",
               [](const sim::ApiRequest& r) { return r.path == kNodes; });
  ASSERT_NO_FATAL_FAILURE(start_by_map({"--default-config", "two", "--config-wait", "200ms"}));
  ASSERT_TRUE(until_healthy(2));
  EXPECT_THAT(until_problem("is not known")["config"]["problems"].dump(), HasSubstr("deploy/rbac/config.yaml"));
}

TEST_F(NodeNamedConfigurations, NothingIsAdvertisedUntilThereIsOneAndThenItIsTakenUp) {
  ASSERT_NO_FATAL_FAILURE(start_by_map());
  ASSERT_TRUE(until_says(*program("node"), "config.waiting"));
  EXPECT_TRUE(until_says(*program("node"), "it is not there"));
  EXPECT_FALSE(fs::exists(node_socket()));
  two_and_four();
  ASSERT_TRUE(until_healthy(2));
}

// From /proc/PID/status.
bool blocks(const std::string& status, int signal) {
  const std::string text = os::read_file(status).value_or(""), name = "SigBlk:\t";
  const auto at = text.find(name);
  return at != std::string::npos && (std::stoull(text.substr(at + name.size(), 16), nullptr, 16) >> (signal - 1) & 1);
}

TEST_F(NodeNamedConfigurations, EndsAtOnceWhileItWaitsForOne) {
  ASSERT_NO_FATAL_FAILURE(start_by_map());
  ASSERT_TRUE(until_says(*program("node"), "config.waiting"));
  const std::string status = "/proc/" + std::to_string(program("mps")->pid()) + "/status";
  ASSERT_TRUE(until([&] { return blocks(status, SIGTERM); }, "tranche mps to receive its signals by its loop"));
  stop(*program("node"), SIGTERM, 0);
  stop(*program("mps"), SIGTERM, 0);
}

TEST_F(NodeNamedConfigurations, AMountedFolderIsFollowedAndChosenFromByTheLabel) {
  mount("..1", {{"two", sharing("mps", 2)}, {"four", sharing("mps", 4)}});
  ASSERT_NO_FATAL_FAILURE(prepare());
  start_named({"--config-dir", in("map"), "--default-config", "two"});
  ASSERT_TRUE(until_healthy(2));
  EXPECT_EQ(until_config("two", "default")["path"], in("map/two"));
  label("four");
  ASSERT_TRUE(until_healthy(4));
  mount("..2", {{"two", sharing("mps", 2)}, {"four", sharing("mps", 3)}});
  fs::remove_all(in("map/..1"));
  ASSERT_TRUE(until_healthy(3));
  mount("..3", {{"two", sharing("mps", 2)}, {"four", "version: v1\nsharing: [\n"}});
  EXPECT_EQ(until_problem(in("map/four") + ":")["config"]["inForce"], "last good");
  label("two");
  ASSERT_TRUE(until_healthy(2));
}

TEST_F(NodeNamedConfigurations, AFolderNeedsNoApiServerAndEditsInPlaceCount) {
  fs::create_directory(in("map"));
  write("map/only", sharing("mps", 2));
  ASSERT_NO_FATAL_FAILURE(make_node(1));
  ASSERT_NO_FATAL_FAILURE(start_kubelet());
  start_mps({"--config-of-node", in("run/config-in-force.json")});
  start_node({"--config-dir", in("map"), "--node-name", "n1"});
  ASSERT_TRUE(until_healthy(2));
  const auto config = until_config("only", "single");
  EXPECT_THAT(config["problems"].dump(), HasSubstr("is not known"));
  write("map/only", sharing("mps", 3));
  ASSERT_TRUE(until_healthy(3));
}

TEST_F(NodeNamedConfigurations, TheVariablesOfNvidiasConfigManagerSayTheSame) {
  mount("..1", {{"a", sharing("mps", 2)}, {"b", sharing("mps", 4)}});
  api_->put(kNodes, "n1", R"({"metadata":{"labels":{"example.com/gpu-config":"b"}}})");
  ASSERT_NO_FATAL_FAILURE(prepare());
  start_tranche("node", {"--kubeconfig", in("kubeconfig")},
                {{"NODE_NAME", "n1"},
                 {"CONFIG_FILE_SRCDIR", in("map")},
                 {"DEFAULT_CONFIG", ""},
                 {"FALLBACK_STRATEGIES", "empty"},
                 {"NODE_LABEL", "example.com/gpu-config"}});
  ASSERT_TRUE(until_healthy(4));
  api_->put(kNodes, "n1", R"({"metadata":{"labels":{"example.com/gpu-config":null}}})");
  ASSERT_TRUE(until_healthy(1));
  EXPECT_EQ(until_config("", "empty")["inForce"], "defaults");
}

// Promise: config/choose: Two sources at once are refused.
TEST_F(NodeNamedConfigurations, TwoPlacesAtOnceAreRefused) {
  make_node(1);
  config_path_ = in("config.yaml");
  Program& program = start_node({"--config-map", "gpu/configs"});
  EXPECT_EQ(finish(program), 2);
  EXPECT_THAT(program.err(), HasSubstr("--config-file (or $CONFIG_FILE) and --config-map"));
  config_path_ = "";
  Program& odd = start_node({"--config-map", "configs"});
  EXPECT_EQ(finish(odd), 2);
  EXPECT_THAT(odd.err(), HasSubstr("no NAMESPACE/NAME"));
}

}  // namespace named_config_test
}  // namespace tranche::e2e
