// What a node promises, proven by the real program on a simulated node; and taken away again.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <set>

#include "node/label_bed.h"
#include "os/files/files.h"
#include "other_user.h"

namespace tranche::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kSets = "/apis/apps/v1/namespaces/gpu/daemonsets";
constexpr const char* kGoodPage = R"({"program":"node","node":"n1","version":"9","ready":true,
    "driver":{"state":"ready","version":"580"},"config":{"inForce":"file","chosenBy":"file","hash":"h"},
    "mps":{"needed":false},
    "resources":[{"name":"nvidia.com/gpu","slots":8,"healthy":8,"registered":true}]})";

class NodeVerify : public LabelBed {
 protected:
  Program& verify(Strings more, const Strings& before = {}) {
    Strings argv = before;
    argv.insert(argv.end(), {tranche(), "verify"});
    const Strings paths = paths_of_node();
    argv.insert(argv.end(), paths.begin(), paths.end());
    argv.insert(argv.end(), more.begin(), more.end());
    return start(std::move(argv));
  }
  // A pod as the DaemonSet of the agents has it on n1, but for `different`.
  void put_agent(const std::string& name, const std::string& different = "{}", const std::string& in = "gpu") {
    api_->serve_collection(kSets);
    if (api_->object(kSets, "agents").empty())
      api_->put(kSets, "agents", R"({"metadata":{"uid":"the-set"},
        "spec":{"template":{"spec":{"serviceAccountName":"agent"}}}})");
    Json pod = Json::parse(R"({"metadata":{"labels":{"app.kubernetes.io/name":"tranche"},
        "ownerReferences":[{"kind":"DaemonSet","name":"agents","uid":"the-set","controller":true}]},
      "spec":{"nodeName":"n1","serviceAccountName":"agent",
        "containers":[{"name":"node","ports":[{"name":"metrics","containerPort":9999}]}]},
      "status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}})");
    pod.merge_patch(Json::parse(different));
    const std::string pods = "/api/v1/namespaces/" + in + "/pods";
    api_->serve_collection(pods);
    api_->put(pods, name, pod.dump());
    api_->put_pod(in, name, pod.dump());
  }
  // The stand-in takes "/status" at the end of a path for a part of the object before it.
  void put_page(const std::string& pod, const std::string& document, const std::string& in = "gpu") {
    const std::string page = "/api/v1/namespaces/" + in + "/pods/" + pod + ":9999";
    api_->serve_collection(page);
    api_->put(page, "proxy", document);
  }
  void put_good_node() {
    api_->put(kNodes, "n1", R"({"metadata":{"labels":{"nvidia.com/gpu.count":"2","nvidia.com/gpu.replicas":"4",
        "nvidia.com/gpu.sharing-strategy":"mps","nvidia.com/mps.capable":"true"}},
      "status":{"capacity":{"nvidia.com/gpu":"8"},"allocatable":{"nvidia.com/gpu":"8"},
        "conditions":[{"type":"Ready","status":"True"},
          {"type":"TrancheReady","status":"True","reason":"Serving","message":"serves"}]}})");
  }
  Program& verify_outside(Strings more = {}) {
    Strings argv{tranche(), "verify", "n1", "--json", "--kubeconfig", in("kubeconfig"), "--namespace", "gpu"};
    argv.insert(argv.end(), more.begin(), more.end());
    return start(std::move(argv));
  }
  // What the checks of this id about this say, joined.
  static std::string says(const Json& report, const std::string& id, const std::string& about) {
    std::string all;
    for (const auto& check : report["checks"])
      if (check["id"] == id && check.value("about", "") == about)
        all += check["verdict"].get<std::string>() + " " + check["what"].get<std::string>() + "\n";
    return all;
  }
  static Json report(const Program& program) { return Json::parse(program.out(), nullptr, false); }
  // The verdicts of a check, joined: "PASS PASS".
  static std::string verdicts(const Json& report, const std::string& id) {
    std::string all;
    for (const auto& check : report["checks"])
      if (check["id"] == id) all += (all.empty() ? "" : " ") + check["verdict"].get<std::string>();
    return all;
  }
};

// Promise: verify: A perfect node passes every check.
TEST_F(NodeVerify, HereEverythingThatAWorkingNodePromisesPasses) {
  start_all(2, 4);
  Program& run = verify({"--local", "--json", "--junit", in("out.xml")});
  EXPECT_EQ(finish(run), 0) << run.out() << run.err();
  const Json found = report(run);
  ASSERT_TRUE(found.is_object()) << run.out();
  EXPECT_EQ(found["failed"], 0);
  EXPECT_EQ(verdicts(found, "agent.ready"), "PASS");
  EXPECT_EQ(verdicts(found, "agent.same-configuration"), "PASS");
  EXPECT_EQ(verdicts(found, "agent.daemon"), "PASS PASS");
  EXPECT_EQ(verdicts(found, "agent.memory"), "PASS PASS");
  EXPECT_EQ(verdicts(found, "hardware.gpu"), "PASS PASS");
  EXPECT_EQ(verdicts(found, "hardware.compute-mode"), "PASS PASS");
  EXPECT_THAT(*os::read_file(in("out.xml")), HasSubstr("failures=\"0\""));
}

TEST_F(NodeVerify, HereADaemonThatIsGoneAndAnAgentThatIsGoneFail) {
  start_all(1, 4);
  stop(*program("mps"), SIGTERM, 0);
  until_node([](const Json& status) { return status["mps"]["connected"] == false; });
  Program& without_mps = verify({"--local"});
  EXPECT_EQ(finish(without_mps), 1);
  EXPECT_THAT(without_mps.out(), AllOf(HasSubstr("FAIL  agent.daemon"), HasSubstr("→ ")));
  stop(*program("node"), SIGTERM, 0);
  Program& without_node = verify({"--local"});
  EXPECT_EQ(finish(without_node), 1);
  EXPECT_THAT(without_node.out(), HasSubstr("does not answer on " + node_socket()));
}

// Promise: verify: Deep probes try every limit and take no slot from a pod.
// Promise: verify: Where tranche-keeper does not hold clients, none is killed beside a pod's client.
TEST_F(NodeVerify, DeepProbesTryEveryLimitOnEveryGpuAndTakeNoSlotFromAPod) {
  if (const auto why = why_no_other_user(); !why.empty()) GTEST_SKIP() << why;
  start_all(2, 4);
  // The stand-in of the driver is a library over this folder, which a process of another user opens as well.
  fs::permissions(scratch_.path(), fs::perms(0755));
  fs::permissions(in("node"), fs::perms(0777));
  for (const auto& entry : fs::recursive_directory_iterator(in("node")))
    fs::permissions(entry.path(), fs::perms(entry.is_directory() ? 0777 : 0666));
  const auto grant = admitted(kubelet(), "tenant", 1);
  Program& tenant = start_cuda(grant, {"--hold", "--allocate", "1GiB"});
  ASSERT_EQ(attached(tenant)["event"], "attached");
  const auto before = kubelet().messages().size();
  Program& run = verify({"--local", "--deep", "--json"});
  EXPECT_EQ(finish(run), 1) << run.out() << run.err();
  const Json found = report(run);
  ASSERT_TRUE(found.is_object()) << run.out();
  // No device here is nvidia-uvm, so tranche-keeper holds no client: beside the tenant none is killed, and on the other
  // GPU a death ends the neighbours.
  EXPECT_EQ(found["failed"], 2) << run.out();
  EXPECT_EQ(verdicts(found, "deep.deaths"), "FAIL FAIL");
  EXPECT_THAT(run.out(),
              AllOf(HasSubstr("0 of 3; pods' clients run on the GPU, and a death can end them; tranche-keeper did "
                              "not hold the client: it has not opened /dev/nvidia-uvm"),
                    HasSubstr("2 of 2 neighbours did not survive")));
  for (const char* id : {"deep.memory.within", "deep.memory.beyond", "deep.sms", "deep.answers", "deep.sms.variable",
                         "deep.second-process", "deep.other-user", "deep.control", "deep.neighbour"})
    EXPECT_EQ(verdicts(found, id), "PASS PASS") << id << run.out();
  EXPECT_EQ(verdicts(found, "deep.memory.variable"), "PASS PASS PASS PASS PASS PASS PASS PASS");
  EXPECT_TRUE(tenant.running()) << tenant.out();
  for (const int gpu : {0, 1}) EXPECT_TRUE(never_unhealthy(before, gpu)) << gpu;
}

TEST_F(NodeVerify, DeepWithoutMountNamespacesTriesWhatTheServerHoldsAndSkipsTheGuard) {
  if (::geteuid() != 0 || !fs::exists("/usr/bin/setpriv")) GTEST_SKIP() << "needs root and setpriv";
  start_all(1, 4);
  Program& run = verify({"--local", "--deep", "--json"}, {"/usr/bin/setpriv", "--bounding-set=-sys_admin"});
  finish(run);
  const Json found = report(run);
  ASSERT_TRUE(found.is_object()) << run.out() << run.err();
  for (const char* id : {"deep.memory.within", "deep.memory.beyond", "deep.sms", "deep.answers", "deep.sms.variable",
                         "deep.control", "deep.neighbour"})
    EXPECT_EQ(verdicts(found, id), "PASS") << id << run.out();
  EXPECT_EQ(verdicts(found, "deep.memory.variable"), "SKIP");
  EXPECT_EQ(verdicts(found, "deep.second-process"), "SKIP");
}

TEST_F(NodeVerify, DeepLeavesAGpuAloneWhosePodsHoldEverySlot) {
  if (::geteuid() != 0) GTEST_SKIP() << "probes in the place of containers need root";
  start_all(1, 2);
  admitted(kubelet(), "all", 2);
  Program& run = verify({"--local", "--deep", "--json"});
  EXPECT_EQ(finish(run), 0) << run.out() << run.err();
  EXPECT_EQ(verdicts(report(run), "deep"), "SKIP");
  EXPECT_THAT(run.out(), HasSubstr("pods hold every slot"));
}

TEST_F(NodeVerify, FromOutsideByWhatTheApiServerHas) {
  put_good_node();
  api_->put(kNodes, "n1", R"({"status":{"allocatable":{"nvidia.com/gpu":"7"}}})");
  put_agent("agent-1");
  put_agent("tenant", R"({"metadata":{"labels":null,"ownerReferences":null}})");
  Program& blind = verify_outside();
  EXPECT_EQ(finish(blind), 1) << blind.err();
  const Json first = report(blind);
  EXPECT_EQ(verdicts(first, "node.resources"), "FAIL") << blind.out() << blind.err();
  EXPECT_EQ(verdicts(first, "agent.pods"), "PASS");
  EXPECT_EQ(verdicts(first, "agent.ready"), "SKIP");

  put_good_node();
  put_page("agent-1", kGoodPage);
  Program& seeing = verify_outside();
  EXPECT_EQ(finish(seeing), 0) << seeing.out() << seeing.err();
  EXPECT_EQ(verdicts(report(seeing), "agent.ready"), "PASS") << seeing.out();
  EXPECT_EQ(verdicts(report(seeing), "node.advertised"), "PASS");

  // Deep: a probe pod needs the agent's image, and rights.
  put_page("agent-1", R"({"devices":[{"uuid":"GPU-a","resource":"nvidia.com/gpu","sharing":"mps","slotSms":12,
    "slots":[{"id":"GPU-a::0"}]}]})");
  Program& imageless = verify_outside({"--deep"});
  EXPECT_EQ(finish(imageless), 2);
  EXPECT_THAT(imageless.err(), HasSubstr("names no image"));
  EXPECT_EQ(verdicts(report(imageless), "agent.ready"), "PASS") << "what was found before is reported";
  put_agent("agent-1", R"({"spec":{"containers":[{"name":"node","image":"tranche",
    "ports":[{"name":"metrics","containerPort":9999}]}]}})");
  Program& deep = verify_outside({"--deep"});
  const std::string pods = "/api/v1/namespaces/gpu/pods";
  std::string pod;
  until(
      [&] {
        for (const auto& request : api_->requests())
          if (request.method == "POST" && request.path == pods) pod = Json::parse(request.body)["metadata"]["name"];
        return !pod.empty() && !api_->object(pods, pod).empty();
      },
      "a probe pod");
  api_->put(pods, pod, R"({"status":{"phase":"Failed","reason":"UnexpectedAdmissionError","message":"no slot"}})");
  finish(deep);
  EXPECT_THAT(says(report(deep), "deep", pod), AllOf(HasSubstr("SKIP"), HasSubstr("UnexpectedAdmissionError")));
  EXPECT_EQ(api_->object(pods, pod), "") << "taken away";
}

// Promise: verify: From outside, only the node's pods of the agents' DaemonSet are believed and copied by probe pods.
TEST_F(NodeVerify, FromOutsideAPodThatPosesAsTheAgentIsNotAskedAndNoProbeIsMadeOfIt) {
  struct Case {
    const char* name;
    const char* different;
    const char* in;
    const char* why;
  };
  const std::vector<Case> cases{
      {"posing-elsewhere", "{}", "tenant", "the namespace gpu has no node agents on n1"},
      {"posing-alone", R"({"metadata":{"ownerReferences":null}})", "gpu", "no DaemonSet of its namespace controls"},
      {"posing-owned", R"({"metadata":{"ownerReferences":[{"uid":"the-set"}]}})", "gpu",
       "no DaemonSet of its namespace controls"},
      {"posing-other-set", R"({"metadata":{"ownerReferences":[{"uid":"x","name":"agents","controller":true}]}})", "gpu",
       "no DaemonSet of its namespace controls"},
      {"posing-account", R"({"spec":{"serviceAccountName":"tenant"}})", "gpu",
       R"(its service account is "tenant", that of its DaemonSet is "agent")"}};
  put_good_node();
  put_agent("agent-2", R"({"spec":{"nodeName":"n2"}})");
  put_page("agent-2", kGoodPage);
  for (const auto& [name, different, in, why] : cases) {
    put_agent(name, different, in);
    put_page(name, kGoodPage, in);
    Program& run = verify_outside({"--deep"});
    EXPECT_EQ(finish(run), 1) << run.out() << run.err();
    const Json found = report(run);
    const std::string about = in == std::string("gpu") ? std::string("gpu/") + name : "gpu";
    EXPECT_THAT(says(found, "agent.pods", about), AllOf(HasSubstr("FAIL"), HasSubstr(why))) << run.out();
    EXPECT_THAT(says(found, "agent.pods", "gpu"), HasSubstr("has no node agents on n1")) << name;
    EXPECT_EQ(verdicts(found, "agent.ready"), "") << run.out();
    EXPECT_EQ(verdicts(found, "deep"), "SKIP") << run.out();
  }
  put_agent("agent-1");
  put_page("agent-1", kGoodPage);
  Program& beside = verify_outside();
  EXPECT_EQ(finish(beside), 1) << "a pod that poses is reported";
  EXPECT_EQ(verdicts(report(beside), "agent.ready"), "PASS") << beside.out();
  for (const auto& request : api_->requests()) {
    EXPECT_EQ(request.method, "GET") << request.path;
    EXPECT_THAT(request.path, Not(HasSubstr("posing-")));
    EXPECT_THAT(request.path, Not(HasSubstr("agent-2")));
  }
}

// Promise: verify: From outside, an agent that answers as another node, or beside a second one, is a failure.
TEST_F(NodeVerify, FromOutsideANodeHasOneAgentAndItsOwn) {
  put_good_node();
  put_agent("agent-1");
  put_page("agent-1", R"({"program":"node","node":"n2"})");
  Program& other = verify_outside({"--deep"});
  EXPECT_EQ(finish(other), 1) << other.out() << other.err();
  EXPECT_THAT(says(report(other), "agent.ready", ""), AllOf(HasSubstr("FAIL"), HasSubstr("answers as node \"n2\"")));
  EXPECT_EQ(verdicts(report(other), "deep"), "SKIP") << other.out();
  put_page("agent-1", kGoodPage);
  put_agent("agent-1b");
  put_page("agent-1b", kGoodPage);
  Program& two = verify_outside({"--deep"});
  EXPECT_EQ(finish(two), 1) << two.out() << two.err();
  EXPECT_THAT(says(report(two), "agent.ready", ""),
              AllOf(HasSubstr("FAIL"), HasSubstr("agent-1 and agent-1b both answer")));
  EXPECT_EQ(verdicts(report(two), "deep"), "SKIP") << two.out();
}

// Promise: verify: From outside, without the right to list DaemonSets no agent is believed, and the right is named.
TEST_F(NodeVerify, FromOutsideWithoutARightItNamesIt) {
  put_good_node();
  put_agent("agent-1");
  put_page("agent-1", kGoodPage);
  api_->refuse(1, 403, R"({"kind":"Status","code":403,"message":"daemonsets.apps is forbidden"})",
               [](const sim::ApiRequest& request) { return request.path == kSets; });
  Program& run = verify_outside();
  EXPECT_EQ(finish(run), 2) << run.out();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("daemonsets.apps is forbidden"),
                               HasSubstr("the rights to list pods and daemonsets and to get pods/proxy")));
  EXPECT_EQ(verdicts(report(run), "node.ready"), "PASS") << "what was found before is reported";
}

TEST_F(NodeVerify, WithoutANodeOrAClusterItSaysWhatToDo) {
  Program& nothing = start({tranche(), "verify"});
  EXPECT_EQ(finish(nothing), 2);
  EXPECT_THAT(nothing.err(), HasSubstr("--local"));
  Program& both = start({tranche(), "verify", "n1", "--local"});
  EXPECT_EQ(finish(both), 2);
  EXPECT_THAT(both.err(), HasSubstr("--inside"));
  Program& inside = start({tranche(), "verify", "--inside"});
  EXPECT_EQ(finish(inside), 2);
  EXPECT_THAT(inside.err(), HasSubstr("no share of MPS"));
  Program& unknown = start({tranche(), "verify", "n7", "--kubeconfig", in("kubeconfig")});
  EXPECT_EQ(finish(unknown), 2);
  EXPECT_THAT(unknown.err(), HasSubstr("no node n7"));
}

}  // namespace
}  // namespace tranche::e2e
