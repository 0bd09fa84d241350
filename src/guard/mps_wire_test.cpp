#include "guard/mps_wire.h"

#include <gmock/gmock.h>

namespace tranche::guard {
namespace mps_wire_test {

using mps::TerminateOutcome;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

TEST(MpsWire, RequestsAreOneLineOfAsciiThatFitsTheSocket) {
  EXPECT_EQ(terminate_request("gpu-1", {7, 9}, "memory: 5000 MiB of 4096 MiB"),
            R"({"do":"terminate","pids":[7,9],"pool":"gpu-1","reason":"memory: 5000 MiB of 4096 MiB"})");
  EXPECT_EQ(admit_request("gpu-1", "00ff11ee22dd33cc", false, "memory: x"),
            R"({"do":"admit","grant":"00ff11ee22dd33cc","open":false,"pool":"gpu-1","reason":"memory: x"})");
  const std::string most = terminate_request(
      std::string(64, 'p'), std::vector<std::uint32_t>(kMostPidsPerRequest, 4194304), std::string(120, 'r'));
  EXPECT_LT(most.size(), 1024u);
  EXPECT_THAT(terminate_request("p", {1}, "a\n\xffü"), testing::Not(testing::ContainsRegex("[^ -~]")));
}

TEST(MpsWire, RepliesTellWhatBecameOfEachClient) {
  const auto clients = read_terminated(
      R"({"ok":true,"clients":[{"pid":7,"outcome":"terminated","note":""},{"pid":9,"outcome":"refused","note":"why"}],"tookMs":12})");
  ASSERT_TRUE(clients) << to_string(clients.error());
  EXPECT_THAT(*clients, ElementsAre(mps::Terminated{7, TerminateOutcome::kTerminated, ""},
                                    mps::Terminated{9, TerminateOutcome::kRefused, "why"}));
  EXPECT_TRUE(read_reply(R"({"ok":true})"));
}

TEST(MpsWire, WhatIsNoConfirmationIsAnError) {
  for (const char* line : {"", "[]", "{}", R"({"ok":1})", R"({"ok":false})"}) {
    EXPECT_FALSE(read_reply(line)) << line;
    EXPECT_FALSE(read_terminated(line)) << line;
  }
  EXPECT_THAT(to_string(read_reply(R"({"ok":false,"error":"no such pool"})").error()), HasSubstr("no such pool"));
  EXPECT_THAT(to_string(read_terminated(R"({"error":"unknown request"})").error()), HasSubstr("unknown request"));
  for (const char* client : {R"({"pid":7})", R"({"pid":7,"outcome":"gone"})", R"({"outcome":"terminated"})",
                             R"({"pid":-7,"outcome":"terminated"})", R"({"pid":99999999999,"outcome":"terminated"})"})
    EXPECT_FALSE(read_terminated(std::string(R"({"ok":true,"clients":[)") + client + "]}")) << client;
}

TEST(MpsWire, APoolsOwnProcessesClientsAndEndpointsAreRead) {
  const auto pools = read_pool_facts(
      R"({"pid":3,"pools":[{"id":"gpu-1","state":"serving","daemonPid":11,"servers":[{"pid":12}],"proof":{"pid":13},
          "endpoints":[{"grant":"a","clients":[101,102],"admitting":true},
                   {"grant":"b","clients":[103],"admitting":false,"reason":"memory: 5 MiB of 4 MiB"},
                   {"grant":"c","clients":[],"admitting":false,"reason":"drained"}]},
          {"id":"gpu-2","state":"absent"}]})");
  ASSERT_EQ(pools.size(), 2u);
  const PoolFacts& pool = pools.at("gpu-1");
  EXPECT_EQ(pool.state, "serving");
  EXPECT_THAT(pool.own, ElementsAre(3, 11, 12, 13));
  EXPECT_THAT(pool.grant_of, ElementsAre(Pair(101, "a"), Pair(102, "a"), Pair(103, "b")));
  EXPECT_THAT(pool.endpoints, ElementsAre(Pair("a", true), Pair("b", false))) << "a different program closed c";
  EXPECT_THAT(pools.at("gpu-2").own, ElementsAre(3));
}

TEST(MpsWire, ADocumentThatIsNotUnderstoodTellsNothing) {
  for (const char* line : {"", "[]", "{}", R"({"pools":{}})", R"({"pools":[1]})"})
    EXPECT_THAT(read_pool_facts(line), IsEmpty()) << line;
}

}  // namespace mps_wire_test
}  // namespace tranche::guard
