// Interface version 3 (-p 3), as the manual of release 615 describes it; no such daemon was available.
#include "standins/mps/v3.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "standins/mps/mps_world.h"

namespace tranche::sim {
namespace v3_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string kNode = "driver: 615.10\ngpus: {profile: H200}\n";

TEST(V3Words, AreModuleVerbAndNamedValues) {
  const auto command = parse_v3("namespace set g1 --server=pool --pinned-memory-limit=4G force");
  EXPECT_EQ(command.module, "namespace");
  EXPECT_EQ(command.verb, "set");
  EXPECT_THAT(command.words, ElementsAre("g1", "force"));
  EXPECT_EQ(command.option("server"), "pool");
  EXPECT_FALSE(command.has("force"));
  EXPECT_EQ(v3_size("4G"), 4ull << 30);
  EXPECT_EQ(v3_size("1024K"), 1ull << 20);
  for (const char* bad : {"", "4", "G", "1.5G", "-1M", "0M", "4T", "99999999999G"}) EXPECT_FALSE(v3_size(bad)) << bad;
  EXPECT_EQ(v3_percentage("100"), 100.0);
  for (const char* bad : {"", "0", "101", "12.5", "x"}) EXPECT_FALSE(v3_percentage(bad)) << bad;
  EXPECT_TRUE(is_v3_name("gpu_3f2a"));
  for (const char* bad : {"", "a-b", "A"}) EXPECT_FALSE(is_v3_name(bad)) << bad;
  EXPECT_EQ(v3_table({"a", "b"}, {{"1", "x,y"}}, "csv"), "a,b\n1,\"x,y\"\n");
  EXPECT_EQ(v3_table({"a", "b"}, {{"100", "2"}}, "table"), "a    b\n100  2\n");
}

class MpsV3 : public testing::Test {
 protected:
  void SetUp() override {
    auto& daemon = world_.start_daemon({"-m", "-p", "3"});
    ASSERT_NE(daemon.pid(), 0);
  }
  Reply run(std::vector<std::string> words) {
    words.insert(words.begin(), "nvidia-cuda-mps-control");
    TestProcess process({.argv = words, .env = world_.env()});
    Reply reply;
    reply.text = process.rest();
    reply.status = process.wait();
    return reply;
  }
  std::map<std::string, std::string> through(const std::string& leaf) {
    return {{"CUDA_MPS_PIPE_DIRECTORY", world_.pipe() + "/" + leaf}};
  }
  MpsWorld world_{kNode};
};

TEST_F(MpsV3, NamespacesHaveASocketAndLimitsOfTheirOwn) {
  EXPECT_EQ(run({"server", "create", "pool", "--uid=0"}).status, 0);
  EXPECT_EQ(run({"namespace", "create", "g1", "--server=pool"}).status, 0);
  EXPECT_EQ(
      run({"namespace", "set", "g1", "--server=pool", "--pinned-memory-limit=4G", "--active-thread-percentage=25"})
          .text,
      "");
  EXPECT_THAT(run({"namespace", "list", "--server=pool", "--format=csv"}).text,
              AllOf(HasSubstr("g1,pool,Ready,4096M,25,0," + world_.pipe() + "/pool/g1"), HasSubstr("default,pool,")));
  EXPECT_THAT(run({"server", "list", "--format=csv"}).text, HasSubstr("pool,0,"));
  const auto client = world_.client({}, through("pool/g1"));
  ASSERT_TRUE(client.attached()) << client.first;
  EXPECT_EQ(client.number("runs_on"), 32u);
  EXPECT_EQ(client.number("limit"), 4ull << 30);
  EXPECT_EQ(world_.client({}, through("pool")).number("runs_on"), 132u) << "the default namespace has no limits yet";
  EXPECT_THAT(run({"client", "list", "--all", "--format=csv"}).text,
              HasSubstr(std::to_string(client.process->pid()) + ",pool," + world_.uuid() + ",g1,"));
}

TEST_F(MpsV3, WhatHasClientsIsNeitherChangedNorDeleted) {
  run({"server", "create", "pool", "--uid=0"});
  run({"namespace", "create", "g1", "--server=pool"});
  auto client = world_.client({}, through("pool/g1"));
  ASSERT_TRUE(client.attached()) << client.first;
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"namespace", "set", "g1", "--server=pool", "--active-thread-percentage=25"},
           {"namespace", "delete", "g1", "--server=pool"}}) {
    const auto reply = run(words);
    EXPECT_EQ(reply.status, 1);
    EXPECT_EQ(reply.text, "Namespace g1 has clients\n");
  }
  const auto pid = std::to_string(client.process->pid());
  EXPECT_EQ(run({"client", "terminate", pid}).status, 0);
  EXPECT_EQ(run({"client", "terminate", pid}).status, 1) << "once is enough";
  client.process->signal(9);
  client.process->wait();
  EXPECT_EQ(run({"namespace", "delete", "g1", "--server=pool"}).status, 0);
  EXPECT_FALSE(std::filesystem::exists(world_.pipe() + "/pool/g1"));
}

TEST_F(MpsV3, SaysWhatIsWrong) {
  EXPECT_THAT(run({"server", "create", "my-pool"}).text, HasSubstr("Invalid server name"));
  run({"server", "create", "pool", "--uid=0"});
  EXPECT_THAT(run({"server", "create", "pool", "--uid=0"}).text, HasSubstr("already exists"));
  EXPECT_THAT(run({"namespace", "create", "g1", "--server=other"}).text, HasSubstr("Server other not found"));
  EXPECT_THAT(run({"namespace", "set", "default", "--server=pool", "--active-thread-percentage=0"}).text,
              HasSubstr("Invalid active-thread-percentage"));
  EXPECT_THAT(run({"get_server_list"}).text, HasSubstr("Unknown module"));
  EXPECT_THAT(run({"client", "terminate", "1"}).text, HasSubstr("not found"));
}

TEST_F(MpsV3, ADeletedServerTakesItsNamespacesAlongAndQuitEndsAll) {
  run({"server", "create", "pool", "--uid=0"});
  run({"namespace", "create", "g1", "--server=pool"});
  EXPECT_EQ(run({"server", "delete", "pool", "--force"}).status, 0);
  EXPECT_EQ(run({"--quit"}).status, 0);
  EXPECT_EQ(world_.daemon().wait(), 0);
}

}  // namespace v3_test
}  // namespace tranche::sim
