// Claims from text to grant: what is read, what the scheduler accounts, what waits and why, what the node refuses.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "gpu/inventory/models.h"
#include "plan/make_plan.h"
#include "simulate/claim_objects.h"
#include "simulate/compare.h"
#include "simulate/land.h"
#include "simulate/published.h"
#include "simulate/table.h"

namespace tranche::simulate {
namespace claims_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

std::string request(const std::string& exactly, const std::string& name = "gpu") {
  return "{name: " + name + ", exactly: {" + exactly + "}}";
}
std::string share(const std::string& amounts, const std::string& name = "gpu") {
  return request(
      "deviceClassName: tranche-shared" + (amounts.empty() ? "" : ", capacity: {requests: {" + amounts + "}}"), name);
}
std::string objects(const std::string& kind, const std::string& name, const std::string& requests,
                    const std::string& more = "") {
  const std::string devices = "{devices: {requests: [" + requests + "]" + more + "}}";
  return "---\napiVersion: resource.k8s.io/v1\nkind: " + kind + "\nmetadata: {name: " + name +
         "}\nspec: " + (kind == "ResourceClaim" ? devices : "{spec: " + devices + "}") + "\n";
}
std::string pod(const std::string& name, const std::string& claim) {  // "resourceClaimName: x"
  return "---\nkind: Pod\nmetadata: {name: " + name + "}\nspec:\n  resourceClaims: [{name: g, " + claim +
         "}]\n  containers: [{name: main, resources: {claims: [{name: g}]}}]\n";
}
// A pod with a template of its own.
std::string tenant(const std::string& name, const std::string& requests, const std::string& more = "") {
  return objects("ResourceClaimTemplate", name, requests, more) + pod(name, "resourceClaimTemplateName: " + name);
}

Simulation on_node(const std::string& text, const std::string& model = "2xH200",
                   config::DraDevices devices = config::DraDevices::kAll,
                   config::SplitPolicy split = config::SplitPolicy::kReject,
                   const std::string& driver = "gpu.tranche.io") {
  auto read = read_pods(text, "f");
  for (const auto& problem : read.problems) ADD_FAILURE() << to_string(problem);
  config::Config config;
  config.dra.devices = devices;
  config.dra.split = split;
  config.dra.driver_name = driver;
  const auto inventory = inventory::inventory_of_model(model).value_or(inventory::Inventory{});
  const auto plan = plan::make_plan(config, inventory).value_or(plan::Plan{});
  return land(plan, inventory, config, read.pods, "n1", read.objects);
}

std::string why(const PodOutcome& pod) {
  return std::string(to_string(pod.fate)) + ": " + testing::PrintToString(pod.why);
}

std::vector<std::string> fates(const Simulation& simulation) {
  std::vector<std::string> all;
  for (const auto& pod : simulation.pods)
    all.push_back(pod.name + " " + (pod.claims.empty() ? std::string(to_string(pod.fate)) : pod.claims[0].device));
  return all;
}

// Promise: plan/claims: Amounts are booked as the scheduler rounds them.
TEST(Claims, AmountsAreBookedAsTheSchedulerRoundsThem) {
  Capacity memory{gib(80).value, gib(1).value, mib(256).value, 0, mib(256).value, {}};
  Capacity cores{100, 5, 1, 0, 1, {}};
  EXPECT_EQ(consumed(memory, gib(6).value), gib(6).value);
  EXPECT_EQ(consumed(memory, mib(6145).value), mib(6400).value);
  EXPECT_EQ(consumed(memory, std::nullopt), gib(1).value);
  EXPECT_EQ(consumed(memory, mib(1).value), mib(256).value);
  EXPECT_EQ(consumed(memory, 6'000'000'000), mib(5888).value);
  EXPECT_EQ(consumed(memory, 0), mib(256).value);
  EXPECT_EQ(consumed(memory, gib(81).value), std::nullopt);
  EXPECT_EQ(consumed(memory, ~std::uint64_t{0}), std::nullopt);
  EXPECT_EQ(consumed(cores, 3), 3u);
  EXPECT_EQ(consumed(cores, std::nullopt), 5u);
  const Capacity listed{100, 10, std::nullopt, 0, 1, {10, 20, 50}};
  EXPECT_EQ(consumed(listed, 15), 20u);
  EXPECT_EQ(consumed(listed, 51), std::nullopt);
  EXPECT_EQ(consumed(listed, 0), 10u);
  const Capacity free{80, std::nullopt, std::nullopt, 0, 1, {}};
  EXPECT_EQ(consumed(free, std::nullopt), 80u) << "all of it, where nothing is asked";
  EXPECT_EQ(consumed(free, 7), 7u);
}

ClaimObjects objects_of_files(const std::vector<std::string>& files) {
  std::string all = pod("p", "resourceClaimName: x");
  for (const auto& name : files) {
    std::ifstream file(std::string(std::getenv("TRANCHE_SOURCE")) + "/deploy/dra/" + name);
    std::stringstream text;
    text << file.rdbuf();
    all += "---\n" + text.str();
  }
  const auto read = read_pods(all, "classes.yaml");
  EXPECT_THAT(read.problems, IsEmpty());
  return read.objects;
}

TEST(Claims, TheChartsClassesAreThoseOfTheFiles) {
  const auto same = [](const ClaimObjects& read, const std::map<std::string, ClassSpec>& known) {
    ASSERT_EQ(read.classes.size(), known.size());
    for (const auto& [name, spec] : known) {
      ASSERT_TRUE(read.classes.contains(name)) << name;
      EXPECT_EQ(read.classes.at(name).selectors.at(0).terms, spec.selectors.at(0).terms);
      EXPECT_EQ(read.classes.at(name).extended_resource, spec.extended_resource);
      EXPECT_TRUE(spec.selectors.at(0).terms);
    }
  };
  same(objects_of_files({"classes.yaml"}), chart_classes("gpu.tranche.io"));
  auto nvidia = chart_classes("gpu.nvidia.com");
  for (const char* ours : {"tranche-shared", "tranche-gpu", "tranche-monitor", "tranche-mig"}) nvidia.erase(ours);
  same(objects_of_files({"nvidia-classes.yaml"}), nvidia);
}

TEST(Claims, GetAShareWithLimitsOfTheFirstGpuThatHasRoom) {
  const auto simulation = on_node(tenant("a", share("memory: 6145500Ki, cores: \"20\"")) + tenant("b", share("")) +
                                  tenant("c", share("memory: 136Gi, cores: 80")));
  EXPECT_THAT(fates(simulation), ElementsAre("a gpu-0-shared", "b gpu-0-shared", "c gpu-1-shared"));
  const ClaimGrant& a = simulation.pods[0].claims.at(0);
  EXPECT_THAT(a.consumed, ElementsAre(Pair("cores", 20), Pair("memory", mib(6002).value)));
  EXPECT_EQ(a.limits.memory, mib(6002));
  EXPECT_EQ(a.limits.sms, 30u) << "26 of 132, rounded up to a trusted count";
  EXPECT_THAT(a.containers, ElementsAre("main"));
  EXPECT_THAT(simulation.pods[1].claims.at(0).consumed, ElementsAre(Pair("cores", 7), Pair("memory", gib(1).value)));
  EXPECT_EQ(simulation.for_claims.at(0).capacity.at("cores").taken, 27u);
  EXPECT_THAT(render_table(simulation, {}), AllOf(HasSubstr("6002Mi of memory (rounded up)"), HasSubstr("2 shares")));
}

// Promise: plan/claims: A claim that fits on no GPU waits, and the plan says which capacity is short.
TEST(Claims, WaitWithTheCapacityThatIsShort) {
  const auto simulation = on_node(tenant("a", share("memory: 100Gi")) + tenant("b", share("cores: 95")) +
                                  tenant("c", share("memory: 60Gi, cores: 10")));
  EXPECT_THAT(fates(simulation), ElementsAre("a gpu-0-shared", "b gpu-1-shared", "c waits"));
  EXPECT_THAT(why(simulation.pods[2]),
              AllOf(HasSubstr("claim g, request gpu: asks for 1 device with 10 cores and 60Gi of memory of class "
                              "tranche-shared"),
                    HasSubstr("GPU 0: 41371Mi of memory left"), HasSubstr("GPU 1: 5 cores left")));
  EXPECT_THAT(simulation.pods[2].lacks, SizeIs(2));
  const auto never = on_node(tenant("huge", share("memory: 200Gi")));
  EXPECT_THAT(why(never.pods[0]),
              AllOf(HasSubstr("unknown"), HasSubstr("gpu-0-shared has 143771Mi of memory at most")));
}

TEST(Claims, TheFirstOneDecidesWhetherAGpuIsSharedOrWhole) {
  const std::string whole = request("deviceClassName: tranche-gpu");
  const auto simulation = on_node(tenant("a", share("")) + tenant("w", whole) + tenant("x", whole) +
                                  tenant("b", share("memory: 100Gi, cores: 90")) + tenant("c", share("memory: 50Gi")));
  EXPECT_THAT(fates(simulation), ElementsAre("a gpu-0-shared", "w gpu-1", "x waits", "b gpu-0-shared", "c waits"));
  EXPECT_THAT(why(simulation.pods[2]),
              AllOf(HasSubstr("GPU 1: pod default/w holds it"), HasSubstr("holds gpu-0-shared")));
  EXPECT_THAT(why(simulation.pods[4]), HasSubstr("GPU 1: pod default/w holds gpu-1"));
}

// Promise: plan/claims: MIG partitions on demand are planned by the counters of their GPU, so none overlap.
TEST(Claims, OfPartitionsOnDemandNeverOverlap) {
  const auto mig = [](const std::string& name, const std::string& profile) {
    return tenant(name, request("deviceClassName: tranche-mig, selectors: [{cel: {expression: \"device.attributes['gpu."
                                "tranche.io'].profile == '" +
                                profile + "'\"}}]"));
  };
  auto read = read_pods(mig("a", "3g.71gb") + mig("b", "1g.18gb") + mig("c", "3g.71gb") + mig("d", "7g.141gb") +
                            mig("e", "2g.35gb") + mig("f", "1g.18gb"),
                        "f");
  ASSERT_THAT(read.problems, IsEmpty());
  config::Config config;
  config.dra.devices = config::DraDevices::kAll;
  config.dra.partitions = config::DraPartitions::kOnDemand;
  auto inventory = *inventory::inventory_of_model("H200");
  inventory.gpus[0].mig_enabled = true;
  const auto plan = plan::make_plan(config, inventory).value_or(plan::Plan{});
  EXPECT_THAT(plan.left_out, IsEmpty()) << "a GPU without MIG devices";
  const auto simulation = land(plan, inventory, config, read.pods, "n1", read.objects);
  EXPECT_THAT(fates(simulation), ElementsAre("a gpu-0-mig-3g71gb-9-4", "b gpu-0-mig-1g18gb-19-0", "c waits", "d waits",
                                             "e gpu-0-mig-2g35gb-14-2", "f gpu-0-mig-1g18gb-19-1"));
  EXPECT_THAT(why(simulation.pods[3]), HasSubstr("GPU 0: pod default/b holds gpu-0-mig-1g18gb-19-0"));
  ASSERT_THAT(simulation.for_claims, SizeIs(1));
  EXPECT_EQ(simulation.for_claims[0].partitions, 4u);
  EXPECT_EQ(simulation.for_claims[0].whole_by, "");
}

TEST(Claims, SeveralRequestsAndConstraints) {
  const std::string two = share("cores: 60", "x") + ", " + share("cores: 60", "y");
  EXPECT_THAT(fates(on_node(tenant("p", two))), ElementsAre("p gpu-0-shared"));
  const auto same = on_node(tenant("p", two, ", constraints: [{matchAttribute: gpu.tranche.io/uuid}]"));
  EXPECT_THAT(why(same.pods[0]), HasSubstr("not under the claim's constraints"));
  const auto spread = on_node(
      tenant("p", share("", "x") + ", " + share("", "y"), ", constraints: [{distinctAttribute: gpu.tranche.io/uuid}]"));
  ASSERT_THAT(spread.pods.at(0).claims, SizeIs(2));
  EXPECT_EQ(spread.pods[0].claims[0].device, "gpu-0-shared");
  EXPECT_EQ(spread.pods[0].claims[1].device, "gpu-1-shared");
  const auto three = on_node(tenant("p", request("deviceClassName: tranche-gpu, count: 3")));
  EXPECT_THAT(why(three.pods[0]), AllOf(HasSubstr("unknown"), HasSubstr("asks for 3 devices")));
}

// Promise: plan/claims: Requests with several GPUs are predicted, with their refusal where no daemon serves all.
TEST(Claims, OfSeveralGpusNeedOneDaemonForThem) {
  const auto spanning = [](const std::string& exactly) {
    return on_node(tenant("p", request(exactly)), "2xH200", config::DraDevices::kAll, config::SplitPolicy::kSpan);
  };
  for (const char* exactly :
       {"deviceClassName: tranche-gpu, count: 2", "deviceClassName: tranche-gpu, allocationMode: All",
        "deviceClassName: tranche-shared, count: 2, capacity: {requests: {memory: 6Gi}}",
        "deviceClassName: tranche-shared, allocationMode: All"}) {
    const auto both = spanning(exactly);
    ASSERT_THAT(both.pods.at(0).claims, SizeIs(2)) << exactly << why(both.pods[0]);
    EXPECT_NE(both.pods[0].claims[0].uuid, both.pods[0].claims[1].uuid);
    EXPECT_THAT(both.pods[0].claims[1].containers, ElementsAre("main"));
    const auto apart = on_node(tenant("p", request(exactly)));
    EXPECT_THAT(why(apart.pods[0]), AllOf(HasSubstr("refused"), HasSubstr("(dra.split: span)"))) << exactly;
  }
}

TEST(Claims, ConfigurationsOfClassAndClaimAreAppliedAndWrongOnesAreRefused) {
  const auto config = [](const std::string& requests, const std::string& sharing) {
    return "config: [{" + requests +
           "opaque: {driver: gpu.tranche.io, parameters: {apiVersion: "
           "resource.nvidia.com/v1beta1, kind: GpuConfig, sharing: " +
           sharing + "}}}]";
  };
  const std::string half =
      "{strategy: MPS, mpsConfig: {defaultActiveThreadPercentage: 50, "
      "defaultPinnedDeviceMemoryLimit: 10Gi}}";
  const std::string classes =
      "---\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: limited}\nspec: {selectors: [{cel: "
      "{expression: \"device.driver == 'gpu.tranche.io' && device.attributes['gpu.tranche.io'].type == 'gpu'\"}}], " +
      config("", half) + "}\n";
  const std::string both =
      request("deviceClassName: limited", "x") + ", " + request("deviceClassName: tranche-gpu", "y");
  const auto by_class = on_node(classes + tenant("p", both));
  ASSERT_THAT(by_class.pods.at(0).claims, SizeIs(2)) << why(by_class.pods[0]);
  EXPECT_EQ(by_class.pods[0].claims[0].limits.memory, gib(10));
  EXPECT_EQ(by_class.pods[0].claims[0].limits.sms, 66u);
  EXPECT_EQ(by_class.pods[0].claims[1].limits.memory, Bytes{}) << "the class of the other request has none";
  const auto by_claim =
      on_node(classes + tenant("p", both, ", " + config("requests: [x], ", "{strategy: TimeSlicing}")));
  EXPECT_EQ(by_claim.pods.at(0).claims.at(0).limits.memory, Bytes{}) << "the claim comes before its class";
  const auto bad = on_node(tenant("p", share(""), ", " + config("", "{strategy: TimeSlicing}")));
  EXPECT_THAT(why(bad.pods.at(0)),
              AllOf(HasSubstr("refused"), HasSubstr("spec.devices.config[0].opaque.parameters.sharing.strategy is")));
}

TEST(Claims, TheFirstAlternativeThatFitsIsTaken) {
  const std::string either =
      "{name: gpu, firstAvailable: [{name: big, deviceClassName: tranche-shared, capacity: {requests: {memory: "
      "100Gi}}}, "
      "{name: small, deviceClassName: tranche-shared, capacity: {requests: {memory: 10Gi}}}]}";
  const auto simulation = on_node(tenant("a", either) + tenant("b", either), "1xH200");
  EXPECT_EQ(simulation.pods.at(0).claims.at(0).request, "gpu/big");
  EXPECT_EQ(simulation.pods.at(1).claims.at(0).request, "gpu/small");
}

TEST(Claims, OfOneNameAreAllocatedOnceForAllPods) {
  const auto simulation = on_node(objects("ResourceClaim", "one", share("memory: 100Gi")) +
                                  pod("a", "resourceClaimName: one") + pod("b", "resourceClaimName: one"));
  EXPECT_TRUE(simulation.all_land());
  EXPECT_EQ(simulation.for_claims.at(0).shares, 1u);
}

// Promise: plan/claims: What the scheduler grants and the node refuses is refused, with the node's own words.
TEST(Claims, ThatTheNodeRefusesAreRefusedAndKeepTheirDevices) {
  const auto simulation =
      on_node(tenant("bad", request("deviceClassName: tranche-monitor")) + tenant("good", share("")));
  EXPECT_THAT(why(simulation.pods[0]),
              AllOf(HasSubstr("refused"), HasSubstr("the node refuses it"), HasSubstr("write adminAccess: true")));
  EXPECT_TRUE(simulation.pods[0].claims.empty());
  EXPECT_EQ(simulation.pods[1].fate, Fate::kLands);
}

TEST(Claims, SelectorsThatAreNotEvaluatedAreNamed) {
  const std::string text =
      "---\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: odd}\nspec: {selectors: [{cel: "
      "{expression: \"device.capacity['gpu.tranche.io'].memory.isGreaterThan(quantity('6Gi'))\"}}]}\n" +
      tenant("p", request("deviceClassName: odd"));
  const auto simulation = on_node(text);
  EXPECT_THAT(simulation.pods[0].notes,
              ElementsAre(AllOf(HasSubstr("isGreaterThan"), HasSubstr("is not evaluated here"))));
}

TEST(Claims, WhatIsNotThereIsNamed) {
  EXPECT_THAT(why(on_node(pod("p", "resourceClaimName: nowhere")).pods[0]),
              HasSubstr("claim g names the ResourceClaim default/nowhere, which is not among"));
  EXPECT_THAT(why(on_node(tenant("p", request("deviceClassName: other"))).pods[0]), HasSubstr("names the class other"));
  EXPECT_THAT(why(on_node(tenant("p", share("")), "2xH200", config::DraDevices::kNone).pods[0]),
              HasSubstr("set dra.devices: all"));
  EXPECT_THAT(why(on_node(tenant("p", share("gpu.tranche.io/memory: 6Gi"))).pods[0]),
              HasSubstr("gpu-0-shared has no capacity"))
      << "keys are compared as they are written";
}

TEST(Claims, OfOtherDriversAreNotLookedAt) {
  const std::string text =
      "---\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: nic}\nspec: {selectors: [{cel: "
      "{expression: \"device.driver == 'nic.example.com'\"}}]}\n" +
      tenant("p", request("deviceClassName: nic"));
  const auto simulation = on_node(text);
  EXPECT_EQ(simulation.pods[0].fate, Fate::kLands);
  EXPECT_THAT(simulation.pods[0].notes, ElementsAre(HasSubstr("other drivers")));
}

TEST(Claims, AnExtendedResourceThatAClassMapsBecomesAShareOfTheDefaultSize) {
  const std::string text =
      "---\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: legacy}\nspec: {extendedResourceName: "
      "nvidia.com/gpu.shared, selectors: [{cel: {expression: \"device.driver == 'gpu.tranche.io' && "
      "device.allowMultipleAllocations && device.attributes['gpu.tranche.io'].type == 'shared'\"}}]}\n---\nkind: "
      "Pod\nmetadata: {name: p}\nspec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu.shared: 1}}}]}\n";
  const auto simulation = on_node(text);
  ASSERT_THAT(simulation.pods.at(0).claims, SizeIs(1)) << why(simulation.pods.at(0));
  EXPECT_EQ(simulation.pods[0].claims[0].request, "container-0-request-0");
  EXPECT_THAT(simulation.pods[0].claims[0].consumed, ElementsAre(Pair("cores", 7), Pair("memory", gib(1).value)));
  EXPECT_THAT(simulation.pods[0].claims[0].containers, ElementsAre("main"));
}

std::string problems(const std::string& text) {
  std::string all;
  for (const auto& problem : read_pods(text, "f").problems) all += to_string(problem) + "\n";
  return all;
}

// Promise: plan/claims: A claim that the API server would refuse is refused with its place.
// Promise: plan/claims: Under NVIDIA's driver name its classes and the resource nvidia.com/gpu are known.
TEST(Claims, OfNvidiasClassesAndItsExtendedResourceGetWholeGpus) {
  const std::string selector =
      ", selectors: [{cel: {expression: \"device.attributes['gpu.nvidia.com'].productName == "
      "'NVIDIA H200'\"}}]";
  const auto simulation = on_node(tenant("a", request("deviceClassName: gpu.nvidia.com" + selector)) +
                                      "---\nkind: Pod\nmetadata: {name: b}\nspec:\n  containers: [{name: main, "
                                      "resources: {limits: {nvidia.com/gpu: 1}}}]\n",
                                  "2xH200", config::DraDevices::kAll, config::SplitPolicy::kReject, "gpu.nvidia.com");
  EXPECT_THAT(fates(simulation), ElementsAre("a gpu-1", "b gpu-0"));
  EXPECT_THAT(simulation.pods.at(1).claims.at(0).containers, ElementsAre("main"));
}

TEST(Claims, AreReadStrictly) {
  const std::string head = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\nspec:\n";
  const std::string tail = pod("p", "resourceClaimName: c");
  const auto of = [&](const std::string& spec) { return problems(head + spec + tail); };
  EXPECT_EQ(of("  devices: {requests: [" + share("memory: 6Gi") + "]}\n"), "");
  EXPECT_THAT(of("  devices: {requests: [{name: gpu, exactly: {deviceClasName: x}}]}\n"),
              AllOf(HasSubstr("f:5:46: error: spec.devices.requests[0].exactly.deviceClasName: is not a field of"),
                    HasSubstr("did you mean deviceClassName?"), HasSubstr("has no deviceClassName")));
  EXPECT_THAT(of("  devices: {requests: [" + share("memory: lots") + "]}\n"), HasSubstr("is not a quantity"));
  EXPECT_THAT(of("  devices: {requests: [" + share("memory: -6Gi") + "]}\n"), HasSubstr("is negative"));
  EXPECT_THAT(of("  devices: {requests: [" + request("deviceClassName: x, count: 0") + "]}\n"),
              HasSubstr("must be from 1 to"));
  EXPECT_THAT(of("  devices: {requests: [{name: a}]}\n"), HasSubstr("has neither exactly nor firstAvailable"));
  EXPECT_THAT(of("  devices: {requests: [" + share("") + ", " + share("") + "]}\n"), HasSubstr("second request named"));
  EXPECT_THAT(of("  devices: {requests: [" + share("") + "], constraints: [{matchAttribute: uuid}]}\n"),
              HasSubstr("has no domain"));
  EXPECT_THAT(of("  devices: {requests: [" + share("") + "], config: [{opaque: {driver: d}}]}\n"),
              HasSubstr("needs opaque.driver and opaque.parameters"));
  EXPECT_THAT(of("  devices: {}\n"), HasSubstr("has no devices.requests"));
  EXPECT_THAT(problems("apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaim\nmetadata: {name: c}\n" + tail),
              HasSubstr("f:1:13: error: apiVersion: \"resource.k8s.io/v1beta1\" is a version"));
  EXPECT_THAT(problems("kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: m, resources: {claims: [{name: "
                       "g}]}}]}\n"),
              HasSubstr("which is not among the pod's resourceClaims"));
  EXPECT_THAT(problems(pod("p", "resourceClaim: c")),
              AllOf(HasSubstr("did you mean resourceClaimName?"), HasSubstr("needs resourceClaimName or")));
}

TEST(Claims, ThatLandElsewhereAreADifference) {
  const auto before = on_node(tenant("a", share("memory: 6Gi")));
  const auto after = on_node(tenant("a", share("memory: 8Gi")));
  const auto differences = compare(before, after);
  ASSERT_THAT(differences, SizeIs(1));
  EXPECT_EQ(differences[0].before, "claim g/gpu: gpu-0-shared, 7 cores, 6Gi of memory");
}

}  // namespace claims_test
}  // namespace tranche::simulate
