// `tranche mps` whole, in the static tier: with the stand-in of a control program that knows it.
#include "agent/mps/mps_program_fixture.h"

namespace tranche::agent {
namespace static_program_test {

using ::testing::HasSubstr;

class StaticProgramTest : public MpsProgramTest {
 protected:
  // A driver whose control program knows -S, and the configuration that asks for it.
  void use_static(int replicas) {
    write("node.yaml", "driver: 590.44.01\ngpus:\n  - profile: H200\n    uuid: " + kA +
                           "\n  - profile: H200\n    uuid: " + kB + "\n");
    std::filesystem::remove(scratch_ / "state");
    node_ = *sim::Node::open(scratch_.path());
    write("config.yaml", config_text(replicas, "    tier: static\n"));
  }
  json open_door(const std::string& slots) {
    const auto answer =
        host::ask(scratch_ / "mps/mps.sock",
                  R"({"do":"openDoor","pool":"gpu-3f2a1b4c","grant":"0011223344556677","slots":)" + slots + "}", 5s);
    return answer ? json::parse(*answer, nullptr, false) : json(to_string(answer.error()));
  }
};

// Promise: mps/tier-static: A slot keeps its partition over restarts.
TEST_F(StaticProgramTest, ServesInTheStaticTierWhereTheProgramKnowsItAndGivesASlotItsPartition) {
  use_static(4);
  const pid_t pid = start();
  ASSERT_TRUE(until_serving());
  const json pool = status_["pools"][0];
  EXPECT_EQ(pool["tier"], "static");
  EXPECT_THAT(pool["reason"].get<std::string>(), HasSubstr("was not tried on hardware"));
  EXPECT_EQ(pool["partitions"].size(), 4u);
  EXPECT_EQ(pool["partitions"][3]["slots"], json::array({3}));
  EXPECT_EQ(pool["partitions"][3]["sms"], 32);
  const auto given = open_door("[3]");
  EXPECT_EQ(given["partition"], pool["partitions"][3]["id"]);
  EXPECT_EQ(open_door("[3]"), given) << "the same on a replay";
  ::kill(pid, SIGKILL);
  ASSERT_EQ(exit_code(pid), 128 + SIGKILL);
  connected_ = false;
  const pid_t second = start();
  ASSERT_TRUE(until([&](const json& status) { return status["pid"] == second && all_serving(status, 2); }));
  EXPECT_EQ(open_door("[3]"), given) << "and after a restart of ours";
  ::kill(daemons()[0], SIGKILL);
  ASSERT_TRUE(until([](const json& status) { return all_serving(status, 2) && status["pools"][0]["restarts"] != 0; }));
  EXPECT_EQ(open_door("[3]"), given) << "and of the daemon's";
}

// Promise: mps/tier-static: Partitions join while no client computes and not while one does.
TEST_F(StaticProgramTest, GivesSeveralSlotsOnePartitionWhileNobodyComputes) {
  use_static(4);
  start();
  ASSERT_TRUE(until_serving());
  const auto joined = open_door("[1,2]");
  ASSERT_TRUE(joined["ok"].get<bool>()) << joined;
  ASSERT_TRUE(until([](const json& status) {
    const auto& partitions = status["pools"][0]["partitions"];
    return partitions.size() == 3 && partitions[1]["sms"] == 64;
  }));
  EXPECT_EQ(status_["pools"][0]["partitions"][1]["id"], joined["partition"]);
  EXPECT_THAT(open_door("[9]")["error"].get<std::string>(), HasSubstr("cut for 4 slots, and slot 9 is none of them"));
  EXPECT_THAT(open_door("[]")["error"].get<std::string>(), HasSubstr("names no slots"));
}

TEST_F(StaticProgramTest, FallsBackToV2WhereAGpuHasLessChunksThanSlots) {
  use_static(17);
  start();
  ASSERT_TRUE(until_serving());
  EXPECT_EQ(status_["pools"][0]["tier"], "v2");
  EXPECT_THAT(status_["pools"][0]["reason"].get<std::string>(), HasSubstr("write replicas: 16 or less"));
  EXPECT_EQ(open_door("[3]"), json::parse(R"({"ok":true})")) << "no partition where there are none";
}

TEST_F(StaticProgramTest, ChangesTheTierOfADaemonThatNobodyUses) {
  use_static(4);
  write("config.yaml", config_text(4));
  start();
  ASSERT_TRUE(until_serving());
  EXPECT_EQ(status_["pools"][0]["tier"], "v2");
  const auto before = daemons();
  write("config.yaml", config_text(4, "    tier: static\n"));
  ASSERT_TRUE(until([](const json& status) {
    return all_serving(status, 2) && std::ranges::all_of(status["pools"], [](const json& pool) {
             return pool["tier"] == "static" && pool.contains("partitions") && pool["partitions"][0]["sms"] == 32;
           });
  }));
  for (const pid_t daemon : before) EXPECT_FALSE(runs(daemon)) << daemon;
}

}  // namespace static_program_test
}  // namespace tranche::agent
