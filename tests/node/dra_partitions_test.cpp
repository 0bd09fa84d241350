// MIG partitions on demand on the real programs: what is published stays, an instance is made when a claim is prepared
// and destroyed when it is unprepared, whatever happens in between.
#include <future>
#include <map>
#include <random>
#include <sstream>

#include "node/dra_bed.h"

namespace tranche::e2e {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kSlices = "/apis/resource.k8s.io/v1/resourceslices";
constexpr const char* kThreeAt4 = "gpu-0-mig-3g71gb-9-4";
constexpr const char* kOneAt6 = "gpu-0-mig-1g18gb-19-6";

class NodePartitions : public NodeDra {
 protected:
  // GPU 0 is in MIG mode with these instances; a second GPU stays whole.
  void start_partitioned(const Strings& instances = {}, const std::string& dra = "devices: all, partitions: onDemand") {
    ASSERT_NO_FATAL_FAILURE(make_node(2));
    Strings cut{"gpu", "0", "mig", "on"};
    if (!instances.empty()) cut.pop_back();
    cut.insert(cut.end(), instances.begin(), instances.end());
    sim_node(cut);
    put_node_object();
    ASSERT_NO_FATAL_FAILURE(start_on_node(1, dra));
    until_published();
  }
  Json until_published() {
    return until_node([](const Json& s) { return dra_of(s, "slices").value("state", "") == "published"; });
  }
  sim::DraClaimRef claim_of(const std::string& name, const std::vector<std::string>& devices) {
    std::vector<Json> results;
    for (const auto& device : devices)
      results.push_back(result("r" + std::to_string(results.size()), device, Json::object()));
    return put_claim(name, results);
  }
  // The devices and counter sets that the API server has, by name.
  std::map<std::string, Json> published(const char* member) const {
    std::map<std::string, Json> all;
    for (const char* name : {"00000-gpu.tranche.io-n1", "00001-gpu.tranche.io-n1"}) {
      const Json slice = Json::parse(api_->object(kSlices, name), nullptr, false);
      if (!slice.is_object()) continue;
      for (const auto& one : slice.value(Json::json_pointer(std::string("/spec/") + member), Json::array()))
        all[one["name"]] = one;
    }
    return all;
  }
  std::string slices_text() const {
    return api_->object(kSlices, "00000-gpu.tranche.io-n1") + api_->object(kSlices, "00001-gpu.tranche.io-n1");
  }
  // "3g.71gb MIG-…" of each MIG device that the driver has. Unless something else makes some at this moment, each GPU
  // instance has its compute instance.
  std::map<std::string, std::string> present(bool others_make_some = false) {
    std::map<std::string, std::string> found;  // UUID → profile
    std::istringstream lines(shown_node());
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string mig, index, profile, text;
      words >> mig >> index >> profile;
      for (std::string word; words >> word;)
        if (word.starts_with("MIG-")) found[word] = profile;
      EXPECT_TRUE(others_make_some || line.find("without a compute instance") == std::string::npos) << line;
    }
    return found;
  }
  std::string mig_of(const sim::DraClaimRef& claim, std::size_t device = 0) {
    const auto envs = container_of(claim, device).envs;
    const auto at = envs.find("NVIDIA_VISIBLE_DEVICES");
    return at == envs.end() ? "" : at->second;
  }
  Json condition() const {
    const Json node = Json::parse(api_->object("/api/v1/nodes", "n1"), nullptr, false);
    if (!node.is_object()) return Json::object();
    for (const auto& one : node["status"]["conditions"])
      if (one["type"] == "TrancheDraReady") return one;
    return Json::object();
  }
};

// Promise: dra/partitions: A claim's MIG instance is made and destroyed with it; what is published stays as it is.
TEST_F(NodePartitions, AreMadeForAClaimAndGoWithIt) {
  ASSERT_NO_FATAL_FAILURE(start_partitioned());
  const auto devices = published("devices");
  ASSERT_TRUE(devices.contains(kThreeAt4) && devices.contains(kOneAt6) && devices.contains("gpu-1-shared"));
  EXPECT_FALSE(devices.contains("gpu-0"));
  const Json three = devices.at(kThreeAt4);
  EXPECT_EQ(three["attributes"]["type"]["string"], "mig");
  EXPECT_EQ(three["attributes"]["profile"]["string"], "3g.71gb");
  EXPECT_EQ(three["attributes"]["parentUUID"]["string"], uuid(0));
  EXPECT_FALSE(three["attributes"].contains("uuid"));
  EXPECT_EQ(three["consumesCounters"][0]["counterSet"], "gpu-0-counter-set");
  EXPECT_EQ(three["consumesCounters"][0]["counters"]["memory-slice-4"]["value"], "1");
  const Json set = published("sharedCounters").at("gpu-0-counter-set")["counters"];
  EXPECT_EQ(set["memory-slice-7"]["value"], "1");
  EXPECT_EQ(set["multiprocessors"]["value"], "132");
  const std::string before = slices_text();

  const auto claim = claim_of("three", {kThreeAt4});
  const auto prepared = prepare(claim);
  ASSERT_EQ(prepared.error, "");
  EXPECT_THAT(prepared.devices[0].cdi_ids, ElementsAre(std::string("gpu.tranche.io/claim=uid-three-r0-") + kThreeAt4));
  const auto made = present();
  ASSERT_THAT(made, SizeIs(1));
  EXPECT_EQ(made.begin()->second, "3g.71gb");
  EXPECT_EQ(mig_of(claim), made.begin()->first);
  EXPECT_EQ(prepare(claim), prepared) << "asked again, the answer is the same";
  EXPECT_TRUE(until_status_says("three", "Ready", "True"));
  const Json status = until_node([](const Json& s) { return dra_of(s, "claims").size() == 1; });
  EXPECT_EQ(status["dra"]["claims"][0]["parts"][0]["instance"],
            (Json{{"gpu", uuid(0)}, {"profileId", 9}, {"start", 4}, {"size", 4}, {"made", true}}));
  Program& shown = start({tranche(), "status", "--socket", node_socket()});
  EXPECT_EQ(finish(shown), 0);
  EXPECT_THAT(shown.out(), AllOf(HasSubstr("gpu-0-mig-3g"), HasSubstr("all of it, on demand")));

  EXPECT_EQ(unprepare(claim), "");
  EXPECT_THAT(present(), IsEmpty());
  EXPECT_EQ(unprepare(claim), "") << "of a claim that is not known any more";
  until_node([](const Json& s) { return dra_of(s, "claims").empty(); });
  EXPECT_EQ(slices_text(), before) << "nothing was published again";
}

// Promise: dra/partitions: A claim whose place is still held waits for the other claim, and a claim can have several.
TEST_F(NodePartitions, AClaimWaitsForTheOneThatHoldsItsPlace) {
  ASSERT_NO_FATAL_FAILURE(start_partitioned());
  const auto first = claim_of("first", {kThreeAt4, "gpu-0-mig-1g18gb-19-0"});
  ASSERT_EQ(prepare(first).error, "");
  EXPECT_THAT(present(), SizeIs(2));
  EXPECT_NE(mig_of(first, 0), mig_of(first, 1));
  const auto second = claim_of("second", {kOneAt6});
  auto waiting = std::async(std::launch::async, [&] { return kubelet_dra_->prepare({second}); });
  ASSERT_TRUE(until_says(*program("node"), "holds the MIG device at slices 4-7"));
  EXPECT_EQ(unprepare(first), "");
  EXPECT_EQ(waiting.get()->at(second.uid).error, "");
  EXPECT_EQ(present().at(mig_of(second)), "1g.18gb");
  EXPECT_EQ(unprepare(second), "");
  EXPECT_THAT(present(), IsEmpty());
}

// Promise: dra/partitions: An agent that is killed while it makes or destroys an instance leaves nothing behind.
TEST_F(NodePartitions, AnAgentThatIsKilledInBetweenGoesOn) {
  ASSERT_NO_FATAL_FAILURE(start_partitioned());
  const std::string before = slices_text();
  int number = 0;
  for (const char* call : {"nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstance",
                           "nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy"}) {
    SCOPED_TRACE(call);
    const auto claim = claim_of("c" + std::to_string(number++), {kThreeAt4});
    const bool destroys = std::string_view(call).ends_with("Destroy");
    if (destroys) {
      ASSERT_EQ(prepare(claim).error, "");
    }
    sim_node({"kill-after", call, "--times", "1"});
    const auto answer =
        destroys ? kubelet_dra_->unprepare({claim}).has_value() : kubelet_dra_->prepare({claim}).has_value();
    EXPECT_FALSE(answer) << "the agent was killed";
    EXPECT_EQ(finish(*program("node")), 128 + SIGKILL);
    sim_node({"clear"});
    start_agent();
    ASSERT_NO_FATAL_FAILURE(register_driver());
    if (!destroys) {
      ASSERT_TRUE(until_prepared(*kubelet_dra_, claim));
      EXPECT_EQ(present().at(mig_of(claim)), "3g.71gb");
      EXPECT_THAT(present(), SizeIs(1));
    }
    EXPECT_EQ(unprepare(claim), "");
    EXPECT_THAT(present(), IsEmpty());
  }
  until_published();
  EXPECT_EQ(slices_text(), before);
}

// Promise: dra/partitions: A rolling update of the agent keeps the instances of claims, and what is published.
TEST_F(NodePartitions, ARollingUpdateKeepsInstancesAndSlices) {
  ASSERT_NO_FATAL_FAILURE(start_partitioned());
  const std::string before = slices_text();
  Program& older = *program("node");
  const auto first = claim_of("first", {kThreeAt4});
  ASSERT_EQ(prepare(first).error, "");
  const auto held = present();
  const auto kubelet_of_older = std::move(kubelet_dra_);
  Program& newer = start_agent();
  ASSERT_TRUE(until_says(newer, "dra.serving"));
  // Made by the older agent, after the newer one read the record.
  const auto late = claim_of("late", {"gpu-0-mig-1g18gb-19-1"});
  ASSERT_TRUE(until_prepared(*kubelet_of_older, late));
  ASSERT_NO_FATAL_FAILURE(register_driver());
  const auto second = claim_of("second", {"gpu-0-mig-1g18gb-19-0"});
  ASSERT_TRUE(until_prepared(*kubelet_dra_, second));
  EXPECT_THAT(present(), SizeIs(3));
  EXPECT_TRUE(present().contains(held.begin()->first));
  stop(older, SIGTERM, 0);
  for (const auto& claim : {first, late, second}) EXPECT_EQ(unprepare(claim), "") << claim.name;
  EXPECT_THAT(present(), IsEmpty());
  until_published();
  EXPECT_EQ(slices_text(), before);
}

// Promise: dra/partitions: An instance that is gone, by a reboot or an administrator, is made again for its claim.
TEST_F(NodePartitions, AnInstanceThatIsGoneIsMadeAgain) {
  ASSERT_NO_FATAL_FAILURE(start_partitioned());
  const auto claim = claim_of("three", {kThreeAt4});
  ASSERT_EQ(prepare(claim).error, "");
  const auto former = mig_of(claim);
  sim_node({"gpu", "0", "mig", "on"});
  EXPECT_THAT(present(), IsEmpty());
  ASSERT_EQ(prepare(claim).error, "");
  EXPECT_THAT(present(), SizeIs(1));
  EXPECT_TRUE(present().contains(mig_of(claim)));
  sim_node({"gpu", "0", "mig", "on"});
  EXPECT_EQ(unprepare(claim), "") << "there is nothing to destroy";

  // After a reboot the record can be gone too, and MIG mode is on again before the agent starts.
  ASSERT_EQ(prepare(claim).error, "");
  sim_node({"reboot"});
  sim_node({"gpu", "0", "mig", "on"});
  ASSERT_NO_FATAL_FAILURE(reboot(1));
  ASSERT_TRUE(until_prepared(*kubelet_dra_, claim));
  EXPECT_THAT(present(), SizeIs(1));
  EXPECT_EQ(unprepare(claim), "");
  EXPECT_THAT(present(), IsEmpty());
}

// Promise: dra/partitions: Instances of other programs are not destroyed, and take their part from the counters.
TEST_F(NodePartitions, InstancesOfOtherProgramsTakeTheirPart) {
  ASSERT_NO_FATAL_FAILURE(start_partitioned({"3g.71gb"}));
  const auto before = present();
  ASSERT_THAT(before, SizeIs(1));
  const auto devices = published("devices");
  for (const auto& [name, device] : devices)
    EXPECT_FALSE(device["attributes"].value("type", Json::object()).value("string", "") == "mig" &&
                 !device.contains("consumesCounters"))
        << name << " is a MIG device that is there";
  const auto counters = [this] { return published("sharedCounters").at("gpu-0-counter-set")["counters"]; };
  const bool at_0 = counters()["memory-slice-0"]["value"] == "0";
  EXPECT_EQ(counters()[at_0 ? "memory-slice-4" : "memory-slice-0"]["value"], "1");
  EXPECT_EQ(counters()["multiprocessors"]["value"], "72");
  const auto there = claim_of("there", {at_0 ? "gpu-0-mig-3g71gb-9-0" : kThreeAt4});
  EXPECT_THAT(asked_once(there).error, HasSubstr("was not made for this claim"));
  const auto beside = claim_of("beside", {at_0 ? kThreeAt4 : "gpu-0-mig-3g71gb-9-0"});
  ASSERT_EQ(prepare(beside).error, "");
  EXPECT_EQ(unprepare(beside), "");
  EXPECT_EQ(present(), before);
  sim_node({"gpu", "0", "mig", "on"});  // its owner destroys it
  EXPECT_TRUE(until([&] { return counters()["multiprocessors"]["value"] == "132"; }, "the counters to be whole"));
  EXPECT_EQ(published("devices"), devices) << "only the counters changed";
}

// Promise: dra/partitions: A driver that fails leaves no instance and no record, and the reason is in the answer.
TEST_F(NodePartitions, ADriverThatFailsLeavesNothing) {
  ASSERT_NO_FATAL_FAILURE(start_partitioned());
  const auto fits = claim_of("fits", {"gpu-0-mig-1g18gb-19-0", kThreeAt4});
  sim_node({"fail", "nvmlGpuInstanceCreateComputeInstance", "999", "--skip", "1"});
  EXPECT_THAT(asked_once(fits).error, HasSubstr(kThreeAt4));
  EXPECT_THAT(present(), IsEmpty());
  until_node([](const Json& s) { return dra_of(s, "claims").empty(); });
  EXPECT_TRUE(fs::file_size(in("run/claims.txt")) == 0);
  sim_node({"clear"});
  EXPECT_EQ(prepare(fits).error, "");
  EXPECT_EQ(unprepare(fits), "");
}
// Promise: dra/partitions: Where the MIG manager has a configuration, no claim makes an instance.
TEST_F(NodePartitions, AreNotOfferedWhereTheMigManagerHasAConfiguration) {
  more_ = {"--mig-manager", "true"};
  ASSERT_NO_FATAL_FAILURE(start_partitioned());
  const auto claim = claim_of("three", {kThreeAt4});
  ASSERT_EQ(prepare(claim).error, "");
  const auto held = mig_of(claim);
  api_->put("/api/v1/nodes", "n1", R"({"metadata":{"labels":{"nvidia.com/mig.config":"all-1g.18gb"}}})");
  EXPECT_TRUE(until([&] { return !published("devices").contains(kOneAt6); }, "the partitions to be withdrawn"));
  EXPECT_TRUE(until([&] { return condition().value("message", "").find("all-1g.18gb") != std::string::npos; },
                    "the condition to name the configuration"));
  EXPECT_TRUE(present(true).contains(held)) << "the claim's instance stays";
  for (const auto& [name, device] : published("devices"))
    EXPECT_NE(device["attributes"].value("uuid", Json::object()).value("string", ""), held) << name;
  EXPECT_THAT(prepare(claim_of("late", {kOneAt6})).error, HasSubstr("not on this node any more"));
  EXPECT_EQ(unprepare(claim), "");
  EXPECT_TRUE(until(
      [&] {
        return std::ranges::count_if(published("devices"), [this](const auto& one) {
                 return one.second["attributes"].value("parentUUID", Json::object()).value("string", "") == uuid(0);
               }) == 7;
      },
      "the label's MIG devices to be offered as they are"));
  EXPECT_FALSE(present(true).contains(held));
}

// Promise: dra/partitions: An API server that drops counters gets no partitions, and the condition names the gate.
TEST_F(NodePartitions, AreWithheldWhereTheServerDropsCounters) {
  api_->drop_members({"consumesCounters", "sharedCounters"});
  ASSERT_NO_FATAL_FAILURE(start_partitioned());
  EXPECT_FALSE(published("devices").contains(kOneAt6));
  EXPECT_TRUE(published("devices").contains("gpu-1"));
  EXPECT_TRUE(until([&] { return condition().value("reason", "") == "Withheld"; }, "the condition"));
  EXPECT_THAT(condition().value("message", ""), HasSubstr("DRAPartitionableDevices"));
}

// Promise: dra/partitions: Claims, kills and lost instances in any order never overlap, and in the end there is none.
// Every claim that is prepared has an instance of its own.
TEST_F(NodePartitions, RandomClaimsAndRestartsNeverOverlapAndLeaveNothing) {
  ASSERT_NO_FATAL_FAILURE(start_partitioned());
  std::mt19937 random(20261126);
  const auto any = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  std::vector<std::string> names;
  for (const auto& [name, device] : published("devices"))
    if (name.starts_with("gpu-0-mig-")) names.push_back(name);
  const auto slices_of = [devices = published("devices")](const std::string& name) {
    std::set<std::string> slices;
    const Json counters = devices.at(name)["consumesCounters"][0]["counters"];
    for (const auto& [counter, value] : counters.items())
      if (counter.starts_with("memory-slice-") || counter == "ofa-engines") slices.insert(counter);
    return slices;
  };
  struct Held {
    sim::DraClaimRef claim;
    std::string device;
  };
  std::vector<Held> held;
  const char* changes = std::getenv("TRANCHE_DRA_CHANGES");
  const int rounds = changes == nullptr ? 40 : std::atoi(changes);
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const int kind = any(9);
    if (kind < 5) {
      const std::string device = names[static_cast<std::size_t>(any(static_cast<int>(names.size()) - 1))];
      const auto wanted = slices_of(device);
      const bool fits = std::ranges::none_of(held, [&](const Held& other) {
        return std::ranges::any_of(slices_of(other.device), [&](const auto& slice) { return wanted.contains(slice); });
      });
      if (!fits) continue;  // the scheduler does not grant it
      held.push_back({claim_of("c" + std::to_string(round), {device}), device});
      ASSERT_EQ(prepare(held.back().claim).error, "") << device;
    } else if (kind < 8 && !held.empty()) {
      const auto at = held.begin() + any(static_cast<int>(held.size()) - 1);
      ASSERT_EQ(unprepare(at->claim), "");
      held.erase(at);
    } else if (kind == 8) {
      stop(*program("node"), SIGKILL, 128 + SIGKILL);
      if (any(1) == 0) fs::remove_all(in("cdi"));
      start_agent();
      ASSERT_NO_FATAL_FAILURE(register_driver());
      for (const auto& each : held) ASSERT_TRUE(until_prepared(*kubelet_dra_, each.claim));
    } else if (kind == 9) {
      sim_node({"gpu", "0", "mig", "on"});  // all instances go
      for (const auto& each : held) ASSERT_TRUE(until_prepared(*kubelet_dra_, each.claim));
    }
    const auto there = present();
    ASSERT_EQ(there.size(), held.size());
    std::set<std::string> own;
    for (const auto& each : held)
      ASSERT_TRUE(own.insert(mig_of(each.claim)).second && there.contains(mig_of(each.claim)));
    drop_ended();
  }
  for (const auto& each : held) EXPECT_EQ(unprepare(each.claim), "");
  EXPECT_THAT(present(), IsEmpty());
  EXPECT_TRUE(until([&] { return fs::file_size(in("run/claims.txt")) == 0; }, "an empty claims.txt"));
}

}  // namespace
}  // namespace tranche::e2e
