#include "mps/control/v3.h"

#include <gmock/gmock.h>

namespace tranche::mps::v3 {
namespace v3_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(V3, NamesAreEncodedSoThatTwoNeverBecomeOne) {
  EXPECT_EQ(encoded_name("gpu-3f2a1b4c").value(), "gpu_3f2a1b4c");
  EXPECT_EQ(encoded_name("0123456789abcdef").value(), "0123456789abcdef");
  for (const std::string& bad : {std::string(), std::string("a_b"), std::string("A"), std::string("a.b"),
                                 std::string("default"), std::string(65, 'a')})
    EXPECT_FALSE(encoded_name(bad)) << bad;
}

TEST(V3, CommandsAreWordsWithNamedValues) {
  EXPECT_THAT(create_server("gpu_1", {"GPU-1", "GPU-2"}),
              ElementsAre("server", "create", "gpu_1", "--uid=0", "--allowed-devices=GPU-1,GPU-2"));
  EXPECT_THAT(create_namespace("gpu_1", "g"), ElementsAre("namespace", "create", "g", "--server=gpu_1"));
  EXPECT_THAT(set_namespace("gpu_1", "g", {mib(14377), Percent{1250}}),
              ElementsAre("namespace", "set", "g", "--server=gpu_1", "--pinned-memory-limit=14377M",
                          "--active-thread-percentage=12"));
  EXPECT_THAT(set_namespace("s", "g", {{}, Percent{50}}),
              ElementsAre("namespace", "set", "g", "--server=s", "--active-thread-percentage=1"));
  EXPECT_THAT(delete_namespace("s", "g"), ElementsAre("namespace", "delete", "g", "--server=s"));
  EXPECT_THAT(list_servers(), ElementsAre("server", "list", "--format=csv"));
  EXPECT_THAT(list_namespaces("s"), ElementsAre("namespace", "list", "--server=s", "--format=csv"));
  EXPECT_THAT(list_clients(), ElementsAre("client", "list", "--all", "--format=csv"));
  EXPECT_THAT(quit(), ElementsAre("--quit"));
}

TEST(V3, TablesAreReadByTheirHeading) {
  EXPECT_THAT(parse_servers("name,uid,pid,status,pipe-directory\ngpu_1,0,77,Ready,/p/gpu_1\n").value(),
              ElementsAre(Server{"gpu_1", 77, "Ready"}));
  EXPECT_THAT(parse_namespaces("NAME,SERVER,SERVER STATUS,PINNED MEMORY LIMIT,ACTIVE THREAD PERCENTAGE,CLIENT "
                               "PRIORITY,PIPE DIRECTORY\n"
                               "g,gpu_1,Ready,\"14377M\",12,0,/p/gpu_1/g\ndefault,gpu_1,Ready,-,100,0,/p\n")
                  .value(),
              ElementsAre(Namespace{"g", "gpu_1", mib(14377), Percent::whole(12), "/p/gpu_1/g"},
                          Namespace{"default", "gpu_1", {}, Percent::whole(100), "/p"}));
  EXPECT_THAT(parse_clients("pid,server,device,namespace,command\n9,gpu_1,\"a,b\",g,python\n").value(),
              ElementsAre(Client{9, "gpu_1", "g"}));
  EXPECT_THAT(parse_clients("").value(), ElementsAre());
}

TEST(V3, WhatIsNoTableIsRefused) {
  EXPECT_THAT(parse_servers("Insufficient privileges").error().what, HasSubstr("is not a heading with"));
  EXPECT_FALSE(parse_servers("name,pid,status\na,x,Ready\n"));
  EXPECT_FALSE(parse_servers("name,pid,status\na,1\n"));
  EXPECT_FALSE(parse_servers("name,pid,status\n\"a,1,Ready\n"));
  EXPECT_FALSE(parse_clients("pid,server,namespace\n0,s,g\n")) << "a daemon that does not see our processes";
  const std::string heading = "name,server,pinned-memory-limit,active-thread-percentage,pipe-directory\n";
  EXPECT_FALSE(parse_namespaces(heading + "g,s,lots,10,/p\n"));
  EXPECT_FALSE(parse_namespaces(heading + "g,s,1G,101,/p\n"));
}

TEST(V3, ALimitCountsOnlyWhenItReadsBack) {
  const Limits expected{mib(14377), Percent::whole(12)};
  EXPECT_EQ(disagreement(expected, {"g", "s", mib(14377), Percent::whole(12), ""}), "");
  EXPECT_THAT(disagreement(expected, {"g", "s", mib(14336), Percent::whole(12), ""}),
              HasSubstr("was set to 14377M and reads back as 14336M"));
  EXPECT_THAT(disagreement(expected, {"g", "s", {}, Percent::whole(12), ""}), HasSubstr("reads back as nothing"));
  EXPECT_THAT(disagreement(expected, {"g", "s", mib(14377), {}, ""}), HasSubstr("thread percentage of namespace g"));
}

}  // namespace v3_test
}  // namespace tranche::mps::v3
